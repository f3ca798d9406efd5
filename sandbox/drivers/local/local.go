// Package local makes sandboxes on this machine without a daemon and without
// help of other programs.
//
// On Linux a sandbox is a set of namespaces: user, mount, PID, network, IPC and
// UTS. Inside, the file system is an allow-list (the system's directories
// read-only, the project writable at its own path, a private home), the network
// has nothing but the loopback device, and commands run as the owner of the
// project. Where the kernel refuses namespaces, and on other systems, commands are
// only supervised: everything that they start ends with them, but they see
// the machine's files and network. Info says which it is.
//
// Use [New], or [NewOff] for supervision alone, and keep the Driver for as long
// as its sandboxes. Sandboxes are registered below Options.StateDir, where
// [Stop] and [GC] find them, also those of other processes.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/caches"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/inside/supervise"
)

// exitTimeout is how long Close waits for a supervisor that was told to end
// before it is killed.
const exitTimeout = 8 * time.Second

// Options configure a Driver. The zero value works.
type Options struct {
	// Executable is the program that is its own supervisor (supervise.Main);
	// empty means the running one.
	Executable string
	// StateDir is where sandboxes are registered; empty means nowhere.
	StateDir string
	// ReadOnlyPaths are host paths that every sandbox sees, besides the system's.
	ReadOnlyPaths []string
	// Devices are the names of those that every sandbox gets, see package devices.
	Devices []string
	// RefuseNamespaces makes the driver behave as where the kernel refuses them.
	RefuseNamespaces bool
	// RefuseGroups makes it behave as where control groups can be made and not be entered.
	RefuseGroups bool
	// KeepRules has the driver "off" keep Spec.Rules, by the kernel, on macOS by name,
	// or not at all; nothing else is kept from commands.
	KeepRules bool
	// Log takes what is worth knowing; nil discards it.
	Log *slog.Logger
}

// Name is the name of the driver that New returns.
const Name = "local"

const nameOff = sandbox.Off

// Driver makes sandboxes on this machine. It implements sandbox.Driver.
type Driver struct {
	name    string
	options Options
	log     *slog.Logger
}

// New returns the driver "local".
func New(o Options) *Driver { return newDriver(Name, o) }

// NewOff returns the driver "off", which supervises and isolates nothing.
func NewOff(o Options) *Driver { return newDriver(nameOff, o) }

func newDriver(name string, o Options) *Driver {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{name: name, options: o, log: o.Log}
}

// Name is "local" or "off".
func (d *Driver) Name() string { return d.name }

// Check says whether the driver's own program can be found. Whether the kernel
// permits namespaces shows when a sandbox is made; it works without.
func (d *Driver) Check(context.Context) error {
	_, err := d.executable()
	return err
}

func (d *Driver) executable() (string, error) {
	if d.options.Executable != "" {
		if _, err := os.Stat(d.options.Executable); err != nil {
			return "", fmt.Errorf("finding the supervisor's program: %w", err)
		}
		return filepath.Abs(d.options.Executable)
	}
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding gander's own program: %w", err)
	}
	return exe, nil
}

// Create makes a sandbox. Where namespaces are refused it makes a weaker one, if
// Spec.Rules.Optional permits that, and Info.Weaker and Info.Warnings say so.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	exe, err := d.executable()
	if err != nil {
		return nil, err
	}
	if err := spec.FillHome(); err != nil {
		return nil, err
	}
	p, err := d.plan(spec, exe)
	if err != nil {
		return nil, err
	}
	b, err := d.launchSomehow(ctx, spec, p)
	if err != nil {
		p.caches.Close()
		return nil, err
	}
	return b, nil
}

// launchSomehow launches a sandbox as planned, or, where the kernel does not do all of that, a
// weaker one that the Spec permits.
func (d *Driver) launchSomehow(ctx context.Context, spec sandbox.Spec, p plan) (*box, error) {
	b, err := d.launch(ctx, spec, p)
	var no *refusal
	if p.isolated() && errors.As(err, &no) {
		if !mayBeWeaker(spec) {
			return nil, notWeaker(no)
		}
		d.log.Warn("namespaces are refused; the sandbox is weaker", "sandbox", spec.ID, "error", err)
		p.caches.Close()
		if p, err = d.plainPlan(spec, p.exe, no); err == nil {
			b, err = d.launch(ctx, spec, p)
		}
	}
	if errors.Is(err, supervise.ErrGroups) {
		d.log.Warn("the sandbox cannot enter its control groups", "sandbox", spec.ID, "error", err)
		p.ungrouped = true
		b, err = d.launch(ctx, spec, p)
	}
	if errors.Is(err, supervise.ErrRules) && !spec.Rules.Optional {
		err = fmt.Errorf("%w; or take the docker sandbox, or permit a weaker one with --allow-weaker", err)
	} else if errors.Is(err, supervise.ErrRules) {
		d.log.Warn("the rules for files cannot be kept; the sandbox is weaker", "sandbox", spec.ID, "error", err)
		p.setup.Rules = nil
		p.weaker = append(p.weaker, "closed files are open")
		p.warnings = append(p.warnings, fmt.Sprintf("Files that rules close are NOT closed in this sandbox, and those that would make this machine run something can be written (%v).", err))
		b, err = d.launch(ctx, spec, p)
	}
	if err != nil {
		return nil, fmt.Errorf("making the sandbox %s: %w", spec.ID, err)
	}
	return b, nil
}

// mayBeWeaker reports whether a sandbox may be made that does not hold what is
// promised. Who keeps no rules has no promise.
func mayBeWeaker(spec sandbox.Spec) bool { return spec.Rules == nil || spec.Rules.Optional }

