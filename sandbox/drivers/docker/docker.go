// Package docker makes sandboxes that are containers, through the Engine API of
// Docker or Podman.
//
// A container has no network, no capabilities and a read-only root; the project
// is in it at its own path, and commands run as the owner of the project.
// gander is its first process, mounted in, so any Linux image will do, also one
// without a shell. The host talks to it over one stream; no command costs a call
// of the daemon. The stream is a unix socket, which is several times faster than
// what goes through the daemon, or, where a container cannot use one (a daemon in
// a virtual machine), the container's attached stdin and stdout. When it ends,
// because gander has closed it or has been killed, the first process ends and
// with it the container, which the daemon then removes.
//
// Use [New] and keep the Driver for as long as its sandboxes. [List], [Stop] and
// [GC] find containers by their labels, those of killed ganders too. [Build] makes
// the images. The daemon must run on this machine: a project on another one cannot
// be mounted.
//
// # What a killed gander left
//
// Nothing that gander starts may outlive it, so no sandbox goes on without one and
// there is no conversation to continue in a container that was left. Adopting it
// again therefore means: it is found by the labels that say whose it is, it is
// reported, and it is taken down, by GC when gander starts, and by Create when it
// has the name that a new sandbox of the same session is to have. What is
// continued is the session, in a new container. A container whose gander may live
// (on another machine, or in another PID namespace) is left alone.
package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/inside/supervise"
)

// Name is the word for --sandbox.
const Name = "docker"

// Options configure a Driver. The zero value works where the daemon is at its
// usual place and gander is a static Linux program.
type Options struct {
	// Host is the daemon's address as in DOCKER_HOST; empty means the first of
	// Sockets that exists, or else Docker's usual place.
	Host string
	// Sockets are paths to look for a daemon at, see UsualSockets.
	Sockets []string
	// Executable is the Linux program that is its own supervisor
	// (supervise.Main), mounted into every container. Empty means the running
	// program on Linux, and the image's own gander on other systems.
	Executable string
	// StateDir is where sandboxes are registered; containers carry it as a label.
	// Empty means nowhere.
	StateDir string
	// Image names the image for an agent, or for none (""); nil means ImageName.
	Image func(agent string) string
	// CABundle is a host file with the CA certificates to trust, shown at its own
	// path and where Debian has its bundle; empty leaves the image's.
	CABundle string
	// ReadOnlyPaths are host paths that every sandbox sees.
	ReadOnlyPaths []string
	// Devices are the names of those that every container gets, see package devices.
	Devices []string
	Limits  Limits
	// Log takes what is worth knowing; nil discards it.
	Log *slog.Logger
}

// Limits bound what a container may use. Zero is the default, negative is no limit.
type Limits struct {
	// Memory is in bytes and includes temporary files; by default it is three
	// quarters of the machine's. There is no swap beyond it.
	Memory int64
	// CPUs is a number of processors; by default there is no limit.
	CPUs float64
	// PIDs bounds processes and threads; by default it is 4096.
	PIDs int64
}

// ImageName returns the image of an agent as Build names it. Without an agent it is the first one's:
// all have the same base.
func ImageName(agent string) string {
	if agent == "" {
		agent = imageAgents()[0]
	}
	return "goku-sandbox-" + agent + ":latest"
}

// Driver makes containers. It implements sandbox.Driver.
type Driver struct {
	options Options
	log     *slog.Logger
	// attachOnly is set when a container could not use a socket of this machine.
	attachOnly atomic.Bool
	engines    engines
}

// New returns the driver "docker". It does not talk to the daemon.
func New(o Options) *Driver {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Image == nil {
		o.Image = ImageName
	}
	d := &Driver{options: o, log: o.Log}
	d.attachOnly.Store(!o.mayUseSocket())
	return d
}

// Name is "docker".
func (d *Driver) Name() string { return Name }

// Check asks the daemon whether it answers.
func (d *Driver) Check(ctx context.Context) error {
	if _, err := d.options.program(); err != nil {
		return err
	}
	cli, err := d.options.connect(ctx)
	if err != nil {
		return err
	}
	return cli.Close()
}

// Create starts a container. The image must be there: Create does not pull.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	p, err := d.plan(spec)
	if err != nil {
		return nil, err
	}
	cli, err := d.options.connect(ctx)
	if err != nil {
		p.caches.Close()
		return nil, err
	}
	b, err := d.launch(ctx, cli, p)
	if errors.Is(err, supervise.ErrRules) && !spec.Rules.Optional {
		err = fmt.Errorf("%w; or permit a weaker sandbox with --allow-weaker", err)
	} else if errors.Is(err, supervise.ErrRules) {
		d.log.Warn("the rules for files cannot be kept; the sandbox is weaker", "sandbox", spec.ID, "error", err)
		b, err = d.launch(ctx, cli, p.withoutRules(err))
	}
	if err != nil {
		_ = cli.Close()
		p.caches.Close()
		return nil, fmt.Errorf("making the sandbox %s: %w", spec.ID, err)
	}
	return b, nil
}

