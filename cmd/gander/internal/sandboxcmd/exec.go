package sandboxcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/rules/policy"
)

// Exit codes of commands that could not be run, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the number of the signal
)

// execFlags are the flags of gander sandbox exec.
type execFlags struct {
	sandbox, cwd, name string
	ports              []string
}

func sandboxExec(a *cli.App) *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [flags] -- CMD…",
		Short: "run a command in a sandbox of a directory",
		Long: `exec runs a command in a new sandbox of a directory: stdin, stdout, stderr and
signals are passed through, its exit code is returned, and everything it started is
gone when it ends. There is no network inside but what policy.network allows, and no
file of yours but the directory's; HOME goes away with the sandbox, but for caches of
package managers, which the next sandbox of the directory has, too.

The exit code is the command's: 128+n when signal n ended it, 127 when there is no
such program, 126 when it cannot be run, and 5 when the policy lets nothing run here or
has ended the command. The third signal that asks it to end (INT, TERM, HUP, QUIT) kills the
command. It has no terminal, also where gander has one.

-p opens a port at which a server inside listens, at 127.0.0.1 of this machine, until the
command ends. Other users of the machine can connect to it, too.`,
		Example: "  gander sandbox exec -- make test\n  gander sandbox exec --cwd ~/src/thing -- bash -c 'ls ~'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError("no command; as in: gander sandbox exec -- make test")
			}
			if args[0] == "" {
				return cli.UsageError("the command's name is empty; as in: gander sandbox exec -- make test")
			}
			return execInSandbox(cmd.Context(), a, args, f)
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false) // what follows the command is the command's
	fl.StringVar(&f.sandbox, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	fl.StringVar(&f.cwd, "cwd", ".", "the directory that is visible and writable inside")
	fl.StringVar(&f.name, "name", "", "the sandbox's name in gander sandbox list (default: a random one)")
	fl.StringArrayVarP(&f.ports, "port", "p", nil, "open a port of the sandbox at 127.0.0.1, as 5173, or 8080:5173 at another one (repeatable)")
	a.WeakerFlag(cmd)
	cli.CompleteFlag(cmd, "sandbox", cli.SandboxChoices()...)
	return cmd
}

func execInSandbox(ctx context.Context, a *cli.App, args []string, f execFlags) error {
	cwd, err := cli.ProjectDir(f.cwd)
	if err != nil {
		return err
	}
	if f.name == "" {
		f.name = "exec-" + wire.RandomName()
	}
	var wanted []ports.Spec
	for _, text := range f.ports {
		s, err := ports.Parse(text)
		if err != nil {
			return &cli.ExitError{Code: cli.ExitUsage, Err: err}
		}
		wanted = append(wanted, s)
	}
	var leak atomic.Bool
	in, done, err := openSandbox(ctx, a, wire.Place{
		Driver: f.sandbox, CWD: cwd, Name: f.name, Purpose: "exec", Leaked: func() { leak.Store(true) },
	})
	if err != nil {
		return err
	}
	defer done()
	open := ports.NewSet(in.Sandbox, f.name, a.Log)
	defer open.End()
	if err := openPorts(a, open, wanted); err != nil {
		return err
	}
	open.Watch(func(port int) {
		if !slices.ContainsFunc(wanted, func(s ports.Spec) bool { return s.Port == port }) {
			fmt.Fprintf(a.Err, "gander: port %d listens inside; gander sandbox exec -p %d opens it on this machine\n", port, port)
		}
	})
	for _, w := range in.Sandbox.Info().Warnings {
		a.Log.Warn(w)
	}
	defer sayGit(ctx, a, in)()
	err = pass(ctx, a, in, args)
	if leak.Load() { // whatever became of the command: the policy ended it
		return &cli.ExitError{Code: cli.ExitPermission, Err: fmt.Errorf("the command was ended: %s; see gander policy show", confine.SayLeaked)}
	}
	return err
}

// openSandbox opens a sandbox, and shows on a terminal that it does.
func openSandbox(ctx context.Context, a *cli.App, p wire.Place) (in *confine.Place, done func(), err error) {
	err = show.During(a, "starting a sandbox", 3*time.Second, func() (err error) {
		in, done, err = wire.OpenSandbox(ctx, a, p)
		return err
	})
	return in, done, err
}

