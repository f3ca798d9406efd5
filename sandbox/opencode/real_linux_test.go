package opencode

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// finals are the last updates of tool calls, as their status and what else clients look at.
type final struct {
	ToolCallID, Status string
	Content            []json.RawMessage
	RawOutput          struct {
		ExitCode *int `json:"exit_code"`
	}
}

func (r *rig) finals() []final {
	var found []final
	for _, u := range r.all("tool_call_update") {
		var f final
		if err := json.Unmarshal(u, &f); err != nil {
			r.t.Fatal(err)
		}
		if f.Status == "completed" || f.Status == "failed" {
			found = append(found, f)
		}
	}
	return found
}

func TestRealTurn(t *testing.T) {
	r := newRig(t)
	write(t, filepath.Join(r.project, "AGENTS.md"), "The project's word is heron.")
	write(t, filepath.Join(r.project, "opencode.json"), `{"model": "elsewhere/x", "provider": {"elsewhere": {}}}`)
	write(t, filepath.Join(r.project, "old.txt"), "one\ntwo\n")
	began := time.Now()
	r.open(sandbox.SessionParams{})
	t.Logf("open after %v", time.Since(began).Round(time.Millisecond))

	state := r.conv.State()
	var modes []string
	for _, m := range state.Modes.AvailableModes {
		modes = append(modes, m.ID)
	}
	if !slices.Equal(modes, []string{"build", "ask", "plan"}) || state.Modes.CurrentModeID != "build" {
		t.Errorf("modes %q, in %q", modes, state.Modes.CurrentModeID)
	}
	if o := acpagent.Option(state.ConfigOptions, acp.CategoryModel); o == nil || acpagent.StringValue(o) != "custom/duck/7b" {
		t.Errorf("options %+v", state.ConfigOptions)
	}
	if !slices.ContainsFunc(state.Notices, func(n string) bool { return strings.Contains(n, "this project's opencode.json") }) {
		t.Errorf("notices %q", state.Notices)
	}

	steps := []string{
		bash("echo one; echo two >&2; exit 3"),
		`{"tool":"write","args":{"filePath":"` + r.project + `/new.txt","content":"hello\n"}}`,
		`{"tool":"read","args":{"filePath":"` + r.project + `/old.txt"}}`,
		`{"tool":"edit","args":{"filePath":"` + r.project + `/old.txt","oldString":"two","newString":"three"}}`,
		`{"text":"all done"}`,
	}
	r.ask(scripted(strings.Join(steps, ","), "work"))
	if got := r.said(); got != "all done" {
		t.Errorf("said %q", got)
	}
	finals := r.finals()
	if len(finals) != 4 {
		t.Fatalf("%d calls ended, want 4: %+v", len(finals), finals)
	}
	for i, f := range finals {
		if want := map[bool]string{true: "failed", false: "completed"}[i == 0]; f.Status != want {
			t.Errorf("call %d: %s", i, f.Status)
		}
	}
	if out := acp.ToolText(finals[0].Content); out != "one\ntwo\n\nCommand exited with code 3" || finals[0].RawOutput.ExitCode == nil || *finals[0].RawOutput.ExitCode != 3 {
		t.Errorf("the command printed %q, exit %v", out, finals[0].RawOutput.ExitCode)
	}
	if got := content(t, r.project+"/new.txt") + content(t, r.project+"/old.txt"); got != "hello\none\nthree\n" {
		t.Errorf("files %q", got)
	}
	for _, i := range []int{1, 3} {
		if !contains(finals[i].Content, []string{`"type":"diff"`}) {
			t.Errorf("call %d has no diff", i)
		}
	}
	first := r.model.Requests()[0]
	if body := string(first.Body); !strings.Contains(body, "heron") || first.Model != "duck/7b" {
		t.Errorf("the model %s was asked without the project's instructions", first.Model)
	}
	if slices.Contains(first.Tools, "task") || slices.Contains(first.Tools, "question") || !slices.Contains(first.Tools, "bash") {
		t.Errorf("tools %q", first.Tools)
	}
	if len(r.all("usage_update")) == 0 {
		t.Error("no usage")
	}
	r.checkQuiet()
}

// checkQuiet looks for attempts to fetch anything: in opencode's log, because
// there is no network and each would be an error, and for the lock under which it
// installs packages, which it does in silence.
func (r *rig) checkQuiet() {
	r.t.Helper()
	if _, err := os.Stat(filepath.Join(r.home, ".local/state/opencode/locks")); err == nil {
		r.t.Error("opencode began to install packages")
	}
	logs, _ := filepath.Glob(filepath.Join(r.home, ".local/share/opencode/log/*"))
	if len(logs) == 0 {
		r.t.Error("opencode keeps no log")
	}
	for _, file := range logs {
		for line := range strings.Lines(content(r.t, file)) {
			for _, sign := range []string{"models.opencode", "models.dev", "github.com", "ENOTFOUND", "ECONNREFUSED", "ConnectionRefused", "FailedToOpenSocket"} {
				if strings.Contains(line, sign) {
					r.t.Errorf("opencode looked for the network: %s", line)
				}
			}
		}
	}
}

