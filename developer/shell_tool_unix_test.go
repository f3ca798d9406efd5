//go:build unix

package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// shellServer is a whole toolset with a shell.
func shellServer(t *testing.T, p Profile) (*Toolset, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	set, err := New(Options{Profile: p, WorkingDir: dir, HomeDir: dir, Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir}, Jobs: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return set, dir
}

func arguments(t *testing.T, v map[string]any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func callShell(t *testing.T, set *Toolset, args map[string]any) (Result, error) {
	t.Helper()
	return set.Call(t.Context(), "shell", Call{Arguments: arguments(t, args)})
}

func TestClassicShell(t *testing.T) {
	set, dir := shellServer(t, Classic)
	tests := []struct {
		name string
		args map[string]any
		want string
	}{
		{"as goose had it", map[string]any{"command": "printf 'a\\nb\\n'"}, "a\nb\n"},
		{"nothing", map[string]any{"command": "true"}, ""},
		{"exit code", map[string]any{"command": "printf 'a\\nb\\n'; exit 3"}, "a\nb\n\nCommand exited with code 3"},
		{"exit code alone", map[string]any{"command": "exit 3"}, "Command exited with code 3"},
		{"signal", map[string]any{"command": "echo a; kill -TERM $$"}, "a\n\nCommand exited with code 143 (TERM)"},
		{"timeout", map[string]any{"command": "echo a; sleep 600", "timeout_secs": 1}, "a\n\nCommand timed out after 1 seconds"},
		{"no timeout", map[string]any{"command": "pwd", "timeout_secs": nil}, dir + "\n"},
		{"100 lines", map[string]any{"command": "seq 100"}, lines(1, 100) + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := callShell(t, set, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			checkTwoBlocks(t, got)
			for _, c := range got.Content {
				if c.Text != tt.want {
					t.Errorf("for %s: %q, want %q", c.Audience, c.Text, tt.want)
				}
			}
		})
	}
}

// checkTwoBlocks: one for the model without a priority, one for the person with 0.
func checkTwoBlocks(t *testing.T, r Result) {
	t.Helper()
	if len(r.Content) != 2 || r.IsError || r.Structured != nil ||
		!slices.Equal(r.Content[0].Audience, []string{"assistant"}) || r.Content[0].Priority != nil ||
		!slices.Equal(r.Content[1].Audience, []string{"user"}) || r.Content[1].Priority == nil || *r.Content[1].Priority != 0 {
		t.Fatalf("%+v", r)
	}
}

func lines(from, to int) string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return strings.Join(all, "\n")
}

func TestClassicShellManyLines(t *testing.T) {
	set, _ := shellServer(t, Classic)
	got, err := callShell(t, set, map[string]any{"command": "seq 300; exit 1"})
	if err != nil {
		t.Fatal(err)
	}
	checkTwoBlocks(t, got)
	tail := lines(201, 300) + "\n\nCommand exited with code 1"
	if want := "NOTE: Output was 300 lines, showing only the last 100 lines.\n\n" + tail; got.Content[1].Text != want {
		t.Errorf("for the person: %q", got.Content[1].Text)
	}
	note, shown, ok := strings.Cut(got.Content[0].Text, " truncated output: \n")
	if !ok || shown != tail {
		t.Errorf("for the model: %q", got.Content[0].Text)
	}
	_, rest, _ := strings.Cut(note, "private note: output was 300 lines and we are only showing the most recent lines, remainder of lines in ")
	file, notice, _ := strings.Cut(rest, " do not show tmp file to user, that file can be searched if extra context needed to fulfill request. ")
	want := "[output: 1092 bytes, 300 lines; shown: lines 201 to 300; file: " + file + "; missing in the file: 0 bytes]"
	if text, err := os.ReadFile(file); err != nil || string(text) != lines(1, 300)+"\n" || notice != want {
		t.Errorf("the note is %q; the file has %d bytes, %v", note, len(text), err)
	}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file outlives the server")
	}
}