// openPorts opens ports of a sandbox at this machine's loopback, and says where.
func openPorts(a *cli.App, open *ports.Set, wanted []ports.Spec) error {
	for _, s := range wanted {
		url, err := open.Open(s)
		if errors.Is(err, ports.ErrShared) {
			return cli.UsageError("-p %d: %w", s.At, err)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Err, "gander: %s\n", ports.Say(s.Port, url))
	}
	return nil
}

// How long a command, and then its end, wait for what is said of git. The most of
// repositories are looked at before it.
const (
	gitBefore = 20 * time.Millisecond
	gitAfter  = 2 * time.Second
)

// sayGit says which closed files git keeps, where the policy leaves it at words: before
// the command when that is known at once, else beside it. The function that it returns
// ends the looking.
func sayGit(ctx context.Context, a *cli.App, in *confine.Place) (end func()) {
	if in.Policy.Git != policy.GitWarn || in.Sandbox.Info().Enforcement.Closed == sandbox.Open {
		return func() {} // all is said, or nothing is closed
	}
	looking, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err := in.Examined.SayGit(looking, in.Sandbox)
		if text != "" {
			a.Log.Warn(text)
		}
		if err != nil && ctx.Err() == nil {
			a.Log.Warn("it is not known which closed files git keeps", "err", cmp.Or(context.Cause(looking), err))
		}
	}()
	wait := func(atMost time.Duration) {
		select {
		case <-done:
		case <-ctx.Done():
		case <-time.After(atMost):
		}
	}
	wait(gitBefore)
	return func() {
		wait(gitAfter)
		stop(errors.New("the command had ended before all of git's names were looked at"))
		<-done
	}
}

// pass runs a command with gander's own streams and signals and returns its exit
// code as an error.
func pass(ctx context.Context, a *cli.App, in *confine.Place, args []string) error {
	sb := in.Sandbox
	signals := a.Signals.Take()
	defer a.Signals.GiveBack()
	if ctx.Err() != nil { // a signal came before the command was there to have it
		return ctx.Err()
	}
	running := context.WithoutCancel(ctx)
	env, err := wire.InsideEnv(a.Config)
	if err != nil {
		env = a.Config.InsideEnvironment() // a command may do without certificates
	}
	env = append(sb.Info().Environment(env), sandbox.HomeEnvironment(sb.Info().Home)...)
	env = append(env, sandbox.ProxyEnvironment(sb.Info().Doors[confine.EgressDoor])...)
	env = append(env, in.Policy.Place.Environment()...)
	p, err := sb.Start(running, sandbox.Command{Args: args, Env: env})
	if err != nil {
		sayExceeded(running, a, sb)
		return startError(err, args[0], sb.Info())
	}
	var lacks confine.Missing
	out := connect(running, a, sb, p, &lacks)
	ended := make(chan struct{})
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		forward(running, a, sb, p, signals, ended)
	}()
	status, err := p.Wait(running)
	close(ended)
	<-forwarded
	if err != nil {
		return fmt.Errorf("the sandbox ended before the command: %w; gander sandbox exec --log-level debug shows more", err)
	}
	kill(running, a, sb, p, signals)
	a.Signals.GiveBack() // from now on a signal ends ctx
	sayExceeded(running, a, sb)
	switch err := out.finish(ctx); {
	case errors.Is(err, syscall.EPIPE):
		return &cli.ExitError{Code: exitSignal + int(syscall.SIGPIPE)}
	case err != nil:
		return err
	}
	for _, sentence := range lacks.Say(sb.Info()) {
		fmt.Fprintln(a.Err, "gander:", sentence)
	}
	if status.Code != 0 {
		return &cli.ExitError{Code: status.Code}
	}
	return nil
}

// sayExceeded says which bounds of the policy the command has met.
func sayExceeded(ctx context.Context, a *cli.App, sb sandbox.Sandbox) {
	if l, ok := sb.(sandbox.Limited); ok {
		for _, sentence := range l.Exceeded(ctx) {
			fmt.Fprintln(a.Err, "gander:", sentence)
		}
	}
}