// opencode's own state, and nothing else, is in the home; the library that each
// start unpacks is in TMPDIR, which the next start clears.
func TestRealTemporaryFiles(t *testing.T) {
	r := newRig(t)
	r.open(sandbox.SessionParams{})
	r.ask(scripted(bash("mktemp -p \"$TMPDIR\" kept.XXXX")+`,{"text":"ok"}`, "temp"))
	before, _ := os.ReadDir(filepath.Join(r.home, ".tmp"))
	if len(before) == 0 {
		t.Fatal("nothing is in TMPDIR")
	}
	_ = r.conv.Close()
	_ = r.sb.Close()
	r.open(sandbox.SessionParams{})
	after, _ := os.ReadDir(filepath.Join(r.home, ".tmp"))
	for _, f := range after {
		if f.Name() != "opencode" && slices.ContainsFunc(before, func(b os.DirEntry) bool { return b.Name() == f.Name() }) {
			t.Errorf("%s is kept", f.Name())
		}
	}
}

func TestRealSlash(t *testing.T) {
	r := newRig(t)
	r.open(sandbox.SessionParams{})
	for i, words := range []string{"/etc/hosts what is this", "  /" + "etc", "// a comment", "/undo"} {
		r.ask(append(scripted(`{"text":"heard"}`, words), acp.TextBlock("second block")))
		if got := strings.Count(r.said(), "heard"); got != i+1 {
			t.Errorf("%q: the model was asked %d times", words, got)
		}
		sent, _ := json.Marshal(words)
		if body := r.messages(); !strings.Contains(body, strings.Trim(string(sent), `"`)) || strings.Contains(body, "not a command") {
			t.Errorf("%q: the model got %s", words, body[max(0, len(body)-500):])
		}
	}
	asked := len(r.model.Requests())
	r.ask([]acp.ContentBlock{acp.TextBlock("/init")})
	if body := r.messages(); len(r.model.Requests()) == asked || !strings.Contains(body, "AGENTS.md") {
		t.Error("the command /init was not expanded")
	}
}

// Whatever the model started ends with a cancelled turn; opencode goes on.
func TestRealCancel(t *testing.T) {
	r := newRig(t)
	r.open(sandbox.SessionParams{})
	r.ask(scripted(`{"text":"warm"}`, "warm up"))

	m := r.mark()
	replies := r.begin(scripted(bash("setsid sleep 4711 & (trap '' TERM; while :; do sleep 1; done) & echo started; sleep 4711")+`,{"text":"never"}`, "shell"))
	r.waitFor(`"text":"started`, "in_progress")
	if report := r.cancel(m, replies); report.Killed == 0 {
		t.Error("nothing was left to kill: the command did not escape")
	}
	for _, f := range r.finals() {
		if f.Status == "failed" && !strings.Contains(acp.ToolText(f.Content), "started") {
			t.Errorf("what the command printed is lost: %q", acp.ToolText(f.Content))
		}
	}
	r.ask(scripted(bash("echo alive")+`,{"text":"after the shell"}`, "next"))

	m = r.mark()
	replies = r.begin(scripted(`{"hang":"forever"}`, "hang"))
	if err := r.model.WaitHanging(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.cancel(m, replies)
	r.ask(scripted(`{"text":"after the hang"}`, "next but one"))
	if got := r.said(); !strings.HasSuffix(got, "after the shellafter the hang") {
		t.Errorf("said %q", got)
	}
}

func TestRealPermissions(t *testing.T) {
	r := newRig(t)
	r.open(sandbox.SessionParams{Mode: "ask"})
	if mode := r.conv.State().Modes.CurrentModeID; mode != "ask" {
		t.Fatalf("the mode is %s", mode)
	}
	var asked []string
	answer := func(option string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answer = func(q *acp.RequestPermissionRequest) string {
			asked = append(asked, string(q.ToolCall))
			return option
		}
	}
	file := r.project + "/a.txt"
	edit := `{"tool":"write","args":{"filePath":"` + file + `","content":"written\n"}},{"text":"on"}`

	answer("once")
	r.ask(scripted(bash("touch allowed")+`,{"text":"on"}`, "one"))
	if _, err := os.Stat(r.project + "/allowed"); err != nil || len(asked) != 1 || !strings.Contains(asked[0], "touch allowed") {
		t.Errorf("allowed: %v, asked %q", err, asked)
	}

	answer("reject")
	r.ask(scripted(bash("touch rejected")+`,{"text":"on"}`, "two"))
	answer("")
	r.ask(scripted(bash("touch cancelled")+`,{"text":"on"}`, "three"))
	for _, name := range []string{"rejected", "cancelled"} {
		if _, err := os.Stat(r.project + "/" + name); err == nil {
			t.Errorf("the %s command ran", name)
		}
	}

	answer("once")
	r.ask(scripted(edit, "four"))
	r.waitForFrame("<", methodWriteTextFile)
	if r.seen(">", `"error"`) {
		t.Error("a request of opencode was refused")
	}
	if got := content(t, file); got != "written\n" {
		t.Errorf("the file has %q", got)
	}
	ids := map[string]bool{}
	for _, u := range r.all("tool_call") {
		ids[read(t, u).ToolCallID] = true
	}
	for _, q := range asked {
		if !ids[read(t, []byte(q)).ToolCallID] {
			t.Errorf("asked about a call that is not known: %s", q)
		}
	}
	r.ask(scripted(bash("true")+`,{"text":"not wedged"}`, "five"))
}

// waitForFrame returns when a frame contains all of the words.
func (r *rig) waitForFrame(words ...string) {
	r.t.Helper()
	for late := time.Now().Add(patience); !r.seen(words...); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			r.t.Fatalf("no frame with %q; frames:\n%s", words, r.dump())
		}
	}
}