// errReadOnly refuses to show a project for reading where nothing keeps programs from writing it.
var errReadOnly = errors.New("this sandbox cannot keep the project from being written, which access \"read\" asks for; choose docker, or local on a Linux that permits user namespaces, or leave out --read-only")

// refusal is an error that means that this kernel does not let us isolate.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// plan is how a sandbox is going to be made.
type plan struct {
	exe       string
	setup     supervise.Setup
	process   processPlan
	isolation string
	warnings  []string
	weaker    []string            // see sandbox.Info
	kept      sandbox.Enforcement // of rules by something else than the supervisor
	home      string
	limits    sandbox.Limits
	ungrouped bool // single processes are bounded only
	uid       int  // commands run as
	caches    *caches.Caches
	// private lists what is covered when commands run as uid 0, to whom permissions say
	// nothing. It takes as long as the supervisor needs to start, and has begun before.
	private func() ([]supervise.Private, error)
}

// program is gander inside.
func (p plan) program() string {
	if p.setup.Root != nil {
		return supervise.InsideExecutable
	}
	return p.exe
}

// launch starts a supervisor as planned and sets it up.
func (d *Driver) launch(ctx context.Context, spec sandbox.Spec, p plan) (*box, error) {
	var limited *bounds
	if d.name != nameOff {
		limited = newBounds(spec.ID, p, d.options.RefuseGroups)
	}
	stderr := &logWriter{log: d.log, id: spec.ID}
	proc, conn, groups, err := d.startSupervisor(p, limited, stderr)
	if err != nil {
		limited.release()
		return nil, err
	}
	p.setup.Doors, p.setup.Log = spec.Doors, d.log
	if spec.Rules != nil {
		p.setup.Denied = spec.Rules.Denied
	}
	p.setup.Groups = groups
	if limited != nil {
		p.setup.Limits = limited.rest(p.setup.Limits)
	}
	host, err := p.dial(ctx, conn)
	if err != nil {
		defer limited.release()
		proc.end(exitTimeout)
		if said := stderr.lastLine(); said != "" { // it, or what was to put it into a sandbox
			err = fmt.Errorf("%w; it said: %s", err, said)
		}
		if errors.Is(err, supervise.ErrIsolation) {
			err = &refusal{err}
		}
		return nil, err
	}
	limited.begun(proc.cmd.Process.Pid)
	b := &box{Host: host, proc: proc, bounds: limited, caches: p.caches, done: make(chan struct{}), info: sandbox.Info{
		ID: spec.ID, Driver: d.name, Isolation: p.isolation, Isolated: p.isolated(), Home: p.home, Executable: p.program(), Doors: host.Doors(),
		Warnings: append(p.warnings, host.Warnings()...), Weaker: p.weaker, Enforcement: cmp.Or(p.kept, host.Enforcement()),
	}}
	if !b.info.Isolated && b.info.Enforcement.Closed == sandbox.ByKernel {
		b.info.Warnings = append(b.info.Warnings, "Files of the project that .gooseignore names are closed all the same.")
	}
	if b.info.Limits = host.Limits(); limited != nil {
		b.info.Limits = append(limited.say(), b.info.Limits...)
	}
	if err := d.register(spec, b); err != nil {
		defer limited.release()
		_ = host.Close()
		proc.end(exitTimeout)
		return nil, err
	}
	go b.watch(d.log) // ends with the supervisor; Close waits for it
	return b, nil
}

// dial sets the supervisor up.
func (p plan) dial(ctx context.Context, conn io.ReadWriteCloser) (*supervise.Host, error) {
	if p.private != nil {
		found, err := p.private()
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		p.setup.Root.Private = found
	}
	return supervise.Dial(ctx, conn, p.setup)
}

// box is a running sandbox. It implements sandbox.Sandbox.
type box struct {
	*supervise.Host
	info   sandbox.Info
	proc   *supervisorProcess
	bounds *bounds // nil without
	caches *caches.Caches
	entry  registry.Entry
	done   chan struct{}
	once   sync.Once
}

func (b *box) Info() sandbox.Info { return b.info }

func (b *box) Done() <-chan struct{} { return b.done }

// watch clears up when the supervisor has ended, for whatever reason.
func (b *box) watch(log *slog.Logger) {
	<-b.proc.done
	if err := sweep(b.proc.cmd.Process.Pid); err != nil {
		log.Warn("clearing up after a sandbox", "sandbox", b.info.ID, "error", err)
	}
	_ = b.Host.Close()
	b.bounds.release()
	b.caches.Close()
	b.entry.Remove()
	close(b.done)
}

func (b *box) Close() error {
	b.once.Do(func() {
		if b.info.Isolated { // all that is in its namespace ends with it, at one stroke
			_ = b.proc.cmd.Process.Kill()
		}
		_ = b.Host.Close()
		b.proc.end(exitTimeout)
	})
	<-b.done
	return nil
}

// logWriter passes a supervisor's stderr to a logger, a line at a time.
type logWriter struct {
	log *slog.Logger
	id  string
	// mu guards the rest.
	mu   sync.Mutex
	rest []byte
	last string // line that said something
}

// maxLogLine bounds what is kept of a line that does not end.
const maxLogLine = 16 << 10

var _ io.Writer = (*logWriter)(nil)

func (w *logWriter) lastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range p {
		if c == '\n' || len(w.rest) >= maxLogLine {
			line := string(w.rest)
			w.log.Debug("supervisor", "sandbox", w.id, "line", line)
			if !strings.Contains(line, " level=DEBUG ") {
				w.last = cmp.Or(strings.TrimSpace(line), w.last)
			}
			w.rest = w.rest[:0]
		}
		if c != '\n' {
			w.rest = append(w.rest, c)
		}
	}
	return len(p), nil
}
