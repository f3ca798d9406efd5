package goose

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
	"gander.dev/gander/sandbox/agents/acpagent"
)

var update = flag.Bool("update", false, "rewrite the mended updates in testdata")

// TestMend compares what is made of captured updates of goose. -update rewrites
// the sections "mended".
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
	m := newMender()
	for line := range bytes.Lines(captured) {
		line = bytes.TrimSpace(line)
		if !json.Valid(line) {
			t.Fatalf("not JSON: %s", line)
		}
		out.Write(m.mend(line))
		out.WriteByte('\n')
	}
	if len(m.calls) != 0 {
		t.Errorf("%d calls are kept after their end", len(m.calls))
	}
	return out.Bytes()
}

// begin tells m of a call of a tool of goose's own and returns what is shown.
func begin(m *mender, id, tool, input string) string {
	return string(m.mend(fmt.Appendf(nil, `{"sessionUpdate":"tool_call","toolCallId":%q,"title":"x","rawInput":%s,"_meta":{"goose":{"toolCall":{"toolName":%q,"extensionName":"developer"}}}}`, id, input, tool)))
}

func live(m *mender, id, output string, truncated bool) string {
	text, _ := json.Marshal(output)
	return string(m.mend(fmt.Appendf(nil, `{"sessionUpdate":"tool_call_update","toolCallId":%q,"status":"in_progress","_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"stream":"stdout","output":%s}],"truncated":%v}}}}`, id, text, truncated)))
}

// shown is the text of the content of an update.
func shown(t *testing.T, update string) string {
	t.Helper()
	var u struct {
		Content []struct {
			Content json.RawMessage `json:"content"`
		} `json:"content"`
	}
	if err := json.Unmarshal([]byte(update), &u); err != nil {
		t.Fatal(err)
	}
	if len(u.Content) != 1 {
		t.Fatalf("%d items in %s", len(u.Content), update)
	}
	return acp.ParseContentBlock(u.Content[0].Content).Text
}

// What is shown of a running tool is bounded, valid text, and says when
// something is missing.
func TestLiveOutputIsBounded(t *testing.T) {
	m := newMender()
	begin(m, "t", "shell", `{"command":"yes"}`)
	if got := shown(t, live(m, "t", "é\n", false)); got != "é\n" {
		t.Errorf("shown %q", got)
	}
	var last string
	for range 10 {
		last = live(m, "t", strings.Repeat("é", liveLimit/10)+"x", false)
	}
	text := shown(t, last)
	if len(text) > liveLimit+100 || !strings.HasPrefix(text, "[the beginning is not shown while the tool runs]\né") || strings.Contains(text, "\uFFFD") {
		t.Errorf("%d bytes: %.80q", len(text), text)
	}
	last = live(m, "t", "", true)
	if text = shown(t, last); !strings.HasSuffix(text, "[the rest is shown when the tool has ended]") {
		t.Errorf("after the cut: …%q", text[len(text)-80:])
	}
	if again := live(m, "t", "", true); strings.Contains(again, `"content"`) {
		t.Errorf("said again: %s", again)
	}
}