// launch makes a container that talks to us over a socket, or over its attached
// streams where that does not work.
func (d *Driver) launch(ctx context.Context, cli *client.Client, p plan) (*box, error) {
	e, err := d.engines.ask(ctx, cli)
	if err != nil {
		return nil, err
	}
	p.fit(e.machine, d.options.Limits)
	if p.filter, err = e.filter(); err != nil {
		return nil, err
	}
	if isRootless(e.machine, cli.DaemonHost()) {
		p.becomeRootless()
	}
	if err := d.showFiles(&p); err != nil {
		return nil, err
	}
	image, err := cli.ImageInspect(ctx, p.image)
	if err != nil {
		return nil, explain(fmt.Errorf("looking for the image: %w", err), p)
	}
	if image.Config != nil {
		p.health, p.env = image.Config.Healthcheck != nil, image.Config.Env
		p.hidden = e.podman && !p.health
	}
	// Before anything is made: whoever kills gander from here on leaves a trace.
	entry, err := registry.Register(d.options.StateDir, p.record("", registry.ProcessRef{}))
	if err != nil {
		return nil, err
	}
	b, err := d.runSomehow(ctx, cli, p, entry)
	if err != nil {
		d.engines.forget(cli)
		entry.Remove()
	}
	return b, err
}

// runSomehow prefers a socket.
func (d *Driver) runSomehow(ctx context.Context, cli *client.Client, p plan, entry registry.Entry) (*box, error) {
	if !d.attachOnly.Load() {
		b, err := d.runWithSocket(ctx, cli, p, entry)
		if !errors.Is(err, errNoSocket) {
			return b, err
		}
		d.attachOnly.Store(true)
		d.log.Debug("containers cannot use a socket of this machine; using the attached stream", "error", err)
	}
	return d.run(ctx, cli, p, entry, nil)
}

func (d *Driver) runWithSocket(ctx context.Context, cli *client.Client, p plan, entry registry.Entry) (*box, error) {
	s, err := listen(d.options.StateDir, p.spec.ID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSocket, err)
	}
	defer s.close()
	return d.run(ctx, cli, p.withSocket(s.dir), entry, s)
}

// run makes a container, starts it and sets up the supervisor in it.
func (d *Driver) run(ctx context.Context, cli *client.Client, p plan, entry registry.Entry, s *socket) (*box, error) {
	c, err := d.create(ctx, cli, p)
	if err != nil {
		return nil, err
	}
	host, err := d.setUp(ctx, c, p, s)
	if err == nil {
		if _, err = registry.Register(d.options.StateDir, p.record(c.id, c.supervisor)); err != nil {
			_ = host.Close()
		}
	}
	if err != nil {
		return nil, d.giveUp(ctx, c, err)
	}
	b := &box{Host: host, container: c, caches: p.caches, log: d.log, entry: entry, memory: p.limits.Memory, done: make(chan struct{}), info: p.info(host)}
	go b.watch() // ends with the container; Close waits for it
	return b, nil
}

// setUp starts a container and the supervisor's protocol in it.
func (d *Driver) setUp(ctx context.Context, c *container, p plan, s *socket) (*supervise.Host, error) {
	attached, err := c.start(ctx, d.log.With("sandbox", p.spec.ID))
	if err != nil {
		return nil, explain(err, p)
	}
	var conn io.ReadWriteCloser = attached
	if s != nil {
		connected, err := s.accept(ctx, c.gone)
		if err != nil {
			return nil, err
		}
		c.supervisor = peer(connected)
		c.drain(attached)
		conn = connected
	}
	host, err := supervise.Dial(ctx, conn, p.setup(d.log))
	if err != nil {
		return nil, fmt.Errorf("the supervisor does not start in %s: %w", p.image, attached.explain(err))
	}
	return host, nil
}

// giveUp removes a container that is of no use and returns why.
func (d *Driver) giveUp(ctx context.Context, c *container, why error) error {
	if err := c.remove(ctx); err != nil {
		d.log.Warn("a container may be left", "container", c.name, "error", err)
	}
	c.forget()
	return why
}

const (
	// endTimeout is how long a container has to end by itself when its stream has,
	// and then how long the daemon has to begin to remove it.
	endTimeout = 8 * time.Second
	// removeTimeout is how long it may be at that: on a busy machine, which also builds
	// images, it took more than a quarter of a minute.
	removeTimeout = time.Minute
)

var (
	_ sandbox.Driver     = (*Driver)(nil)
	_ sandbox.Sandbox    = (*box)(nil)
	_ io.ReadWriteCloser = (*stream)(nil)
)