// startError is why a command could not be started, with a shell's exit code.
func startError(err error, program string, in sandbox.Info) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && !in.Isolated:
		return &cli.ExitError{Code: exitNotFound, Err: fmt.Errorf("there is no program %q: %w", program, err)}
	case errors.Is(err, syscall.E2BIG):
		return &cli.ExitError{Code: exitNotExecutable, Err: confine.TooLong(err, program)}
	case errors.Is(err, fs.ErrNotExist):
		return &cli.ExitError{Code: exitNotFound, Err: confine.NotInside(err, program, in)}
	case errors.Is(err, fs.ErrPermission):
		return &cli.ExitError{Code: exitNotExecutable, Err: fmt.Errorf("%w; see whether the file is executable", err)}
	}
	return err
}

// killAfter is the signal that kills: a command may ignore the ones before.
const killAfter = 3

// killQuiet is how long a kill may take, of which further signals do not change anything.
const killQuiet = 2 * time.Second

// kill kills a command and all that it started. Where that fails, or a signal comes while
// it takes long, the sandbox is closed, with which everything in it ends.
func kill(ctx context.Context, a *cli.App, sb sandbox.Sandbox, p sandbox.Process, signals <-chan os.Signal) {
	killed := make(chan error, 1)
	go func() { killed <- p.Kill(ctx) }()
	begun := time.Now()
	for waits := true; waits; {
		select {
		case err := <-killed:
			if err == nil || errors.Is(err, sandbox.ErrGone) {
				return
			}
			a.Log.Warn("what the command left does not die, so its sandbox is closed", "err", err)
			waits = false
		case <-signals:
			waits = time.Since(begun) < killQuiet
		}
	}
	if err := sb.Close(); err != nil {
		a.Log.Error("closing the sandbox", "err", err)
	}
}

// forward sends signals to the command until it has ended: those that ask it to end, and others.
func forward(ctx context.Context, a *cli.App, sb sandbox.Sandbox, p sandbox.Process, signals <-chan os.Signal, ended <-chan struct{}) {
	others := make(chan os.Signal, 8)
	if passed := cli.PassedSignals(); len(passed) > 0 { // none would be all of them
		signal.Notify(others, passed...)
		defer signal.Stop(others)
	}
	n := 0
	for {
		select {
		case <-ended:
			return
		case s := <-others:
			_ = p.Signal(ctx, cli.SignalName(s))
		case s := <-signals:
			if n++; n >= killAfter {
				kill(ctx, a, sb, p, signals)
				continue
			}
			_ = p.Signal(ctx, cli.SignalName(s))
		}
	}
}

// output is the copying of a command's stdout and stderr to gander's own.
type output struct {
	copied chan error // what each of them ended with
}

// connect begins to copy the three streams of a command. look gets stderr, too.
func connect(ctx context.Context, a *cli.App, sb sandbox.Sandbox, p sandbox.Process, look io.Writer) *output {
	go func() { // ends with the command or gander's own stdin, which nothing can interrupt
		_, _ = io.Copy(p.Stdin(), a.In)
		_ = p.Stdin().Close()
	}()
	o := &output{copied: make(chan error, 2)}
	for _, s := range []struct {
		dst io.Writer
		src io.Reader
	}{{a.Out, p.Stdout()}, {a.Err, io.TeeReader(p.Stderr(), look)}} {
		go func() {
			_, err := io.Copy(s.dst, s.src)
			if err != nil {
				kill(ctx, a, sb, p, nil) // nobody gets what it would go on to write
				_, _ = io.Copy(io.Discard, s.src)
				err = fmt.Errorf("the command was ended, as its output went nowhere: %w", err)
			}
			o.copied <- err
		}()
	}
	return o
}

// finish waits until everything is copied, or ctx ends, and returns why something could
// not be.
func (o *output) finish(ctx context.Context) (failed error) {
	for range cap(o.copied) {
		select {
		case err := <-o.copied:
			failed = cmp.Or(failed, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return failed
}
