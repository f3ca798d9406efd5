package acpagent

import (
	"encoding/json"
	"testing"
)

func TestEditOf(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"command":"str_replace","path":"/p/a","old_str":"x","new_str":"y"}`: `/p/a {"newText":"y","oldText":"x","path":"/p/a","type":"diff"}`,
		`{"command":"write","path":"/p/a","file_text":"z"}`:                   `/p/a {"newText":"z","path":"/p/a","type":"diff"}`,
		`{"command":"insert","path":"/p/a","insert_line":3,"new_str":"n"}`:    `/p/a {"newText":"n","oldText":"","path":"/p/a","type":"diff"}`,
		`{"command":"view","path":"/p/a"}`:                                    `/p/a null`,
		`{"command":"str_replace","path":"/p/a"}`:                             `/p/a null`,
		`{"command":"write","file_text":"z"}`:                                 ` null`,
		`{"command":"write","path":"/p/a","file_text":"z","Path":"/p/b"}`:     `/p/a {"newText":"z","path":"/p/a","type":"diff"}`,
		`[]`: ` null`,
		``:   ` null`,
	} {
		path, diff := EditOf(json.RawMessage(arguments))
		raw, err := json.Marshal(diff)
		if got := path + " " + string(raw); err != nil || got != want {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
}
