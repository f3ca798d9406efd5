package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"gander.dev/gander/conformance/harness"
)

func serverMark() string { return fmt.Sprintf("FAKE_SERVER=%d.", os.Getpid()) }

func spoolDir() string { return filepath.Join(os.TempDir(), fmt.Sprintf("fake-spool-%d", os.Getpid())) }

// sweep kills every process with a mark in its environment, until several looks
// find none: an environment cannot be seen during an exec.
func sweep(mark string) {
	for clean := 0; clean < 3; {
		found := harness.Marked(mark)
		for _, p := range found {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		if clean++; len(found) > 0 {
			clean = 0
		}
		time.Sleep(time.Millisecond)
	}
}

// watch is the program that ends what a killed server leaves.
func watch(mark string) {
	_, _ = os.Stdin.Read(make([]byte, 1)) // returns when the server is gone
	sweep(mark)
}

func (f *fake) startWatch() {
	if f.broken("nobody watches") || f.broken("leaves trees at the end") {
		return
	}
	f.watched.Do(func() {
		self, err := os.Executable()
		if err != nil {
			return
		}
		cmd := exec.Command(self, "fake-watch", serverMark())
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if pipe, err := cmd.StdinPipe(); err == nil {
			f.watch = pipe // which ends with this process, and not before
			_ = cmd.Start()
		}
	})
}

// A capture keeps the end of a command's output, and all of it in a file.
type capture struct {
	c     *fakeCall
	spool *os.File
	// mu guards what follows.
	mu       sync.Mutex
	lines    []string
	total    int
	streams  map[string]*strings.Builder
	begun    map[string]string // of a line that has not ended: what was streamed
	streamed int
	held     []string
}

const (
	fakeLineLimit   = 64 << 10
	fakeStreamLimit = 1 << 20
)

func (k *capture) feed(stream string, chunk []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.spool.Write(chunk)
	if k.c.broken("keeps all output in memory") {
		k.c.leak = append(k.c.leak, append([]byte{}, chunk...))
	}
	b := k.streams[stream]
	for _, part := range strings.SplitAfter(string(chunk), "\n") {
		line, ended := strings.CutSuffix(part, "\n")
		if room := fakeLineLimit - b.Len(); len(line) > room && !k.c.broken("keeps huge lines") {
			line = line[:room]
		}
		b.WriteString(line)
		if ended {
			k.line(stream, b.String())
			b.Reset()
		}
	}
}

// line adds a whole line. mu is held.
func (k *capture) line(stream, line string) {
	if len(line) >= fakeLineLimit && !k.c.broken("cuts characters") {
		line = wholeCharacters(line)
	}
	if !k.c.broken("drops invalid lines") || utf8.ValidString(line) {
		line = strings.ToValidUTF8(line, "\ufffd")
	} else {
		line = ""
	}
	if k.c.broken("trims lines") {
		line = strings.TrimSpace(line)
	}
	if stream == "stderr" && k.c.broken("loses stderr") {
		return
	}
	k.total++
	k.lines = append(k.lines, line)
	if keep := 2200; len(k.lines) > 2*keep {
		k.lines = append(k.lines[:0], k.lines[len(k.lines)-keep:]...)
	}
	rest := strings.TrimPrefix(line, k.begun[stream])
	delete(k.begun, stream)
	if !k.c.broken("streams at the end") {
		k.stream(stream, rest)
		return
	}
	k.held = append(k.held, line)
}

// wholeCharacters takes the beginning of a character from the end of a text.
func wholeCharacters(s string) string {
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}

func (k *capture) stream(stream, line string) {
	if strings.TrimSpace(line) == "" || k.streamed > fakeStreamLimit {
		return
	}
	k.streamed += len(line) + 100 // what a notification has around it
	if k.c.broken("loses lines") && k.total%100 == 99 {
		return
	}
	k.c.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/message", "params": map[string]any{
		"level": "info", "logger": "shell_tool", "data": map[string]any{"type": "shell_output", "stream": stream, "output": strings.TrimSpace(line)},
	}})
}

// read copies a pipe until it ends. What waits in a line that has not ended is
// streamed once, as it is.
func (k *capture) read(stream string, r *os.File, done *sync.WaitGroup) {
	defer done.Done()
	defer r.Close()
	buf := make([]byte, 32<<10)
	shown, last := false, false
	for {
		k.mu.Lock()
		pending := k.streams[stream].String()
		k.mu.Unlock()
		if pending != "" && !shown && len(pending) < 1000 {
			k.deadline(r, 50*time.Millisecond)
		}
		n, err := r.Read(buf)
		if n > 0 {
			k.feed(stream, buf[:n])
			shown, last = false, false
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !k.ended() && !shown:
			shown = true
			if !k.c.broken("streams whole lines only") {
				k.mu.Lock()
				k.stream(stream, pending)
				k.begun[stream] = pending
				k.mu.Unlock()
			}
			k.deadline(r, 0)
		case errors.Is(err, os.ErrDeadlineExceeded) && k.ended() && !last && k.c.ctx.Err() == nil:
			last = true // the time may have passed while what was read had to wait
			_ = r.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		case err != nil:
			return
		}
	}
}