func TestClassicShellErrors(t *testing.T) {
	set, dir := shellServer(t, Classic)
	if err := os.WriteFile(dir+"/.env", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		call Call
		code int
		want string
	}{
		{"empty", t.Context(), Call{Arguments: arguments(t, map[string]any{"command": ""})}, InvalidParams, shellEmpty},
		{"white space", t.Context(), Call{Arguments: arguments(t, map[string]any{"command": " \n\t"})}, InvalidParams, shellEmpty},
		{"no command", t.Context(), Call{Arguments: arguments(t, map[string]any{})}, InvalidParams, "failed to deserialize parameters: missing field `command`"},
		{"a bad timeout", t.Context(), Call{Arguments: arguments(t, map[string]any{"command": "true", "timeout_secs": -1})}, InvalidParams, "timeout_secs"},
		{"guarded", t.Context(), Call{Arguments: arguments(t, map[string]any{"command": "cat .env"})}, InternalError, "The command attempts to access '.env' which is restricted by .gooseignore"},
		{"cancelled", cancelled, Call{Arguments: arguments(t, map[string]any{"command": "sleep 600"})}, InternalError, shellCancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := set.Call(tt.ctx, "shell", tt.call)
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.want) {
				t.Errorf("got %v, want %d %s", err, tt.code, tt.want)
			}
		})
	}
}

// TestShellMissingDirectory: the error names it.
func TestShellMissingDirectory(t *testing.T) {
	set, dir := shellServer(t, Classic)
	_, err := set.Call(t.Context(), "shell", Call{Arguments: arguments(t, map[string]any{"command": "pwd"}), WorkingDir: dir + "/missing"})
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != InternalError || !strings.Contains(e.Message, dir+"/missing") {
		t.Errorf("got %v", err)
	}
}

