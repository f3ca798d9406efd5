package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"gander.dev/gander/sandbox"
)

// Host is the host's side of a supervisor. Drivers embed it: it has the methods
// of sandbox.Sandbox except Info. Methods are safe for concurrent use.
type Host struct {
	session *yamux.Session
	ctl     *caller
	doors   map[string]sandbox.Door
	road    sandbox.Road
	denied  func(sandbox.Denial)
	ready   setupResult
	log     *slog.Logger
	bufs    buffers
	files   fileSender // nil where the supervisor cannot be handed files
	timed   bool       // the supervisor bounds the time of commands
	done    chan struct{}
	wg      sync.WaitGroup
	ownPath string // of the person's own rules; empty for none

	ownMu   sync.Mutex // guards ownSeen, and is held while own rules are passed on
	ownSeen fs.FileInfo

	// mu guards the fields below.
	mu        sync.Mutex
	closed    bool // no goroutine may be added to wg
	over      bool // the stream has ended
	last      uint64
	processes map[uint64]*process
	reading   map[*output]struct{}
	backends  map[uint32]net.Conn // door connections by the id of their stream
	// undialed counts connections to doors that were not made; so many were told of last.
	undialed, undialedTold int
	exceeded               atomic.Int64 // processes that were killed for the memory that all use
}

// Dial sets up the supervisor at the other end of conn and returns when commands
// can be started. ctx bounds the setting up only. conn is closed with the Host,
// and when Dial fails. An error that wraps ErrIsolation means that the kernel
// refused part of Setup. With a LocalConn the output of commands does not pass through
// the supervisor.
func Dial(ctx context.Context, conn io.ReadWriteCloser, s Setup) (*Host, error) {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	session, err := yamux.Client(newWholeFrames(conn), muxConfig(s.Log))
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("multiplexing the supervisor's stream: %w", err)
	}
	h := &Host{
		session: session, log: s.Log, road: s.Road, done: make(chan struct{}), denied: s.Denied,
		doors: map[string]sandbox.Door{}, processes: map[uint64]*process{}, backends: map[uint32]net.Conn{},
		reading: map[*output]struct{}{}, timed: s.Limits != nil && s.Limits.Time > 0,
	}
	h.files, _ = conn.(fileSender)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // also ends a write that nobody takes
	err = h.open(ctx, s)
	if !stop() {
		err = fmt.Errorf("setting up the supervisor: %w", context.Cause(ctx))
	}
	if err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Host) open(ctx context.Context, s Setup) error {
	params := setupParams{Setup: s, Handover: h.files != nil, Road: s.Road != nil}
	for _, d := range s.Doors {
		h.doors[d.Name] = d
		params.Doors = append(params.Doors, d.Name)
	}
	stream, err := h.stream(header{Stream: "control"})
	if err != nil {
		close(h.done)
		return err
	}
	h.ctl = newCaller(stream)
	lifetime, end := context.WithCancel(context.WithoutCancel(ctx))
	h.wg.Go(func() { h.receive(end) })
	h.wg.Go(func() { h.serveDoors(lifetime) })
	if err := h.ctl.call(ctx, "setup", params, &h.ready); err != nil {
		return fmt.Errorf("setting up the supervisor: %w", err)
	}
	if s.Rules != nil && s.Rules.ownPath != "" {
		h.ownPath = s.Rules.ownPath
		return h.followOwn(h.ownPath)
	}
	return nil
}

// receive handles events until the stream ends; then everything that runs is gone.
func (h *Host) receive(end context.CancelFunc) {
	h.ctl.run(h.event)
	_ = h.session.Close()
	end()
	close(h.done)
	h.release()
}

// release lets go who waits for something inside.
func (h *Host) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.backends {
		_ = c.Close()
	}
	h.over = true
	for _, p := range h.processes {
		p.ended.Do(func() { close(p.gone) })
		p.streams.in().refuse()
	}
	for o := range h.reading {
		o.interrupt()
	}
}

// MemoryKills returns how many processes were killed because all together used more than
// Resources.Memory.
func (h *Host) MemoryKills() int64 { return h.exceeded.Load() }

func (h *Host) event(m message) {
	switch m.Method {
	case "exit":
		var p exitParams
		if json.Unmarshal(m.Params, &p) == nil {
			h.withProcess(p.Process, func(proc *process) { proc.exit(p.Status) })
		}
	case "stdinClosed":
		h.processEvent(m, func(proc *process) { proc.streams.in().refuse() })
	case "gone":
		h.processEvent(m, func(proc *process) { h.forget(proc) })
	case "denied":
		var d sandbox.Denial
		if h.denied != nil && json.Unmarshal(m.Params, &d) == nil {
			h.denied(d)
		}
	case "exceeded":
		h.exceeded.Add(1)
	case "doorAborted":
		var p abortParams
		if json.Unmarshal(m.Params, &p) == nil {
			h.abortBackend(p.Stream)
		}
	}
}