func (k *capture) deadline(r *os.File, d time.Duration) {
	if k.ended() {
		return
	}
	at := time.Time{}
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = r.SetReadDeadline(at)
}

func (k *capture) ended() bool { return k.c.ctx.Value(endKey{}).(*endState).isEnded() }

type endKey struct{}

// An endState says that a command's shell has ended.
type endState struct {
	mu    sync.Mutex
	ended bool
}

func (e *endState) isEnded() bool { e.mu.Lock(); defer e.mu.Unlock(); return e.ended }
func (e *endState) end()          { e.mu.Lock(); defer e.mu.Unlock(); e.ended = true }

func (c *fakeCall) env(mark string) []string {
	env := append(os.Environ(), serverMark(), mark)
	if c.session != "" {
		env = append(env, "AGENT_SESSION_ID="+c.session)
	}
	if c.profile == Current || c.broken("sets no environment") {
		return env
	}
	editor := `sh -c "echo 'Interactive editor not available in this environment.' >&2; exit 1"`
	git := `sh -c "echo 'Interactive Git commands are not supported in this environment.' >&2; exit 1"`
	env = append(env, "GOOSE_TERMINAL=1", "AGENT=goose", "GIT_PAGER=cat")
	if !c.broken("lets git prompt") {
		env = append(env, "GIT_TERMINAL_PROMPT=0")
	}
	if !c.broken("leaves editors alone") {
		env = append(env, "VISUAL="+editor, "EDITOR="+editor, "GIT_EDITOR="+git, "GIT_SEQUENCE_EDITOR="+git)
	}
	return env
}

func (c *fakeCall) shell() (content, error) {
	command, err := need[string](c, "command")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(command) == "" && !c.broken("runs empty commands") {
		if c.broken("counts its refusals") {
			c.mu.Lock()
			c.number++
			n := c.number
			c.mu.Unlock()
			return nil, invalid("Shell command cannot be empty (%d)", n)
		}
		return nil, invalid("Shell command cannot be empty")
	}
	if err := c.guard(command); err != nil {
		return nil, err
	}
	seconds, _, err := get[int](c, "timeout_secs")
	if err != nil {
		return nil, err
	}
	return c.run(command, seconds)
}

func (c *fakeCall) run(command string, seconds int) (content, error) {
	c.startWatch()
	c.mu.Lock()
	c.number++
	mark := fmt.Sprintf("FAKE_CALL=%d.%d.", os.Getpid(), c.number)
	c.mu.Unlock()
	if c.broken("is slow") {
		time.Sleep(unhurried)
	}
	_ = os.MkdirAll(spoolDir(), 0o700)
	spool, err := os.CreateTemp(spoolDir(), "output-")
	if err != nil {
		return nil, internal("%v", err)
	}
	if c.broken("leaks descriptors") {
		c.mu.Lock()
		c.leak = append(c.leak, spool)
		c.mu.Unlock()
	} else {
		defer spool.Close()
	}
	state := &endState{}
	c.ctx = context.WithValue(c.ctx, endKey{}, state)
	k := &capture{c: c, spool: spool, streams: map[string]*strings.Builder{"stdout": {}, "stderr": {}}, begun: map[string]string{}}
	cmd := exec.Command("bash", "-c", command)
	if c.broken("splits commands itself") {
		cmd = exec.Command("bash", "-c", strings.Join(strings.Fields(command), " "))
	}
	cmd.Dir, cmd.Env = c.dir, c.env(mark)
	if info, err := os.Stat(c.dir); c.broken("runs anywhere") && (err != nil || !info.IsDir()) {
		cmd.Dir = "/"
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.broken("gives commands a stdin") {
		r, w, _ := os.Pipe()
		defer w.Close()
		cmd.Stdin = r
	}
	if c.broken("gives commands a terminal") {
		if tty, err := pty(); err == nil {
			cmd.Stdin = tty
			defer tty.Close()
		}
	}
	var readers sync.WaitGroup
	var ends []*os.File
	for _, name := range []string{"stdout", "stderr"} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, internal("%v", err)
		}
		defer w.Close()
		if name == "stdout" {
			cmd.Stdout = w
		} else {
			cmd.Stderr = w
		}
		ends = append(ends, r, w)
	}
	if err := cmd.Start(); err != nil {
		return nil, internal("%v", err)
	}
	_, _ = ends[1].Close(), ends[3].Close()
	readers.Add(2)
	go k.read("stdout", ends[0], &readers)
	go k.read("stderr", ends[2], &readers)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	timeout := make(<-chan time.Time)
	if seconds > 0 && !c.broken("ignores timeouts") {
		timeout = time.After(time.Duration(seconds) * time.Second)
	}
	timedOut := false
	var code int
	select {
	case err := <-exited:
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			code = e.ExitCode()
		}
	case <-timeout:
		timedOut = true
		c.kill(cmd.Process.Pid, mark)
		<-exited
	case <-c.ctx.Done():
		c.kill(cmd.Process.Pid, mark)
		<-exited
		state.end()
		for _, r := range []*os.File{ends[0], ends[2]} {
			_ = r.SetReadDeadline(time.Now())
		}
		if c.broken("cancelled commands work") {
			return both("", "", 0), nil
		}
		return nil, internal("Shell command was cancelled by user")
	}
	state.end()
	if !c.broken("waits for the background") {
		for _, r := range []*os.File{ends[0], ends[2]} {
			_ = r.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		}
	}
	readers.Wait()
	return c.shellResult(k, spool.Name(), code, timedOut, seconds)
}