func TestShellOfASession(t *testing.T) {
	set, dir := shellServer(t, Classic)
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var live []Output
	got, err := set.Call(t.Context(), "shell", Call{
		Arguments: arguments(t, map[string]any{"command": "pwd; echo; echo \"  $AGENT_SESSION_ID\" >&2"}), WorkingDir: dir + "/sub", SessionID: "s1",
		Output: func(o Output) {
			mu.Lock()
			defer mu.Unlock()
			live = append(live, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(live, func(a, b Output) int { return strings.Compare(a.Stream, b.Stream) })
	if want := []Output{{"stderr", "  s1"}, {"stdout", dir + "/sub"}}; !slices.Equal(live, want) {
		t.Errorf("live: %q", live)
	}
	// Lines of the two streams may come in any order.
	before, after, ok := strings.Cut(got.Content[0].Text, "  s1\n")
	if !ok || !strings.Contains(before+after, dir+"/sub\n\n") {
		t.Errorf("result: %q", got.Content[0].Text)
	}
}

func TestClassicShellLeavesSomething(t *testing.T) {
	set, _ := shellServer(t, Classic)
	got, err := callShell(t, set, map[string]any{"command": "sleep 600 & echo started"})
	if err != nil {
		t.Fatal(err)
	}
	text := got.Content[0].Text
	if !strings.HasPrefix(text, "started\n\nStill running in the background: ") || !strings.Contains(text, "(sleep 600)") || !strings.Contains(text, "output-1.txt") {
		t.Errorf("%q", text)
	}
}

// TestCurrentShell has what goose 1.52 was seen to show its model.
func TestCurrentShell(t *testing.T) {
	set, dir := shellServer(t, Current)
	if err := os.WriteFile(dir+"/.env", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const notice = "Full output saved to FILE. Read it with shell commands like `head`, `tail`, or `sed -n '100,200p'` up to 2000 lines at a time.]"
	tests := []struct {
		name    string
		args    map[string]any
		want    []string
		failed  bool
		program string
	}{
		{"exit code", map[string]any{"command": "echo hi; exit 3"}, []string{"hi\n\nCommand exited with code 3"}, true, `{"stdout":"hi\n","stderr":"","exit_code":3}`},
		{"nothing", map[string]any{"command": "true"}, []string{"(no output)"}, false, `{"stdout":"","stderr":"","exit_code":0}`},
		{"blank lines", map[string]any{"command": "printf 'a\\n\\n\\n'"}, []string{"a\n\n"}, false, `{"stdout":"a\n\n\n","stderr":"","exit_code":0}`},
		{"timeout", map[string]any{"command": "echo a; sleep 600", "timeout_secs": 1}, []string{"a\n\nCommand timed out after 1 seconds"}, true, `{"stdout":"a\n","stderr":"","timed_out":true}`},
		{"lines", map[string]any{"command": "seq 3000"}, []string{lines(2951, 3000), "[Output exceeded 2000 line limit (3000 lines total). " + notice}, false, ""},
		{"bytes", map[string]any{"command": "yes | tr -d '\\n' | head -c 120000"}, []string{"", "[Output exceeded 50000 byte limit (120001 bytes total). " + notice}, false, ""},
		{"empty", map[string]any{"command": " "}, []string{"Command cannot be empty."}, true, ""},
		{"no command", map[string]any{}, []string{"Error: Failed to parse arguments: missing field `command`"}, true, ""},
		{"guarded", map[string]any{"command": "cat .env"}, []string{"The command attempts to access '.env' which is restricted by .gooseignore"}, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := callShell(t, set, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Content) != len(tt.want) || got.IsError != tt.failed {
				t.Fatalf("%+v", got)
			}
			var s currentShellStructure
			if got.Structured != nil && json.Unmarshal(got.Structured, &s) != nil || tt.program != "" && string(got.Structured) != tt.program {
				t.Errorf("for programs: %s", got.Structured)
			}
			for i, c := range got.Content {
				text := strings.Replace(c.Text, s.Saved, "FILE", min(len(s.Saved), 1))
				if tt.want[i] != "" && text != tt.want[i] || c.Priority == nil || c.Audience != nil {
					t.Errorf("block %d is %q, want %q", i, text, tt.want[i])
				}
			}
		})
	}
}

func TestJobsTool(t *testing.T) {
	set, dir := shellServer(t, Classic)
	call := func(session string, args map[string]any) (string, error) {
		got, err := set.Call(t.Context(), "jobs", Call{Arguments: arguments(t, args), SessionID: session})
		if err != nil {
			return "", err
		}
		return got.Content[0].Text, nil
	}
	for _, step := range []struct {
		session string
		args    map[string]any
		want    string // part of the answer, or of the error
	}{
		{"a", map[string]any{"action": "list"}, "No jobs."},
		{"a", map[string]any{"action": "start"}, "Missing 'command'"},
		{"a", map[string]any{"action": "start", "command": "  "}, shellEmpty},
		{"a", map[string]any{"action": "start", "command": "seq 250; exit 2"}, "Started job-1, process "},
		{"a", map[string]any{"action": "wait", "id": "job-1"}, "job-1 ended with code 2 [seq 250; exit 2]\n[output: 892 bytes, 250 lines; shown: lines 151 to 250;"},
		{"a", map[string]any{"action": "read", "id": "job-1", "first_line": 3, "last_line": 5}, "3\n4\n5"},
		{"a", map[string]any{"action": "read", "id": "job-1", "first_line": 5, "last_line": 3}, "comes after"},
		{"b", map[string]any{"action": "read", "id": "job-1"}, "there is no such job"},
		{"b", map[string]any{"action": "list"}, "No jobs."},
		{"a", map[string]any{"action": "start", "command": "echo up; sleep 600"}, "Started job-2"},
		{"a", map[string]any{"action": "wait", "id": "job-2", "timeout_secs": 1}, "job-2 is running since "},
		{"a", map[string]any{"action": "read", "id": "job-2"}, "\n\nup\n"},
		{"a", map[string]any{"action": "kill", "id": "job-2"}, "job-2 ended with code 143 (TERM)"},
		{"a", map[string]any{"action": "kill"}, "Missing 'id'"},
		{"a", map[string]any{"action": "dance"}, "unknown variant"},
		{"a", map[string]any{"action": "list"}, "job-1 ended with code 2 [seq 250; exit 2]\njob-2 ended"},
	} {
		got, err := call(step.session, step.args)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, step.want) {
			t.Errorf("%v of %s: %q, want %q", step.args, step.session, got, step.want)
		}
	}
	if err := os.WriteFile(dir+"/.env", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := call("a", map[string]any{"action": "start", "command": "cat .env"}); err == nil || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("a job reads what is hidden: %v", err)
	}
}
