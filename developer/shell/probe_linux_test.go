package shell_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/developer/shell"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/trials/probe"
	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// through is a sandbox whose commands are those of a Runner that keeps rules: in turns called
// and waited for, and put into the background.
type through struct {
	sandbox.Sandbox // what is not used
	*shell.Runner
	executable string
	home       string
	started    int
	done       chan struct{}
}

func (b *through) Info() sandbox.Info {
	return sandbox.Info{Driver: "the shell tool", Executable: b.executable, Home: b.home}
}
func (b *through) Done() <-chan struct{} { return b.done }
func (b *through) Close() error          { return b.Runner.Close() }

// every says that all of what a command prints is shown.
var every = shell.Limits{Lines: 1 << 20, Bytes: 1 << 20, LastLines: 1 << 20, LastBytes: 1 << 20}

func (b *through) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	words := []string{"exec", "env", "-i"}
	for _, word := range append(slices.Clone(c.Env), c.Args...) {
		words = append(words, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	line := strings.Join(words, " ")
	p := &called{ended: make(chan struct{}), kill: func(context.Context) error { return nil }}
	p.said, p.say = io.Pipe()
	if b.started++; b.started%2 == 0 {
		job, err := b.Runner.Start(ctx, shell.Command{Line: line, Dir: c.Dir})
		if err != nil {
			return nil, err
		}
		p.kill = job.Kill
		go p.await(ctx, func(ctx context.Context) (string, error) {
			for info := job.Info(ctx); !info.Exited && info.Running; info = job.Info(ctx) {
				if err := ctx.Err(); err != nil {
					return "", err
				}
			}
			return job.Text(every).Shown, nil
		})
		return p, nil
	}
	go p.await(ctx, func(ctx context.Context) (string, error) {
		res, err := b.Run(ctx, shell.Command{Line: line, Dir: c.Dir, Limits: every})
		if res.LeftID != "" {
			p.kill = func(ctx context.Context) error {
				job, err := b.Job("", res.LeftID)
				if err != nil {
					return err
				}
				return job.Kill(ctx)
			}
		}
		return res.Merged.Shown, err
	})
	return p, nil
}

// called is a command of a Runner as a process.
type called struct {
	sandbox.Process // what is not used
	said            *io.PipeReader
	say             *io.PipeWriter
	kill            func(context.Context) error
	err             error
	ended           chan struct{} // closed when kill and err are set
}

func (p *called) await(ctx context.Context, end func(context.Context) (string, error)) {
	text, err := end(ctx)
	p.err = err
	close(p.ended)
	if text != "" {
		text = strings.TrimSuffix(text, "\n") + "\n"
	}
	_, _ = io.WriteString(p.say, text)
	_ = p.say.Close()
}

func (p *called) Stdout() io.Reader { return p.said }
func (p *called) Stderr() io.Reader { return strings.NewReader("") }
func (p *called) Wait(context.Context) (sandbox.ExitStatus, error) {
	<-p.ended
	return sandbox.ExitStatus{}, p.err
}

func (p *called) Kill(ctx context.Context) error {
	<-p.ended
	return p.kill(ctx)
}

// own lists the attempts that are no attempt at a closed file: what they do the person may do
// outside of a sandbox, and so may the person's commands.
var own = []string{
	"writes/a link where git writes", "writes/a link that is moved where git writes", "writes/a link where git keeps submodules", "writes/a link to a directory of configuration",
	"writes/switching on what git reads", "writes/shutting what git reads", "writes/what makes the project a repository in the place of its own",
	"kernel/sethostname", "kernel/setdomainname", "kernel/reboot", "kernel/syslog", "kernel/adjtimex", "kernel/setuid", "kernel/setgid", "kernel/setgroups", "kernel/capset", "kernel/chown", "kernel/nice",
	"kernel/rlimit", "kernel/add_key", "kernel/request_key", "kernel/keyctl", "kernel/a file with capabilities", "kernel/core-dumps",
	"processes/signalling a process outside", "processes/signalling by pidfd", "processes/signalling a thread", "processes/its limits",
}

// TestProbe has the shell tool and its background jobs try what the probe knows to do to closed
// files, by names, links, git, processes and the kernel.
func TestProbe(t *testing.T) {
	if os.Geteuid() == 0 && os.Getenv("GANDER_EVERYWHERE") == "" {
		t.Skip("TestProbeAsOrdinaryUser runs it, make soak as root too")
	}
	keepers(t, t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	classes, least := []string{probe.Kernel, probe.Processes, probe.Files, probe.Writes, probe.Git}, 110
	report, err := probe.Run(t.Context(), probe.Options{
		Create: func(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
			r, err := shell.New(shell.Options{Env: os.Environ(), WorkingDir: spec.WorkingDir, KeepRules: true, NeedRules: true, Log: quiet})
			return &through{Runner: r, executable: self, home: spec.Home, done: make(chan struct{})}, err
		},
		Executable: self, Owner: -1, Only: classes,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		switch {
		case r.Verdict == probe.Escaped && !slices.Contains(own, r.ID):
			t.Errorf("%s got through: %s", r.ID, r.Inside)
		case r.Verdict != probe.Blocked:
			t.Logf("%s: %s: outside %q, inside %q", r.ID, r.Verdict, r.Outside, r.Inside)
		}
	}
	if blocked := report.Count(probe.Blocked); blocked < least {
		t.Errorf("%d of %d attempts were blocked with a control that succeeds, want %d", blocked, len(report.Results), least)
	}
}

func TestProbeAsOrdinaryUser(t *testing.T) { usertest.Run(t, usertest.Options{Tests: "^TestProbe$"}) }

// TestProbeInContainer does so below the seccomp profile that docker gives to a container, which
// refuses namespaces.
func TestProbeInContainer(t *testing.T) {
	if os.Getenv("GANDER_EVERYWHERE") == "" {
		t.Skip("make soak runs it")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"0", "12345"} {
		out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--user", user, "--env", "GANDER_EVERYWHERE=1", "--workdir", "/tmp", "--volume", self+":/test:ro",
			"debian:bookworm-slim", "/test", "-test.v", "-test.run=^TestProbe$").CombinedOutput()
		if err != nil {
			t.Errorf("as uid %s: %v\n%s", user, err, out)
		}
	}
}
