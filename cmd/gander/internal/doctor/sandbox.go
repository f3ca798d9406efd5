package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
)

// examineSandbox runs commands in a sandbox that try to get out of it.
func examineSandbox(ctx context.Context, a *cli.App, report func(Check)) {
	dir, err := os.MkdirTemp("", "gander-doctor-")
	if err != nil {
		report(failedCheck(checkStart, err, cli.TemporaryAdvice))
		return
	}
	defer wire.Remove(a, dir)
	project, canary := filepath.Join(dir, "project"), filepath.Join(dir, "canary")
	if err := errors.Join(os.Mkdir(project, 0o700), os.WriteFile(canary, []byte(canaryText+"\n"), 0o600), baitProject(project)); err != nil {
		report(failedCheck(checkStart, err, cli.TemporaryAdvice))
		return
	}
	began := time.Now()
	in, done, err := wire.OpenSandbox(ctx, a, wire.Place{CWD: project, Name: "doctor-" + wire.RandomName(), Purpose: "doctor", Quiet: true})
	if err != nil {
		report(failedCheck(checkStart, err, "see the sentence before; gander acp --sandbox off works without isolation, if you must"))
		return
	}
	sb := in.Sandbox
	report(startCheck(sb.Info(), project, time.Since(began)))
	p := sandboxTrial{app: a, sb: sb}
	report(p.project(ctx, project))
	report(p.files(ctx, canary))
	report(p.closed(ctx, checkClosed, project))
	report(p.network(ctx))
	report(p.kill(ctx))
	report(p.end(ctx, done))
}

// startCheck says what a sandbox is made of. That doctor's own project belongs
// to root when root runs it is no news.
func startCheck(info sandbox.Info, project string, took time.Duration) Check {
	c := Check{ID: checkStart, State: CheckOK, What: fmt.Sprintf("a %s sandbox after %s: %s", info.Driver, cli.RoundDuration(took), info.Isolation)}
	var weaker []string
	for _, w := range info.Warnings {
		if !strings.Contains(w, project) {
			weaker = append(weaker, w)
		}
	}
	if len(weaker) > 0 {
		c.State, c.Next = checkWarn, strings.Join(weaker, " ")
	}
	return c
}

// canaryText is in a file that nobody inside may read.
const canaryText = "the canary was seen"

// sandboxTrial tries things in one sandbox.
type sandboxTrial struct {
	app *cli.App
	sb  sandbox.Sandbox
}

// A dialect is what the trial runs, in the language of a system's shell. Every
// command ends with a line that says tried.
type dialect struct {
	shell []string
	write string
	read  string // shows {file}
	reach string // connects to {port}, or shows devices
	// stay starts processes that outlive their parents, in a session of their own and
	// deaf to signals, where there are such things.
	stay string
}

var (
	posix = dialect{
		shell: []string{"sh", "-c"},
		write: "echo written > file && cat file; echo tried",
		read:  "cat '{file}'; echo tried",
		reach: `bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo REACHED' 2>/dev/null
tail -n +3 /proc/net/dev 2>/dev/null | grep -v '^ *lo:'; echo tried`,
		stay: "trap '' TERM HUP INT; (setsid sleep 1000 >/dev/null 2>&1 &); (sleep 1000 >/dev/null 2>&1 &); echo tried",
	}
	cmdExe = dialect{
		shell: []string{"cmd", "/c"},
		write: "echo written> file& type file& echo tried",
		read:  `type "{file}"& echo tried`,
		reach: "echo tried", // nothing closes it
		stay:  `start /b ping -n 1000 127.0.0.1 >nul& start "" /min cmd /c "ping -n 1000 127.0.0.1 >nul"& echo tried`,
	}
)

// dialect is the sandbox's. On Windows it is never a container.
func (p sandboxTrial) dialect() dialect {
	if runtime.GOOS == "windows" {
		return cmdExe
	}
	return posix
}

