package telemetry_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"gander.dev/gander/sandbox/telemetry"
)

// TestPreview checks that values are cut with an ellipsis, and structured ones are JSON.
func TestPreview(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for arguments, want := range map[string]string{
		`{"path":"a.go","line": 3}`:                     "path=a.go, line=3",
		`{"text":"` + long + `"}`:                       "text=" + strings.Repeat("ä", 79) + "…",
		`{"text":"` + strings.Repeat("ä", 80) + `"}`:    "text=" + strings.Repeat("ä", 80),
		"{\"edits\":[ {\"old\" : \"a\\nb\"} ,\n true]}": `edits=[{"old":"a\nb"},true]`,
		`"` + strings.Repeat("x", 300) + `"`:            `"` + strings.Repeat("x", 198) + "…",
	} {
		if got := telemetry.Preview(json.RawMessage(arguments)); got != want {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
	call := telemetry.Call("shell", "1", json.RawMessage(`{"a":"`+long+`","b":"`+long+`","c":"`+long+`"}`), "")
	if n := utf8.RuneCountInString(call.Summary); n != telemetry.SummaryLimit || !strings.HasSuffix(call.Summary, "…") {
		t.Errorf("a summary of %d characters: %s", n, call.Summary)
	}
}
