package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/conformance/harness"
	"gander.dev/gander/conformance/model"
)

// Gander's Windows build, under wine, with the conformance harness's own agent in its
// sandboxes: what holds there, and that what does not is said.
func TestWindows(t *testing.T) {
	spots(t)
	t.Parallel()
	w := newWindows(t)
	t.Run("session", func(t *testing.T) { w.in(t).session() })
	t.Run("exec", func(t *testing.T) { w.in(t).exec() })
	t.Run("batch", func(t *testing.T) { w.in(t).batch() })
	t.Run("commands", func(t *testing.T) { w.in(t).commands() })
	t.Run("developer", func(t *testing.T) { w.in(t).developer() })
}

// windows is a prefix of wine's, with a home of gander's and a project.
type windows struct {
	t                  *testing.T
	dir, home, project string // as this machine has them
	model              *model.Server
	env                []string
}

func newWindows(t *testing.T) *windows {
	t.Helper()
	dir := needWine(t)
	forWindows(t, dir, "agent.exe", "gander.dev/gander/conformance/acp", "test", "-c")
	w := &windows{t: t, dir: dir, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), model: model.New(model.Options{Key: canary, Keep: 1000})}
	host, err := w.model.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.model.Close() })
	fake := func(defect string) map[string]any {
		return map[string]any{
			"command": []string{windowsPath(filepath.Join(dir, "agent.exe")), "fake-agent", defect},
			"env":     map[string]string{"OPENAI_HOST": "{modelUrl}", "OPENAI_API_KEY": "{key}"},
		}
	}
	config := encode(t, map[string]any{
		"agent": "fake", "model": map[string]any{"model": "gpt-4o"}, "sandbox": map[string]any{"driver": "local", "pool": 0},
		"agents": map[string]any{"fake": fake(""), "asking": fake("writes through the client")},
	})
	err = errors.Join(os.Mkdir(w.home, 0o700), os.Mkdir(w.project, 0o755), os.WriteFile(filepath.Join(w.home, "config.json"), []byte(config), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	w.env = append(list(wineEnv(dir)), "PATH="+os.Getenv("PATH"), "HOME="+dir, "LANG=C.UTF-8",
		"GANDER_HOME="+windowsPath(w.home), "LLM_HOST="+host, "LLM_API_KEY="+canary)
	return w
}

// in is the same machine for a part of its test.
func (w *windows) in(t *testing.T) *windows {
	part := *w
	part.t = t
	return &part
}

// command is gander with arguments, in the project.
func (w *windows) command(args ...string) []string {
	return append([]string{"wine", filepath.Join(w.dir, "gander.exe")}, args...)
}

// run runs gander and returns its stdout, its stderr and its exit code. What wine made no
// process for runs again.
func (w *windows) run(stdin string, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	for range 3 {
		cmd := exec.CommandContext(soon(w.t), "wine", w.command(args...)[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdin = w.project, w.env, strings.NewReader(stdin)
		var out, complaints bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &complaints, patience
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			w.t.Fatal(err)
		}
		stdout, stderr, code = lf(out.String()), lf(complaints.String()), cmd.ProcessState.ExitCode()
		if !strings.Contains(stderr, notMade) && (code == 0 || stdout+stderr != "") {
			break
		}
		w.t.Logf("wine made no process for %q: %s", args, stderr)
	}
	return stdout, stderr, code
}

// lf is a text with the line ends of this machine.
func lf(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// A windowsEditor is an editor with gander as its agent, or a client with it as its server.
type windowsEditor struct {
	*harness.Peer
	w *windows
}

// editor starts gander acp and greets it.
func (w *windows) editor(args ...string) *windowsEditor {
	w.t.Helper()
	e := w.start(append([]string{"acp", "--log-level", "debug"}, args...)...)
	e.ask("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, nil)
	return e
}

// start starts gander.
func (w *windows) start(args ...string) *windowsEditor {
	w.t.Helper()
	p, err := harness.Start(harness.Launch{
		Command: w.command(args...), Dir: w.project, Environ: w.env,
		Mark: "windows-" + strings.ReplaceAll(w.t.Name(), "/", "-") + "-" + time.Now().Format("150405.000000"), Patience: patience,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	e := &windowsEditor{p, w}
	w.t.Cleanup(func() {
		p.Discard()
		harness.KillMarked(p.Mark)
		if w.t.Failed() {
			w.t.Logf("gander says: %s", p.Complaints())
		}
	})
	return e
}

// reply waits for the answer to a request, which must be a result.
func (e *windowsEditor) reply(r *harness.Request, result any) {
	e.w.t.Helper()
	select {
	case <-r.Done:
	case <-time.After(patience):
		e.w.t.Fatalf("request %s is not answered", r.ID)
	}
	if r.Answer == nil || r.Answer.Error != nil {
		e.w.t.Fatalf("request %s is answered with %+v", r.ID, r.Answer)
	}
	if result != nil {
		if err := json.Unmarshal(r.Answer.Result, result); err != nil {
			e.w.t.Fatalf("%s: %v", r.Answer.Result, err)
		}
	}
}

func (e *windowsEditor) ask(method string, params map[string]any, result any) {
	e.w.t.Helper()
	e.reply(e.Ask(method, params), result)
}

// open opens a session in a directory.
func (e *windowsEditor) open(cwd string) string {
	e.w.t.Helper()
	var s struct{ SessionID string }
	e.ask("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}}, &s)
	return s.SessionID
}

// begin begins a turn.
func (e *windowsEditor) begin(session, text string) *harness.Request {
	return e.Ask("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": text}}})
}

// prompt is a turn, and all that was shown in it.
func (e *windowsEditor) prompt(session, text string) (stop, shown string) {
	e.w.t.Helper()
	var got struct{ StopReason string }
	from := e.Seen()
	e.reply(e.begin(session, text), &got)
	return got.StopReason, e.shown(from)
}

// shown is what was shown since a frame.
func (e *windowsEditor) shown(from int) string {
	var all strings.Builder
	for _, f := range e.Notifications("session/update", from) {
		all.Write(f.Raw)
		all.WriteByte('\n')
	}
	return all.String()
}

// tree is a command that leaves processes behind in every way that cmd has, and goes on.
// Each waits for somebody who does not answer.
const tree = `start /b ping -n 600 127.0.0.1 >nul& start "" /min cmd /c "ping -n 601 127.0.0.1 >nul"& echo grown& ping -n 602 127.0.0.1 >nul`

// grow has the agent run tree, and returns when all of it does. A tree of which wine
// made no part is grown again.
func (e *windowsEditor) grow(session string) *harness.Request {
	e.w.t.Helper()
	for range 3 {
		r := e.begin(session, script(e.w.t, step{"tool": "shell", "args": map[string]any{"command": tree}}, says("withered")))
		for begun := time.Now(); !r.Answered() && time.Since(begun) < patience; pause() {
			if len(pings(e.Mark)) >= 3 {
				return r
			}
		}
		e.Tell("session/cancel", map[string]any{"sessionId": session})
		e.reply(r, nil)
		e.w.t.Logf("wine did not make all of a command's processes")
	}
	e.w.t.Fatal("a command with processes in the background does not run")
	return nil
}

// pings are the waiting processes of trees below what has a mark, but what wine never
// finished making.
func pings(mark string) []harness.Process {
	return slices.DeleteFunc(harness.Marked(mark), func(p harness.Process) bool {
		return !strings.Contains(p.Args, "ping") || strings.Contains(p.Args, "cmd") || harness.Stillborn(p.PID)
	})
}

// nothingOf waits until of what has a mark nothing is left but what may stay.
func (w *windows) nothingOf(mark, after string, may func(harness.Process) bool) {
	w.t.Helper()
	left := func() []harness.Process {
		return slices.DeleteFunc(harness.Marked(mark), func(p harness.Process) bool {
			return harness.Stillborn(p.PID) || strings.HasSuffix(p.Args, "explorer.exe /desktop") || may(p) // the second is wine's, for all programs
		})
	}
	for begun := time.Now(); len(left()) > 0; pause() {
		if time.Since(begun) > 10*time.Second {
			w.t.Fatalf("after %s is left %v", after, left())
		}
	}
}

func nothing(harness.Process) bool { return false }

// noTree is all but processes of trees: gander, and a sandbox for the next prompt.
func noTree(p harness.Process) bool {
	return !strings.Contains(p.Args, "ping")
}

const weakerTitle = "[weaker sandbox: files and network are not closed off, closed files are open] "

// contains fails for words that a text lacks, as they are in JSON.
func (w *windows) contains(what, text string, words ...string) {
	w.t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.t.Errorf("%s lacks %q: %s", what, word, text)
		}
	}
}

// session is a whole session of an editor's: opened, prompted, cancelled, closed, gone
// on with by another gander, which is killed.
func (w *windows) session() {
	t := w.t
	inJSON := func(path string) string { return strings.Trim(encode(t, path), `"`) }
	project, made := windowsPath(w.project), filepath.Join(w.project, "made.txt")

	e := w.editor("--allow-weaker")
	id := e.open(project)
	stop, shown := e.prompt(id, script(t,
		step{"tool": "shell", "args": map[string]any{"command": "cd& echo by the shell> shell.txt"}},
		step{"tool": "write", "args": map[string]any{"path": windowsPath(made), "content": "by a tool\r\n"}}, says("both are there")))
	if stop != "end_turn" {
		t.Errorf("a turn ends with %q", stop)
	}
	w.contains("a turn", shown, inJSON(weakerTitle), "commands see all files that you can see", "run gander inside WSL",
		inJSON(project+"\r\n"), `"path":"`+inJSON(windowsPath(made))+`"`, `by a tool\r\n`, "1 more file changed", inJSON(project+`\shell.txt`), "there")
	if text, err := os.ReadFile(made); err != nil || string(text) != "by a tool\r\n" {
		t.Errorf("the agent's file: %q, %v", text, err)
	}
	_, shown = e.prompt(id, "/status")
	w.contains("the status", shown, "none: processes are supervised, by job object", inJSON(project))
	if _, shown = e.prompt(id, "/undo"); exists(made) || exists(filepath.Join(w.project, "shell.txt")) {
		t.Errorf("what the turn made is still there: %s", shown)
	}

	turn := e.grow(id)
	e.Tell("session/cancel", map[string]any{"sessionId": id})
	var got struct{ StopReason string }
	if e.reply(turn, &got); got.StopReason != "cancelled" {
		t.Errorf("a cancelled turn ends with %q", got.StopReason)
	}
	w.nothingOf(e.Mark, "cancel", noTree)

	turn = e.grow(id)
	e.ask("session/close", map[string]any{"sessionId": id}, nil)
	if e.reply(turn, &got); got.StopReason != "cancelled" {
		t.Errorf("a turn that is closed ends with %q", got.StopReason)
	}
	w.nothingOf(e.Mark, "close", func(p harness.Process) bool { return p.PID == e.PID })

	e.grow(e.open(project))
	e.CloseStdin()
	if !e.WaitEnd(t.Context(), patience) || e.Exit != nil {
		t.Errorf("after its stdin gander ends with %v", e.Exit)
	}
	w.nothingOf(e.Mark, "the end of stdin", nothing)

	e = w.editor("--allow-weaker")
	var all struct {
		Sessions []struct{ SessionID, Title, CWD string }
	}
	e.ask("session/list", map[string]any{"cwd": strings.ToLower(project[:1]) + filepath.ToSlash(project[1:])}, &all)
	if i := slices.IndexFunc(all.Sessions, func(s struct{ SessionID, Title, CWD string }) bool { return s.SessionID == id }); i < 0 || !strings.HasPrefix(all.Sessions[i].Title, weakerTitle) || all.Sessions[i].CWD != project {
		t.Errorf("the sessions of the project: %+v", all.Sessions)
	}
	from := e.Seen()
	e.ask("session/load", map[string]any{"sessionId": id, "cwd": project, "mcpServers": []any{}}, nil)
	w.contains("the thread", e.shown(from), "by the shell", "both ", inJSON(windowsPath(made)))
	if _, shown = e.prompt(id, script(t, says("welcome back"))); !strings.Contains(shown, "welcome ") {
		t.Errorf("a loaded session answers %s", shown)
	}
	e.grow(id)
	if err := e.Kill(); err != nil {
		t.Fatal(err)
	}
	w.nothingOf(e.Mark, "the death of gander", nothing)
	if out, complaints, code := w.run("", "sandbox", "gc"); code != 0 || !strings.Contains(out, "removed fake-"+id) {
		t.Errorf("gander sandbox gc ends with %d: %s%s", code, out, complaints)
	}
}

// developer has the file tools of the developer server find files by the names that Windows has.
func (w *windows) developer() {
	t := w.t
	wine(t, w.dir, "wine", "cmd", "/c", `echo in the home> %USERPROFILE%\note.txt`)
	e := w.start("mcp", "developer", "--log-level", "debug")
	e.ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"}}, nil)
	e.Tell("notifications/initialized", map[string]any{})
	file := windowsPath(filepath.Join(w.project, "named.txt"))
	for _, tt := range []struct {
		words string
		args  map[string]any
	}{
		{"", map[string]any{"command": "write", "path": file, "file_text": "by its drive"}},
		{"by its drive", map[string]any{"command": "view", "path": "file:///" + filepath.ToSlash(file)}},
		{"by its drive", map[string]any{"command": "view", "path": `\\?\` + file}},
		{"by its drive", map[string]any{"command": "view", "path": strings.ToLower(file[:1]) + filepath.ToSlash(file[1:])}},
		{"in the home", map[string]any{"command": "view", "path": `%USERPROFILE%\note.txt`}},
		{"in the home", map[string]any{"command": "view", "path": `~\note.txt`}},
		{"--root", map[string]any{"command": "write", "path": `%USERPROFILE%\other.txt`, "file_text": "x"}},
		{"--root", map[string]any{"command": "write", "path": `\\server\share\x.txt`, "file_text": "x"}},
	} {
		r := e.Ask("tools/call", map[string]any{"name": "text_editor", "arguments": tt.args})
		select {
		case <-r.Done:
		case <-time.After(patience):
			t.Fatalf("%v is not answered", tt.args)
		}
		w.contains(encode(t, tt.args), string(r.Answer.Raw), tt.words)
	}
}

// exec is a command in a sandbox.
func (w *windows) exec() {
	t := w.t
	in := func(more ...string) []string { return append([]string{"sandbox", "exec", "--allow-weaker"}, more...) }
	out, complaints, code := w.run("", in("--", "cmd", "/c", "cd& exit 3")...)
	if code != 3 || out != windowsPath(w.project)+"\n" || !strings.Contains(complaints, "run gander inside WSL") {
		t.Errorf("a command ends with %d: %q, %s", code, out, complaints)
	}
	out, complaints, code = w.run("hello\n", in("--", windowsPath(filepath.Join(w.dir, "agent.exe")), "fake-mcp")...)
	if code != 0 || !strings.Contains(out, "greet") {
		t.Errorf("a command with stdin ends with %d: %q, %s", code, out, complaints)
	}
	if out, complaints, code = w.run("", "sandbox", "exec", "--", "cmd", "/c", "echo in"); code != 1 || out != "" || !strings.Contains(complaints, "--allow-weaker") {
		t.Errorf("without leave for a weaker sandbox a command ends with %d: %q, %s", code, out, complaints)
	}
	for how, end := range map[string]func(*harness.Peer){
		"the death of gander": func(p *harness.Peer) { _ = p.Kill() },
		"gander sandbox stop": func(*harness.Peer) {
			if out, complaints, code := w.run("", "sandbox", "stop", "trees"); code != 0 {
				t.Errorf("gander sandbox stop ends with %d: %s%s", code, out, complaints)
			}
		},
	} {
		p, err := harness.Start(harness.Launch{
			Command: w.command(in("--name", "trees", "--", "cmd", "/c", tree)...), Dir: w.project, Environ: w.env,
			Mark: "windows-exec-" + strings.ReplaceAll(how, " ", "-") + "-" + time.Now().Format("150405.000000"), Patience: patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { harness.KillMarked(p.Mark) })
		eventually(t, "the command to run", func() bool { return len(pings(p.Mark)) >= 3 || !p.Alive() })
		if !p.Alive() {
			t.Fatalf("the command ended: %v: %s", p.Exit, p.Complaints())
		}
		end(p)
		w.nothingOf(p.Mark, how, nothing)
		if out, complaints, code := w.run("", "sandbox", "gc"); code != 0 {
			t.Errorf("gander sandbox gc ends with %d: %s%s", code, out, complaints)
		}
	}
}

// batch is a batch file in a sandbox, whose arguments stay arguments.
func (w *windows) batch() {
	t := w.t
	if err := os.WriteFile(filepath.Join(w.project, "tool.cmd"), []byte("@echo off\r\necho got [%1] [%2]\r\nexit /b 4\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tool, argument, out string
		code                int
	}{
		{windowsPath(filepath.Join(w.project, "tool.cmd")), "plain", "got [plain] [end]\n", 4},
		{`.\tool.cmd`, "c&echo out", "got [\"c&echo out\"] [end]\n", 4},
		{`.\tool`, "c&echo-out", "got [\"c&echo-out\"] [end]\n", 4},
		{`.\tool.cmd`, `c" & echo out`, "", 1},
		{`.\tool.cmd`, "%PATH%", "", 1},
	} {
		out, complaints, code := w.run("", "sandbox", "exec", "--allow-weaker", "--", tt.tool, tt.argument, "end")
		if code != tt.code || out != tt.out {
			t.Errorf("%s %q ends with %d: %q, %s", tt.tool, tt.argument, code, out, complaints)
		}
		if code == 1 {
			w.contains("the refusal", complaints, "cmd.exe would interpret")
		}
	}
}

// commands are those that have something of their own on Windows.
func (w *windows) commands() {
	t := w.t
	for _, tt := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"run", "--allow-weaker", script(t, step{"tool": "shell", "args": map[string]any{"command": "echo in cmd"}}, says("done so"))}, 0, []string{"done so", "  │ in cmd\n"}},
		{[]string{"run", "--sandbox", "off", script(t, says("done off"))}, 0, []string{"done off", "run gander inside WSL"}},
		{[]string{"run", "--allow-weaker", "--agent", "asking", script(t, step{"tool": "shell", "args": map[string]any{"command": "type x& set LOCALAPPDATA"}}, says("done"))}, 0, []string{"  │ x", `home\AppData\Local`}},
		{[]string{"run", "--sandbox", "auto", script(t, says("done"))}, 1, []string{"run gander inside WSL"}},
		{[]string{"policy", "explain", "--write", `.git\config`}, 5, []string{"@git", "nothing closes files and hosts on Windows"}},
		{[]string{"policy", "show"}, 0, []string{"@git", "nothing closes files and hosts on Windows"}},
		{[]string{"config", "zed", "--write"}, 0, []string{`AppData\Roaming\Zed\settings.json`}},
		{[]string{"setup", "--non-interactive", "--no-check", "--home", windowsPath(filepath.Join(w.dir, "other")), "--model", "gpt-4o", "--host", "https://llm.example"}, 0, []string{"config.json"}},
		{[]string{"session", "list"}, 0, []string{"[weaker sandbox: none]", windowsPath(w.project)}},
	} {
		if out, complaints, code := w.run("", tt.args...); code != tt.code {
			t.Errorf("%q ends with %d: %s%s", tt.args, code, out, complaints)
		} else {
			w.contains(strings.Join(tt.args, " "), out+complaints, tt.words...)
		}
	}
	w.doctor()
	w.serve()
}

// doctor tries the sandbox, once it may be weaker, and starts goose and opencode in it:
// here the harness's agent has their names.
func (w *windows) doctor() {
	t := w.t
	home := filepath.Join(w.dir, "weaker")
	agent := map[string]any{"command": []string{windowsPath(filepath.Join(w.dir, "agent.exe")), "fake-agent", ""}}
	config := encode(t, map[string]any{
		"model": map[string]any{"model": "gpt-4o"}, "sandbox": map[string]any{"driver": "local", "allowWeaker": true},
		"agents": map[string]any{"goose": agent, "opencode": agent},
	})
	err := errors.Join(os.Mkdir(home, 0o700), os.WriteFile(filepath.Join(home, "config.json"), []byte(config), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	out, complaints, _ := w.run("", "doctor", "--json", "--home", windowsPath(home)) // the model has another name: it fails
	var report struct {
		Checks []struct{ ID, State, What string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s%s", err, out, complaints)
	}
	want := map[string]string{
		"sandbox.start": "warn", "sandbox.project": "ok", "sandbox.files": "warn", "sandbox.network": "warn", "sandbox.kill": "ok", "sandbox.end": "ok",
		"agent.goose": "ok", "agent.opencode": "ok",
	}
	for _, c := range report.Checks {
		if state, ok := want[c.ID]; ok && state != c.State {
			t.Errorf("%s is %s, not %s: %s", c.ID, c.State, state, c.What)
		}
		delete(want, c.ID)
	}
	if len(want) > 0 {
		t.Errorf("doctor does not check %v: %s", want, out)
	}
}

// serve is the control plane. Its runs need sockets in the file system, which wine lacks.
func (w *windows) serve() {
	t := w.t
	p, err := harness.Start(harness.Launch{
		Command: w.command("serve", "--listen", "127.0.0.1:0"), Dir: w.project, Environ: w.env, Patience: patience,
		Mark: "windows-serve-" + time.Now().Format("150405.000000"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { harness.KillMarked(p.Mark) })
	said := func() string { return strings.Join(p.Bad(), "\n") } // its line is no message
	eventually(t, "the control plane's address", func() bool { return strings.Contains(said(), "#token=") || !p.Alive() })
	_, rest, _ := strings.Cut(said(), "http://")
	address, _, ok := strings.Cut(rest, "/#token=")
	if !ok {
		t.Fatalf("gander serve ends with %v: %s", p.Exit, p.Complaints())
	}
	resp, err := http.Get("http://" + address + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if out, complaints, code := w.run("", "loop", "status"); code != 0 || !strings.Contains(complaints, "no runs yet") {
		t.Errorf("gander loop status ends with %d: %s%s", code, out, complaints)
	}
}