// A question that is open when the turn is cancelled is answered, and the next
// one can be asked.
func TestRealCancelWhileAsking(t *testing.T) {
	r := newRig(t, `OPENCODE_PERMISSION={"bash":"ask"}`)
	r.open(sandbox.SessionParams{})
	asked, release := make(chan struct{}), make(chan struct{})
	r.answer = func(*acp.RequestPermissionRequest) string {
		close(asked)
		<-release
		return ""
	}
	m := r.mark()
	replies := r.begin(scripted(bash("touch never")+`,{"text":"on"}`, "one"))
	<-asked
	close(release) // as the router does when the turn is cancelled
	r.cancel(m, replies)
	r.mu.Lock()
	r.answer = func(*acp.RequestPermissionRequest) string { return "once" }
	r.mu.Unlock()
	r.ask(scripted(bash("touch allowed")+`,{"text":"on"}`, "two"))
	if _, err := os.Stat(r.project + "/allowed"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.project + "/never"); err == nil {
		t.Error("the cancelled command ran")
	}
}

func TestRealModes(t *testing.T) {
	r := newRig(t)
	r.open(sandbox.SessionParams{})
	if err := r.conv.SetMode(t.Context(), "plan"); err != nil {
		t.Fatal(err)
	}
	if mode := r.conv.State().Modes.CurrentModeID; mode != "plan" {
		t.Errorf("the mode is %s", mode)
	}
	r.ask(scripted(`{"tool":"write","args":{"filePath":"`+r.project+`/a.txt","content":"x"}},{"text":"on"}`, "plan"))
	if _, err := os.Stat(r.project + "/a.txt"); err == nil {
		t.Error("a file was written in mode plan")
	}
	if err := r.conv.SetMode(t.Context(), "no-such-mode"); err == nil {
		t.Error("an unknown mode was taken")
	}
	if mode := r.conv.State().Modes.CurrentModeID; mode != "plan" {
		t.Errorf("the mode is %s after one that was refused", mode)
	}
}

// A conversation goes on after the death of the process.
func TestRealDeathAndResume(t *testing.T) {
	r := newRig(t)
	r.open(sandbox.SessionParams{})
	r.ask(scripted(`{"text":"noted"}`, "the word is cormorant"))
	id := r.conv.ID()
	got := r.await(r.begin(scripted(bash("kill -9 $OPENCODE_PID; sleep 60"), "die")))
	if got.err == nil || !strings.Contains(got.err.Error(), "KILL") {
		t.Errorf("the turn of a death was answered %+v, %v", got.resp, got.err)
	}
	<-r.conv.Done()
	_ = r.sb.Close()
	before := len(r.all(acp.AgentMessageChunk)) + len(r.all(acp.UserMessageChunk))
	r.open(sandbox.SessionParams{ResumeID: id})
	if r.conv.ID() != id {
		t.Fatalf("continued %s as %s", id, r.conv.ID())
	}
	if after := len(r.all(acp.AgentMessageChunk)) + len(r.all(acp.UserMessageChunk)); after != before {
		t.Error("the conversation is told again")
	}
	r.ask(append(scripted(`{"text":"back"}`), acp.TextBlock("/etc/hosts")))
	if body := r.messages(); !strings.Contains(body, "cormorant") {
		t.Error("the model does not get what was said before")
	}
}

// opencode tries again by itself; in the end the person gets its words.
func TestRealModelTrouble(t *testing.T) {
	r := newRig(t)
	r.open(sandbox.SessionParams{})
	r.ask(scripted(`{"status":500,"times":1},{"text":"recovered"}`, "one"))
	if r.said() != "recovered" {
		t.Errorf("said %q", r.said())
	}
	got := r.await(r.begin(scripted(`{"status":400,"text":"no such duck"}`, "two")))
	if got.err == nil || !strings.Contains(got.err.Error(), "no such duck") {
		t.Errorf("answered %+v, %v", got.resp, got.err)
	}
	r.ask(scripted(`{"text":"cut o","finish":"length"}`, "three"))
	if finish := r.gate.LastFinish(); finish != "length" {
		t.Errorf("the model's answer ended with %q", finish)
	}
}
