package opencode

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"gander.dev/gander/acp"
)

var update = flag.Bool("update", false, "rewrite the mended updates in testdata")

// TestMend compares what is made of captured updates of opencode. -update
// rewrites the sections "mended"; a dash stands for an update that says nothing new.
func TestMend(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := mendAll(t, a.Files[0].Data)
			if *update {
				a.Files[1].Data = got
				if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(a.Files[1].Data), string(got)); diff != "" {
				t.Errorf("mended (-want +got):\n%s", diff)
			}
		})
	}
}

func mendAll(t *testing.T, captured []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	m := testMender()
	for line := range bytes.Lines(captured) {
		line = bytes.TrimSpace(line)
		if !json.Valid(line) {
			t.Fatalf("not JSON: %s", line)
		}
		if mended := m.mend(line); mended != nil {
			out.Write(mended)
		} else {
			out.WriteByte('-')
		}
		out.WriteByte('\n')
	}
	if len(m.open) != 0 {
		t.Errorf("%d calls are kept after their end", len(m.open))
	}
	return out.Bytes()
}

func testMender() *mender {
	m := newMender("/workspace")
	m.tag = "t"
	return m
}

func begin(m *mender, id, tool string) json.RawMessage {
	return m.mend(fmt.Appendf(nil, `{"sessionUpdate":"tool_call","toolCallId":%q,"title":%q,"status":"pending","rawInput":{}}`, id, tool))
}

func progress(m *mender, id, status, text string) json.RawMessage {
	raw, _ := json.Marshal(text)
	return m.mend(fmt.Appendf(nil, `{"sessionUpdate":"tool_call_update","toolCallId":%q,"status":%q,"content":[{"type":"content","content":{"type":"text","text":%s}}]}`, id, status, raw))
}

// What clients get of an update.
type seen struct {
	ToolCallID string            `json:"toolCallId"`
	Content    []json.RawMessage `json:"content"`
	Meta       struct {
		ToolNotification struct {
			Params struct {
				Chunks []struct{ Output string }
			}
		} `json:"toolNotification"`
	} `json:"_meta"`
}