func (h *Host) processEvent(m message, f func(*process)) {
	var p processParams
	if json.Unmarshal(m.Params, &p) == nil {
		h.withProcess(p.Process, f)
	}
}

func (h *Host) withProcess(id uint64, f func(*process)) {
	h.mu.Lock()
	proc := h.processes[id]
	h.mu.Unlock()
	if proc != nil {
		f(proc)
	}
}

// forget ends a process of which nothing is left. Its output stays readable.
func (h *Host) forget(p *process) {
	h.mu.Lock()
	delete(h.processes, p.id)
	h.mu.Unlock()
	p.ended.Do(func() { close(p.gone) })
	p.streams.in().refuse()
	h.spawn(p.streams.close)
}

// spawn runs f on a goroutine that Close waits for; not at all once that waits.
func (h *Host) spawn(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.wg.Go(f)
	}
}

func (h *Host) stream(hd header) (*yamux.Stream, error) {
	s, err := h.session.OpenStream()
	if err != nil {
		return nil, sandbox.ErrGone
	}
	if err := writeHeader(s, hd); err != nil {
		_ = s.Close()
		return nil, sandbox.ErrGone
	}
	return s, nil
}

// Start starts a command, as sandbox.Sandbox says. The process is a [Process].
func (h *Host) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return nil, errors.New("starting a command: no program is named")
	}
	h.renewOwn()
	params := startParams{
		Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir,
		Infrastructure: cmd.Infrastructure, Private: cmd.Private, NullStdin: cmd.NullStdin,
		StdoutPath: cmd.StdoutPath, StderrPath: cmd.StderrPath,
	}
	// What bounds a command's time says so on its stderr.
	params.HandedOver = h.ready.Handover && !h.timed && cmd.StdoutPath+cmd.StderrPath == ""
	p, err := h.newProcess(&params)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Args[0], err)
	}
	if cmd.NullStdin {
		p.streams.in().refuse()
	}
	var started startResult
	if err := h.ctl.call(ctx, "start", params, &started); err != nil {
		h.abandon(ctx, p)
		return nil, fmt.Errorf("starting %s: %w", cmd.Args[0], err)
	}
	p.pid = started.PID
	p.streams.started()
	return p, nil
}

// abandon gives up a process whose start failed or is no longer wanted.
func (h *Host) abandon(ctx context.Context, p *process) {
	h.forget(p)
	if ctx.Err() == nil {
		return
	}
	h.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = h.ctl.call(ctx, "kill", processParams{Process: p.id}, nil)
	})
}

// newProcess numbers a process and opens its standard streams.
func (h *Host) newProcess(params *startParams) (p *process, err error) {
	h.mu.Lock()
	h.last++
	params.Process = h.last
	h.mu.Unlock()
	p = &process{host: h, id: params.Process, exited: make(chan struct{}), gone: make(chan struct{})}
	if params.HandedOver {
		p.streams, err = h.handOver(p.id, params.NullStdin)
	} else {
		p.streams, err = h.openStreams(p.id)
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.processes[p.id] = p
	h.mu.Unlock()
	return p, nil
}

// Mark notes what is alive, as sandbox.Sandbox says.
func (h *Host) Mark(ctx context.Context) (sandbox.Mark, error) {
	var r markParams
	if err := h.ctl.call(ctx, "mark", struct{}{}, &r); err != nil {
		return 0, fmt.Errorf("marking the sandbox's processes: %w", err)
	}
	return r.Mark, nil
}

// KillSince kills what was born after the mark, as sandbox.Sandbox says. The
// supervisor gives up after about a second.
func (h *Host) KillSince(ctx context.Context, m sandbox.Mark) (sandbox.KillReport, error) {
	var r sandbox.KillReport
	if err := h.ctl.call(ctx, "killSince", markParams{m}, &r); err != nil {
		return r, fmt.Errorf("killing the processes since a mark: %w", err)
	}
	return r, nil
}

// PID is the supervisor's process id inside; 1 in a PID namespace.
func (h *Host) PID() int { return h.ready.PID }

// Doors maps the names of the doors to their addresses inside.
func (h *Host) Doors() map[string]string { return h.ready.Doors }

// Limits say what the supervisor bounds, and by which means.
func (h *Host) Limits() []string { return h.ready.Limits }

// Enforcement is what the supervisor keeps rules for files with.
func (h *Host) Enforcement() sandbox.Enforcement {
	if h.ready.Rules {
		return sandbox.Enforcement{Closed: sandbox.ByKernel, Protected: sandbox.ByKernel}
	}
	return sandbox.Enforcement{Closed: sandbox.Open, Protected: sandbox.Open}
}

// Warnings are what the supervisor could not do, in sentences for people.
func (h *Host) Warnings() []string { return h.ready.Warnings }

// Done is closed when the stream to the supervisor has ended.
func (h *Host) Done() <-chan struct{} { return h.done }

// Close ends the stream, on which the supervisor kills everything and exits. A
// driver then waits for that exit. It is safe to repeat.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	err := h.session.Close()
	h.wg.Wait()
	return err
}
