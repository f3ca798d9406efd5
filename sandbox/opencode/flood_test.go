package opencode

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// What is kept of all open calls together is bounded: the oldest pass as opencode says
// them, but that nothing is told twice of what they print.
func TestMendKeepsLittleOfAll(t *testing.T) {
	const calls = 12 // of which each keeps three times its text
	text := strings.Repeat("x", maxInput-1000)
	m := testMender()
	begin(m, "printing", "bash")
	printed := text + strings.Repeat("line\n", 100)
	progress(m, "printing", "in_progress", printed)
	begin(m, "failing", "bash")
	progress(m, "failing", "in_progress", printed)
	wrote := func(id, status string) string {
		return fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":%q,"status":%q,%%s"rawOutput":{"metadata":{"exists":false}}}`, id, status)
	}
	for i := range calls {
		id := fmt.Sprint("w", i)
		begin(m, id, "write")
		m.mend(fmt.Appendf(nil, wrote(id, "in_progress"), `"rawInput":{"filePath":"/workspace/a","content":"`+text+`"},`))
	}
	held := 0
	for id, c := range m.open {
		held += len(id) + len(c.id) + len(c.tool) + len(c.input.FilePath) + len(c.arguments) + len(c.shown) + len(c.last)
		if c.input.Content != nil {
			held += len(*c.input.Content)
		}
	}
	if held > acpagent.MaxHeld || held < acpagent.MaxHeld/2 {
		t.Errorf("%d bytes are held of %d calls", held, len(m.open))
	}
	for id, mended := range map[string]bool{"w0": false, fmt.Sprint("w", calls-1): true} {
		if got := string(m.mend(fmt.Appendf(nil, wrote(id, "completed"), ""))); strings.Contains(got, `"diff"`) != mended {
			t.Errorf("%s ends with %.200s", id, got)
		}
	}
	s := read(t, progress(m, "printing", "completed", printed+"end\n"))
	if got := s.fresh(); got != "end\n" {
		t.Errorf("%.100q, %d bytes, is told of last", got, len(got))
	}
	s = read(t, progress(m, "failing", "failed", "it was ended"))
	if got := acp.ToolText(s.Content); !strings.HasPrefix(got, gap) || !strings.HasSuffix(got, "line\nit was ended") {
		t.Errorf("what failed ends with %.100q, %d bytes", got, len(got))
	}
}

// An input that is not kept does not leave one that it has replaced.
func TestInputThatIsTooLong(t *testing.T) {
	m := testMender()
	begin(m, "a", "write")
	for _, content := range []string{"x", strings.Repeat("y", maxInput)} {
		m.mend([]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"in_progress","rawInput":{"filePath":"/workspace/a","content":"` + content + `"}}`))
	}
	got := string(m.mend([]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","rawOutput":{"metadata":{"exists":false}}}`)))
	if strings.Contains(got, `"diff"`) {
		t.Errorf("shown as %s", got)
	}
}

// The end of a text does not keep all of it in memory.
func TestEndsAreCopies(t *testing.T) {
	text := strings.Repeat("x", 10*shownLimit)
	at := uintptr(unsafe.Pointer(unsafe.StringData(lastOf(text))))
	if whole := uintptr(unsafe.Pointer(unsafe.StringData(text))); at >= whole && at < whole+uintptr(len(text)) {
		t.Error("the end is a part of the whole")
	}
}

// What is remembered of questions and commands is bounded.
func TestQuestionsAndCommandsAreBounded(t *testing.T) {
	c := testClient(t, new(editor))
	long := strings.Repeat("x", 1<<20)
	c.writes.propose(json.RawMessage(`{"toolCallId":"` + long + `","content":[{"type":"diff","path":"/a"}]}`))
	c.writes.propose(json.RawMessage(`{"toolCallId":"t","content":[{"type":"diff","path":"/` + long + `"}]}`))
	held := 0
	for path, p := range c.writes.proposals {
		held += len(path) + len(p.callID)
	}
	if held > 0 {
		t.Errorf("%d bytes are held of long names", held)
	}
	var diffs, commands []string
	for i := range 2 * maxCommands {
		diffs = append(diffs, fmt.Sprintf(`{"type":"diff","path":"/a%d"}`, i))
		commands = append(commands, fmt.Sprintf(`{"name":"c%d"}`, i))
	}
	c.writes.propose(json.RawMessage(`{"toolCallId":"t","content":[` + strings.Join(diffs, ",") + `]}`))
	if n := len(c.writes.proposals); n > maxProposals || n == 0 {
		t.Errorf("%d proposals are remembered", n)
	}
	tell(t, c, `{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"`+long+`"},`+strings.Join(commands, ",")+`]}`)
	if n := len(c.commands); n != maxCommands || c.commands[long] {
		t.Errorf("%d commands are remembered", n)
	}
}