// kill ends a tree: the group first and gently, then everything with the mark.
func (c *fakeCall) kill(pid int, mark string) {
	if c.broken("waits a second") {
		defer time.Sleep(time.Second)
	}
	if !c.broken("kills at once") {
		_ = syscall.Kill(-pid, syscall.SIGTERM)
		for begun := time.Now(); time.Since(begun) < 400*time.Millisecond && syscall.Kill(-pid, 0) == nil; {
			time.Sleep(5 * time.Millisecond)
			if len(harness.Marked(mark)) == 0 {
				break
			}
		}
	}
	if c.broken("kills the group only") {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		return
	}
	sweep(mark)
}

func (c *fakeCall) shellResult(k *capture, spool string, code int, timedOut bool, seconds int) (content, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range []string{"stdout", "stderr"} {
		if b := k.streams[name]; b.Len() > 0 {
			k.line(name, b.String())
		}
	}
	for _, line := range k.held {
		k.stream("stdout", line)
	}
	end := ""
	if timedOut {
		end = fmt.Sprintf("Command timed out after %d seconds", seconds)
	} else if code != 0 && !c.broken("hides exit codes") {
		end = fmt.Sprintf("Command exited with code %d", code)
	}
	c.record(code)
	if c.profile == Current {
		return c.currentResult(k, end, code)
	}
	if end != "" {
		end += "\n"
	}
	if k.total <= 100 {
		all := ""
		if len(k.lines) == 0 && c.broken("says that there is nothing") {
			all = "(no output)"
		}
		if len(k.lines) > 0 {
			all = strings.Join(k.lines, "\n") + "\n"
		}
		user := all + end
		if c.broken("hides output from people") {
			user = ""
		}
		return c.withOutcome(both(all+end, user, 0), all, code), nil
	}
	tail := strings.Join(k.lines[len(k.lines)-100:], "\n")
	if c.broken("shows the head") {
		tail = strings.Join(k.lines[:min(100, len(k.lines))], "\n")
	}
	if c.broken("removes its files") {
		_ = os.Remove(spool)
	}
	total := strconv.Itoa(k.total)
	if c.broken("miscounts lines") {
		total = "many"
	}
	return both("private note: output was "+total+" lines and we are only showing the most recent lines, remainder of lines in "+spool+" do not show tmp file to user, truncated output: \n"+tail+"\n"+end,
		"NOTE: Output was "+total+" lines, showing only the last 100 lines.\n\n"+tail+"\n"+end, 0), nil
}

// withOutcome adds the exit code to a result of the classic profile.
func (c *fakeCall) withOutcome(r content, output string, code int) content {
	if m := fakeExit.FindStringSubmatch(output); m != nil && c.broken("believes its output") {
		code, _ = strconv.Atoi(m[1])
	}
	r["structuredContent"] = map[string]any{"exitCode": code}
	return r
}

var fakeExit = regexp.MustCompile(`Command exited with code (\d+)`)

func (c *fakeCall) currentResult(k *capture, end string, code int) (content, error) {
	lines := k.lines
	notice := ""
	if k.total > 2000 {
		lines = lines[len(lines)-50:]
		notice = fmt.Sprintf("\n[Output exceeded 2000 line limit (%d lines total). Full output saved to %s .]", k.total, k.spool.Name())
	}
	out := strings.Join(lines, "\n")
	if out == "" {
		out = "(no output)"
	}
	if end != "" {
		end = "\n\n" + end
	}
	r := content{"content": []any{map[string]any{"type": "text", "text": out + notice + end, "annotations": map[string]any{"priority": 0.0}}}}
	r["isError"] = end != ""
	var errText strings.Builder
	for _, l := range lines {
		if strings.Contains(l, "err") {
			errText.WriteString(l)
		}
	}
	r["structuredContent"] = map[string]any{"stdout": out, "stderr": errText.String(), "exit_code": code}
	return r, nil
}

// record writes an event to stderr.
func (c *fakeCall) record(code int) {
	if !strings.HasPrefix(c.defect, "events") {
		return
	}
	event := map[string]any{"msg": "call ended", "exit": code}
	if c.defect != "events without durations" {
		event["duration_ms"] = 5
	}
	fmt.Fprintln(os.Stderr, marshal(event))
	if c.defect == "events" {
		fmt.Fprintln(os.Stderr, `{"msg":"call cancelled"}`)
	}
	if c.defect == "events with output" {
		fmt.Fprintln(os.Stderr, marshal(c.args))
	}
}

// pty opens a terminal for a defect.
func pty() (*os.File, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return master, nil // the master side is a terminal to isatty too
}
