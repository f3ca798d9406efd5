package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"gander.dev/gander/sandbox"
)

// rights are what a connection may ask of the supervisor.
type rights uint8

const (
	mayRun   rights = 1 << iota // start, signal and kill its own processes
	mayMark                     // mark, and kill what came later, whoever started it
	maySetup                    // set up the sandbox; its end is the sandbox's end

	ownerRights = mayRun | mayMark | maySetup
)

const (
	// maxMarks bounds the marks that are remembered; the oldest go first.
	maxMarks = 256
	// killDeadline bounds the killing of one command's processes.
	killDeadline = 10 * time.Second
	// killSinceDeadline is when the host shall rather close the sandbox.
	killSinceDeadline = time.Second
)

// procID names a process for all time: a number may be used again, but not
// within one tick of the clock that dates it.
type procID struct {
	pid   int
	start uint64
}

// snapshot is a set of processes.
type snapshot map[procID]struct{}

// platform is how an operating system keeps hold of what runs. Methods are safe
// for concurrent use; setup comes first.
type platform interface {
	// setup calls denied, from whatever goroutine, when Setup.Rules refused something.
	setup(s Setup, tell events) (warnings []string, err error)
	// start starts a command with the files as its stdin, stdout and stderr. The
	// caller closes them.
	start(p startParams, stdio [3]*os.File) (tree, error)
	live() (snapshot, error)
	// killSince kills everything inside that is not in the snapshot, apart from
	// the supervisor's own and infrastructure.
	killSince(context.Context, snapshot) (killed int, err error)
	// keeper keeps Setup.Rules; nil when there are none.
	keeper() keeper
	// shutdown kills everything.
	shutdown(context.Context)
}

// tree is a command and everything it started.
type tree interface {
	pid() int
	signal(name string) error
	// kill returns when nothing is left.
	kill(context.Context) error
	// exited yields one value, how the command itself ended.
	exited() <-chan sandbox.ExitStatus
	// members lists what is left, the command itself among it.
	members() []proc
	// polite asks all that lives to end and returns when that is no use any longer:
	// nothing is left, or only what does not listen, or ctx has ended.
	polite(ctx context.Context)
	// gone is closed when nothing is left, after exited has its value.
	gone() <-chan struct{}
}

// supervisor is S.
type supervisor struct {
	platform platform
	log      *slog.Logger
	bufs     buffers

	// mu guards the fields below.
	mu       sync.Mutex
	marks    map[sandbox.Mark]snapshot
	lastMark sandbox.Mark
}

// client is one connection to the supervisor.
type client struct {
	*supervisor
	rights  rights
	session *yamux.Session
	ctl     *control
	wg      sync.WaitGroup

	// mu guards the fields below.
	mu       sync.Mutex
	dir      string
	time     time.Duration // how long a command may run; 0 is no bound
	commands map[uint64]*command
	doors    []net.Listener
	handover *handover // nil without
	holds    map[uint64]func() bool
	road     interface { // nil without
		io.Closer
		// ports are those at which it listens, besides the resolver's.
		ports() []int
	}
}

// serve answers one connection until it ends, and returns when everything that
// was started for it is gone; with maySetup, everything at all. The error says
// why it ended: io.EOF when the peer closed it.
func (s *supervisor) serve(conn io.ReadWriteCloser, r rights) error {
	session, err := yamux.Server(newWholeFrames(conn), muxConfig(s.log))
	if err != nil {
		return err
	}
	c := &client{supervisor: s, rights: r, session: session, commands: map[uint64]*command{}, holds: map[uint64]func() bool{}}
	err = c.run()
	_ = session.Close()
	c.end()
	return err
}

func (c *client) run() error {
	stream, err := c.session.AcceptStream()
	if err != nil {
		return err
	}
	hd, err := readHeader(stream)
	if err != nil {
		return err
	}
	if hd.Stream != "control" {
		return fmt.Errorf("the first stream is %q, not control", hd.Stream)
	}
	c.ctl = newControl(stream)
	c.wg.Go(c.acceptStreams)
	for {
		m, err := c.ctl.receive()
		if err != nil {
			return err
		}
		c.expect(m)
		c.wg.Go(func() {
			result, err := c.handle(m)
			c.ctl.answer(m.ID, result, err)
		})
	}
}

// expect makes the record of a process that is about to start, so that a request
// to kill it that comes right behind finds it.
func (c *client) expect(m message) {
	var p processParams
	if m.Method == "start" && json.Unmarshal(m.Params, &p) == nil {
		c.command(p.Process)
	}
}