// What a command printed last, which goose often does not send any more, is told of
// with the result.
func TestRestOfOutput(t *testing.T) {
	end := func(m *mender, result string) string {
		text, _ := json.Marshal(result)
		final := m.mend(fmt.Appendf(nil, `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed","content":[{"type":"content","content":{"type":"text","text":%s}}]}`, text))
		if got := shown(t, string(final)); got != result {
			t.Errorf("the result is %q", got)
		}
		var u struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal(final, &u); err != nil {
			t.Fatal(err)
		}
		return acp.LiveOutput(u.Meta)
	}
	long := strings.Repeat("a line\n", liveLimit/7*2)
	for name, tt := range map[string]struct {
		live         []string
		cut          bool
		result, want string
	}{
		"all was told":           {[]string{"one\n", "two\n"}, false, "one\ntwo", ""},
		"nothing was told":       {nil, false, "one\ntwo", ""},
		"a line":                 {[]string{"one\n"}, false, "one\ntwo", "two"},
		"an empty line":          {[]string{"one\n"}, false, "one\n\ntwo", "\ntwo"},
		"the same line again":    {[]string{"one\n", "one\n"}, false, "one\none\none", "one"},
		"an exit code":           {[]string{"one\n"}, false, "one\n\nCommand exited with code 3", ""},
		"a line and a code":      {[]string{"one\n"}, false, "one\ntwo\n\nCommand exited with code 3", "two"},
		"a timeout":              {[]string{"one\n"}, false, "one\n\nCommand timed out after 3 seconds", "\nCommand timed out after 3 seconds"},
		"after much":             {[]string{long}, false, long + "end", "end"},
		"the end of much":        {[]string{"begin\n", long}, false, long[:7*200] + "end", "end"},
		"an end that is further": {[]string{"begin\n"}, true, "middle\nend", gap + "middle\nend"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMender()
			begin(m, "t", "shell", `{"command":"x"}`)
			for _, text := range tt.live {
				live(m, "t", text, false)
			}
			if tt.cut {
				live(m, "t", "", true)
			}
			if got := end(m, tt.result); got != tt.want {
				t.Errorf("%q is told of last, want %q", got, tt.want)
			}
		})
	}
}

func TestDiffs(t *testing.T) {
	final := func(text string) string {
		return fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"content","content":{"type":"text","text":%q}}]}`, text)
	}
	tests := map[string]struct {
		tool, input, final string
		want               string // the diff; empty is none
	}{
		"a new file":               {"write", `{"path":"a","content":"x\n"}`, final("Created a (1 lines)"), `{"newText":"x\n","oldText":null,"path":"a","type":"diff"}`},
		"an empty new file":        {"write", `{"path":"a","content":""}`, final("Created a (0 lines)"), `{"newText":"","oldText":null,"path":"a","type":"diff"}`},
		"a file written over":      {"write", `{"path":"a","content":"x"}`, final("Wrote a (1 lines)"), `{"newText":"x","path":"a","type":"diff"}`},
		"an edit":                  {"edit", `{"path":"a","before":"x","after":"y"}`, final("Edited a (1 lines -> 1 lines)"), `{"newText":"y","oldText":"x","path":"a","type":"diff"}`},
		"an edit that was skipped": {"edit", `{"path":"a","before":"x","after":"y"}`, final("Let the user know the tool call was skipped"), ""},
		"an edit that failed":      {"edit", `{"path":"a","before":"x","after":"y"}`, strings.Replace(final("Edited"), "completed", "failed", 1), ""},
		"another tool":             {"shell", `{"path":"a","content":"x"}`, final("Created a"), ""},
		"odd input":                {"write", `["a"]`, final("Created a"), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMender()
			begin(m, "t", tt.tool, tt.input)
			got := string(m.mend([]byte(tt.final)))
			if tt.want == "" && got != tt.final {
				t.Errorf("got %s", got)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestMessagesAndProgressAreShown(t *testing.T) {
	for notification, want := range map[string]string{
		`{"type":"message","params":{"level":"info","data":{"type":"shell_output","output":"line 1"}}}`: "line 1\n",
		`{"type":"message","params":{"data":"plain words"}}`:                                            "plain words\n",
		`{"type":"progress","params":{"progress":1,"message":"half way"}}`:                              "half way\n",
	} {
		m := newMender()
		begin(m, "t", "db__query", `{}`)
		got := m.mend([]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","_meta":{"toolNotification":` + notification + `}}`))
		if text := shown(t, string(got)); text != want {
			t.Errorf("%s is shown as %q, want %q", notification, text, want)
		}
	}
}

// What goose says itself is not written over, and what is odd passes.
func TestMendLeavesAlone(t *testing.T) {
	m := newMender()
	for _, u := range []string{
		`{"sessionUpdate":"tool_call","toolCallId":"t","kind":"fetch","status":"completed","locations":[{"path":"/x"}],"rawInput":{"path":"y"},"_meta":{"goose":{"toolCall":{"toolName":"shell"}}}}`,
		`{"sessionUpdate":"tool_call","toolCallId":7}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"unknown","status":"in_progress","_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"x"}]}}}}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":{}}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","_meta":{"toolNotification":{"type":"novelty"}}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}`,
	} {
		if got := string(m.mend([]byte(u))); got != u {
			t.Errorf("%s became %s", u, got)
		}
	}
}