// shell runs a shell command and returns what it printed before it said tried. What
// it leaves in the background is not waited for.
func (p sandboxTrial) shell(ctx context.Context, command string) (string, error) {
	proc, err := p.sb.Start(ctx, sandbox.Command{
		Args: append(slices.Clone(p.dialect().shell), command),
		Env:  append(p.sb.Info().Environment(p.app.Config.InsideEnvironment()), sandbox.HomeEnvironment(p.sb.Info().Home)...),
	})
	if err != nil {
		return "", err
	}
	_ = proc.Stdin().Close()
	go func() { _, _ = io.Copy(io.Discard, proc.Stderr()) }() // ends with the sandbox
	var said strings.Builder
	lines := bufio.NewScanner(io.LimitReader(proc.Stdout(), 1<<16))
	for lines.Scan() {
		if lines.Text() == "tried" { // and the rest is held open by what stays
			_, err = proc.Wait(ctx)
			return said.String(), err
		}
		said.WriteString(lines.Text() + "\n")
	}
	_, err = proc.Wait(ctx)
	return "", errors.Join(lines.Err(), err, fmt.Errorf("the shell inside said only %q", said.String()))
}

// project writes a file inside and reads it outside.
func (p sandboxTrial) project(ctx context.Context, project string) Check {
	out, err := p.shell(ctx, p.dialect().write)
	raw, errRead := os.ReadFile(filepath.Join(project, "file"))
	if err := errors.Join(err, errRead); err != nil {
		return failedCheck(checkProject, fmt.Errorf("a file written inside did not arrive: %w", err), reportIt)
	}
	if strings.TrimRight(string(raw), "\r\n") != "written" || out != "written\n" {
		return failedCheck(checkProject, fmt.Errorf("a file written inside did not arrive: %q, %q", out, raw), reportIt)
	}
	return Check{ID: checkProject, State: CheckOK, What: "a file written inside arrives in the project"}
}

// files tries to read a file beside the project.
func (p sandboxTrial) files(ctx context.Context, canary string) Check {
	out, err := p.shell(ctx, strings.ReplaceAll(p.dialect().read, "{file}", canary))
	return judged(checkFiles, "a file beside the project cannot be read", strings.Contains(out, canaryText), err)
}

// network tries to reach a listener of this machine, and counts the devices.
func (p sandboxTrial) network(ctx context.Context) Check {
	const what = "no network: a listener of this machine is not reached, there is no device but loopback"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return failedCheck(checkNetwork, err, reportIt)
	}
	reached := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			close(reached)
			_ = c.Close()
		}
	}()
	defer l.Close()
	out, err := p.shell(ctx, strings.ReplaceAll(p.dialect().reach, "{port}", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)))
	open := strings.Contains(out, "REACHED") || strings.Contains(out, ":")
	select {
	case <-reached:
		open = true
	default:
		open = open || runtime.GOOS != "linux" // nothing closes it there
	}
	return judged(checkNetwork, what, open, err)
}

// judged is the check of something that must not be possible.
func judged(id, what string, possible bool, err error) Check {
	switch {
	case err != nil:
		return failedCheck(id, fmt.Errorf("could not be tried: %w", err), reportIt)
	case possible:
		return Check{ID: id, State: checkWarn, What: "does NOT hold on this machine: " + what, Next: "see sandbox.start and kernel for the reason"}
	}
	return Check{ID: id, State: CheckOK, What: what}
}

// kill starts processes that try to stay and has them killed.
func (p sandboxTrial) kill(ctx context.Context) Check {
	mark, err := p.sb.Mark(ctx)
	if err != nil {
		return failedCheck(checkKill, err, reportIt)
	}
	if _, err := p.shell(ctx, p.dialect().stay); err != nil {
		return failedCheck(checkKill, err, reportIt)
	}
	report, err := p.sb.KillSince(ctx, mark)
	if err != nil {
		return failedCheck(checkKill, err, reportIt)
	}
	if report.Killed == 0 {
		return failedCheck(checkKill, errors.New("the processes that tried to stay were not found"), reportIt)
	}
	return Check{ID: checkKill, State: CheckOK, What: fmt.Sprintf("%d processes that tried to stay were killed in %s", report.Killed, report.Duration.Round(10*time.Microsecond))}
}

// end closes the sandbox with such processes in it and looks what is left.
func (p sandboxTrial) end(ctx context.Context, done func()) Check {
	_, err := p.shell(ctx, p.dialect().stay)
	began := time.Now()
	done()
	took := time.Since(began)
	if err != nil {
		return failedCheck(checkEnd, err, reportIt)
	}
	select {
	case <-p.sb.Done():
	default:
		return failedCheck(checkEnd, errors.New("the sandbox goes on after it was closed"), reportIt)
	}
	return Check{ID: checkEnd, State: CheckOK, What: fmt.Sprintf("a sandbox with such processes in it is gone %s after it was closed", cli.RoundDuration(took))}
}