func read(t *testing.T, raw json.RawMessage) seen {
	t.Helper()
	var s seen
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

func (s *seen) fresh() string {
	var b strings.Builder
	for _, c := range s.Meta.ToolNotification.Params.Chunks {
		b.WriteString(c.Output)
	}
	return b.String()
}

// Models may count their calls anew in every turn, and opencode uses their ids.
func TestIDsAreUsedOnce(t *testing.T) {
	m := testMender()
	ids := map[string]bool{}
	for range 3 {
		m.begin()
		first := read(t, begin(m, "call_0", "bash")).ToolCallID
		if ids[first] {
			t.Errorf("%s is used again", first)
		}
		ids[first] = true
		if again := read(t, progress(m, "call_0", "in_progress", "x")).ToolCallID; again != first {
			t.Errorf("the call %s is updated as %s", first, again)
		}
		if asked := read(t, m.question([]byte(`{"toolCallId":"call_0","title":"x"}`))).ToolCallID; asked != first {
			t.Errorf("the call %s is asked about as %s", first, asked)
		}
		progress(m, "call_0", "completed", "x")
	}
	if other := newMender("/workspace"); other.tag == newMender("/workspace").tag {
		t.Error("two processes use the same ids")
	}
	if q := `{"toolCallId":"unknown"}`; string(m.question([]byte(q))) != q {
		t.Error("a question about an unknown call was changed")
	}
}

func TestNothingNew(t *testing.T) {
	m := testMender()
	begin(m, "a", "bash")
	if progress(m, "a", "in_progress", "x") == nil {
		t.Error("an update was dropped")
	}
	if got := progress(m, "a", "in_progress", "x"); got != nil {
		t.Errorf("said again: %s", got)
	}
	progress(m, "a", "completed", "x")
	if got := progress(m, "a", "completed", "x"); got != nil {
		t.Errorf("a call ended twice: %s", got)
	}
	if got := progress(m, "unknown", "in_progress", "x"); got != nil {
		t.Errorf("an update of no call: %s", got)
	}
	for _, odd := range []string{`{"sessionUpdate":"tool_call_update"}`, `{"sessionUpdate":"tool_call","toolCallId":7}`} {
		if got := string(m.mend([]byte(odd))); got != odd {
			t.Errorf("%s became %s", odd, got)
		}
	}
}

// What went wrong comes after what a command has printed, not in its place.
func TestOutputSurvivesFailure(t *testing.T) {
	m := testMender()
	begin(m, "a", "bash")
	progress(m, "a", "in_progress", "one\n")
	s := read(t, progress(m, "a", "failed", "Tool execution aborted"))
	if got := acp.ToolText(s.Content); got != "one\nTool execution aborted" {
		t.Errorf("content %q", got)
	}
	if got := s.fresh(); got != "Tool execution aborted" {
		t.Errorf("new output %q", got)
	}
}

// opencode sends the end of all output each time; of that, what is new adds up
// to the output.
func TestFreshOutputAddsUp(t *testing.T) {
	const window = 30_000 // opencode's
	var all, shown strings.Builder
	m := testMender()
	begin(m, "a", "bash")
	for i := range 400 {
		fmt.Fprintf(&all, "line %d of äöü some output\n", i*i)
		if i%7 == 0 {
			fmt.Fprintf(&all, "%s\n", strings.Repeat("=", 3000))
		}
		tail := []rune(all.String())
		tail = tail[max(0, len(tail)-window):]
		s := read(t, progress(m, "a", "in_progress", string(tail)))
		shown.WriteString(s.fresh())
	}
	if diff := cmp.Diff(all.String(), shown.String()); diff != "" {
		t.Errorf("output (-want +got):\n%.2000s", diff)
	}
}

// Calls that never end, as of cancelled turns, do not add up.
func TestCallsThatNeverEnd(t *testing.T) {
	m := testMender()
	for i := range 3 * maxCalls {
		begin(m, fmt.Sprint(i), "bash")
	}
	if len(m.open) > maxCalls {
		t.Errorf("%d calls are kept", len(m.open))
	}
	m.begin()
	if len(m.open) != 0 {
		t.Errorf("%d calls of the turn before are kept", len(m.open))
	}
}

func TestAwaitEnd(t *testing.T) {
	m := testMender()
	m.awaitEnd(t.Context(), "unknown") // returns at once
	begin(m, "a", "write")
	done := make(chan struct{})
	go func() { defer close(done); m.awaitEnd(t.Context(), "a") }()
	select {
	case <-done:
		t.Error("it did not wait")
	default:
	}
	progress(m, "a", "completed", "x")
	<-done
}

// Outside of a repository opencode names files from the root on, without its slash.
func TestTitles(t *testing.T) {
	m := testMender()
	file := &call{}
	file.input.FilePath = "/etc/hosts"
	for title, want := range map[string]string{
		"workspace/a/b.txt": "a/b.txt",
		"workspace":         ".",
		"etc/hosts":         "/etc/hosts",
		"a.txt":             "a.txt",
		"make workspace":    "make workspace",
		"workspaces/a":      "workspaces/a",
		"":                  "",
	} {
		if got := m.title(file, title); got != want {
			t.Errorf("title(%q) = %q, want %q", title, got, want)
		}
	}
}

// What a call has written is what its tool took, whatever a model writes besides.
func TestMendReadsAsToolsRead(t *testing.T) {
	m := newMender("/p")
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"write","kind":"edit"}`))
	done := m.mend(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","rawInput":{"filePath":"/p/Makefile","content":"x","FilePath":"/p/notes"},"rawOutput":{"metadata":{"exists":false}}}`))
	if got := string(acp.Member(done, "content")); !strings.Contains(got, `"/p/Makefile"`) {
		t.Errorf("content %s", got)
	}
}

// What is kept of calls that never end is bounded.
func TestMendKeepsLittle(t *testing.T) {
	long := strings.Repeat("x", maxInput)
	m := newMender("/p")
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","kind":"execute"}`))
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"` + long + `","title":"t"}`))
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"d","title":"` + long + `"}`))
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress","rawInput":{"filePath":"/a","content":"` + long + `"},"content":[{"type":"content","content":{"type":"text","text":"` + long + `"}}]}`))
	for id, c := range m.open {
		if kept := len(id) + len(c.id) + len(c.tool) + len(c.arguments) + len(c.shown); kept >= maxInput || c.input.Content != nil {
			t.Errorf("kept of %.10s: %d bytes", id, kept)
		}
	}
}
