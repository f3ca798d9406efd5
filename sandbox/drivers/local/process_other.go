//go:build !linux

package local

import (
	"errors"
	"fmt"
	"io"
	"os"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// noSandbox is what there is without one, in words for people.
const noSandbox = "commands see all files that you can see, those that .gooseignore closes too, and the network; they are held " + held

// processPlan says how the supervisor's process is made.
type processPlan struct {
	// profile is what it runs under on macOS; empty for nothing.
	profile string
}

func (p plan) isolated() bool { return false }

// pipeConn is the supervisor's stdin and stdout.
type pipeConn struct {
	io.Reader
	io.Writer
	in, out *os.File
}

func (c pipeConn) Close() error { return errors.Join(c.in.Close(), c.out.Close()) }

// startSupervisor starts a supervisor and returns the host's end of its stream.
func (*Driver) startSupervisor(p plan, _ *bounds, stderr io.Writer) (*supervisorProcess, io.ReadWriteCloser, int, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, nil, 0, fmt.Errorf("making a pipe: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, nil, 0, errors.Join(fmt.Errorf("making a pipe: %w", err), theirIn.Close(), in.Close())
	}
	cmd := command(p.exe, supervise.Verb, stderr)
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if p.process.profile != "" {
		cmd.Path, cmd.Args = "/usr/bin/sandbox-exec", []string{"sandbox-exec", "-p", p.process.profile, p.exe, supervise.Verb}
	}
	detach(cmd)
	proc, err := run(cmd)
	_, _ = theirIn.Close(), theirOut.Close()
	conn := pipeConn{Reader: out, Writer: in, in: in, out: out}
	if err != nil {
		_ = conn.Close()
		return nil, nil, 0, fmt.Errorf("starting the supervisor: %w", err)
	}
	return proc, conn, 0, nil
}

func (d *Driver) plan(spec sandbox.Spec, exe string) (plan, error) {
	if spec.ReadOnly {
		return plan{}, errReadOnly
	}
	if spec.Rules != nil && !spec.Rules.Optional && d.name != nameOff {
		return plan{}, fmt.Errorf("%w; %s, or permit a weaker sandbox with --allow-weaker (sandbox.allowWeaker in the configuration)", supervise.ErrRules, isolating)
	}
	p := plan{
		exe: exe, home: spec.Home, setup: supervise.Setup{WorkingDir: spec.WorkingDir},
		isolation: "none: processes are supervised, " + held,
	}
	p.warnings = []string{"There is no sandbox on this system: " + noSandbox + ", and end with the session. For isolation, " + isolating + "."}
	p.weaker = []string{"files and network are not closed off", "closed files are open"}
	if d.name == nameOff {
		p.weaker = []string{"none"}
		if d.options.KeepRules && spec.Rules != nil {
			return p, d.keep(&p, spec)
		}
		return p, nil
	}
	return p, d.confine(&p, spec)
}

func (d *Driver) plainPlan(spec sandbox.Spec, exe string, _ *refusal) (plan, error) {
	return d.plan(spec, exe)
}

// notWeaker is for Linux, where namespaces may be refused.
func notWeaker(why *refusal) error { return why.err }