// end kills what the connection leaves behind.
func (c *client) end() {
	ctx, cancel := context.WithTimeout(context.Background(), exitDeadline)
	defer cancel()
	if c.rights&maySetup != 0 {
		c.closeDoors()
		c.platform.shutdown(ctx)
	} else {
		c.killAll(ctx)
	}
	done := make(chan struct{})
	go func() { // outlives end only when the process is about to exit
		c.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		c.log.Warn("processes are left that do not die", "connection", c.rights)
	}
}

func (c *client) killAll(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range c.commands {
		c.wg.Go(func() { _ = cmd.kill(ctx) })
	}
}

// handle performs one request.
func (c *client) handle(m message) (any, error) {
	switch m.Method {
	case "setup":
		return request(c, maySetup, m, c.setup)
	case "start":
		return request(c, mayRun, m, c.start)
	case "closed":
		return request(c, maySetup, m, c.closed)
	case "judge":
		return request(c, maySetup, m, c.judge)
	case "mayWrite":
		return request(c, maySetup, m, c.mayWrite)
	case "touched":
		return request(c, maySetup, m, c.touched)
	case "protectNamed":
		return request(c, maySetup, m, c.protectNamed)
	case "repositories":
		return request(c, maySetup, m, c.repositories)
	case "closeGit":
		return request(c, maySetup, m, c.closeGit)
	case "openGit":
		return request(c, maySetup, m, c.openGit)
	case "gitChanged":
		return request(c, maySetup, m, c.gitChanged)
	case "ownRules":
		return request(c, maySetup, m, c.ownRules)
	case "signal":
		return request(c, mayRun, m, c.signal)
	case "kill":
		return request(c, mayRun, m, c.kill)
	case "end":
		return request(c, mayRun, m, c.endProcess)
	case "members":
		return request(c, mayRun, m, c.members)
	case "hold":
		return request(c, maySetup, m, c.hold)
	case "release":
		return request(c, maySetup, m, c.release)
	case "listening":
		return request(c, maySetup, m, c.listening)
	case "mark":
		return request(c, mayMark, m, c.mark)
	case "killSince":
		return request(c, mayMark, m, c.killSince)
	}
	return nil, fmt.Errorf("the supervisor knows no %q; are both sides the same version?", m.Method)
}

// request decodes the parameters of a request and calls f, if it is permitted.
func request[P, R any](c *client, need rights, m message, f func(P) (R, error)) (any, error) {
	var p P
	if c.rights&need != need {
		return nil, fmt.Errorf("%s is not permitted on this connection", m.Method)
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", m.Method, err)
	}
	return f(p)
}

// events tell the client of what happens inside.
type events struct {
	denied   func(sandbox.Denial)
	exceeded func() // a process was killed for the memory that all use
}

func (c *client) setup(p setupParams) (setupResult, error) {
	r := setupResult{PID: os.Getpid(), Doors: map[string]string{}}
	var err error
	tell := events{
		denied:   func(d sandbox.Denial) { c.ctl.event("denied", d) },
		exceeded: func() { c.ctl.event("exceeded", struct{}{}) },
	}
	if r.Warnings, err = c.platform.setup(p.Setup, tell); err != nil {
		return r, err
	}
	var files *handover
	if p.Handover {
		if files, err = newHandover(); err != nil {
			return r, err
		}
	}
	c.mu.Lock()
	c.dir, c.handover = p.WorkingDir, files
	r.Handover = files != nil
	if p.Limits != nil {
		c.time = p.Limits.Time
	}
	c.mu.Unlock()
	r.Limits, r.Rules = limitsSay(p.Setup), c.platform.keeper() != nil
	for _, name := range p.Doors {
		if r.Doors[name], err = c.openDoor(name); err != nil {
			return r, err
		}
	}
	if p.Road {
		err = c.openRoad()
	}
	return r, err
}

func (c *client) mark(struct{}) (markParams, error) {
	live, err := c.platform.live()
	if err != nil {
		return markParams{}, err
	}
	s := c.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastMark++
	s.marks[s.lastMark] = live
	delete(s.marks, s.lastMark-maxMarks)
	return markParams{s.lastMark}, nil
}

func (c *client) killSince(p markParams) (r sandbox.KillReport, err error) {
	s := c.supervisor
	s.mu.Lock()
	since, ok := s.marks[p.Mark]
	s.mu.Unlock()
	if !ok {
		return r, errors.New("no such mark; the oldest are forgotten")
	}
	ctx, cancel := context.WithTimeout(context.Background(), killSinceDeadline)
	defer cancel()
	begin := time.Now()
	r.Killed, err = c.platform.killSince(ctx, since)
	r.Duration = time.Since(begin)
	return r, err
}