// Calls that never end, as of cancelled turns, do not add up: the oldest are forgotten.
func TestCallsThatNeverEnd(t *testing.T) {
	m := newMender()
	for i := range 10*callLimit + 1 {
		begin(m, fmt.Sprint(i), "shell", `{}`)
	}
	if _, kept := m.calls[fmt.Sprint(9*callLimit+1)]; len(m.calls) != callLimit || !kept {
		t.Errorf("%d calls are kept, the newest %d among them: %v", len(m.calls), callLimit, kept)
	}
}

// The file that a call names is the one that its tool takes, whatever a model writes besides.
func TestMendReadsAsToolsRead(t *testing.T) {
	call := `{"sessionUpdate":"tool_call","toolCallId":"c","title":"edit","rawInput":{"path":"Makefile","before":"a","after":"b","Path":"notes"},"_meta":{"goose":{"toolCall":{"toolName":"edit"}}}}`
	m := newMender()
	if got := string(acp.Member(m.mend(json.RawMessage(call)), "locations")); got != `[{"path":"Makefile"}]` {
		t.Errorf("locations %s", got)
	}
}

// What is kept of calls that never end is bounded, of each and of all: the oldest pass as
// goose says them, and the newest are mended.
func TestMendKeepsLittle(t *testing.T) {
	long := strings.Repeat("x", maxInput)
	m := newMender()
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"write","rawInput":{"path":"a","content":"` + long + `"},"_meta":{"goose":{"toolCall":{"toolName":"write"}}}}`))
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"d","title":"edit","rawInput":{"command":"write","path":"a","file_text":"` + long + `"},"_meta":{"goose":{"toolCall":{"toolName":"text_editor"}}}}`))
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"` + long + `","title":"t"}`))
	m.mend(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"e","title":"t","_meta":{"goose":{"toolCall":{"toolName":"` + long + `"}}}}`))
	for id, c := range m.calls {
		if len(id) >= maxInput || c.input.Content != nil || c.edit != nil || len(c.tool) >= maxInput {
			t.Errorf("kept of %.10s: %.100v", id, c)
		}
	}
	begin(m, "s", "shell", `{"command":"x"}`)
	for range 3 {
		live(m, "s", long, false)
		if room := cap(m.calls["s"].live); room > 4*liveLimit {
			t.Errorf("the end of much output is kept in %d bytes", room)
		}
	}
	text := long[:maxInput-1000]
	const calls = 12 // of each kind
	for i := range calls {
		begin(m, fmt.Sprint("w", i), "write", `{"path":"a","content":"`+text+`"}`)
		begin(m, fmt.Sprint("e", i), "text_editor", `{"command":"write","path":"a","file_text":"`+text+`"}`)
	}
	held := 0
	for id, c := range m.calls {
		held += len(id) + len(c.tool) + len(c.input.Path) + cap(c.live)
		for _, text := range []*string{c.input.Content, c.input.Before, c.input.After} {
			if text != nil {
				held += len(*text)
			}
		}
		if edit, ok := c.edit.(map[string]any); ok {
			held += len(edit["newText"].(string))
		}
	}
	if held > acpagent.MaxHeld || held < acpagent.MaxHeld/4 {
		t.Errorf("%d bytes are held of %d calls", held, len(m.calls))
	}
	for id, mended := range map[string]bool{"w0": false, fmt.Sprint("w", calls-1): true} {
		final := `{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","status":"completed","content":[{"type":"content","content":{"type":"text","text":"Created a"}}]}`
		if got := string(m.mend([]byte(final))); strings.Contains(got, `"diff"`) != mended || !mended && got != final {
			t.Errorf("%s ends with %.200s", id, got)
		}
	}
}
