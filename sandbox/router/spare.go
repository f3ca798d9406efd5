package router

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sessions"
)

// A sandbox takes a while to make, in a container the better part of a second. So
// one is made ahead while nothing else is to be done, for a next session that is
// like the one that was opened last. A spare belongs to a session from the start,
// one that has not been opened yet: its names, its home and its labels are right,
// and no sandbox is ever used by two.

// spareLife is how long a spare waits before it is given up.
const spareLife = 10 * time.Minute

// spare is a sandbox that waits for a session.
type spare struct {
	id     acp.SessionID
	agent  sandbox.Agent
	driver sandbox.Driver
	spec   sandbox.Spec
	dir    string      // what it has on the host
	place  os.FileInfo // its working directory
	sb     sandbox.Sandbox
	user   atomic.Pointer[sandbox.Spec] // what its user would have made; nil until it is taken
	taken  chan struct{}
}

// spares are those of a router.
type spares struct {
	r    *Router
	work sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	waiting []*spare // the oldest first
	filling bool
	closed  bool
}

// fill makes a spare like b's sandbox when nothing is running any more.
func (p *spares) fill(b *backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r.opts.Spares <= 0 || p.filling || p.closed {
		return
	}
	for _, sp := range p.waiting {
		if sp.suits(b.agent, b.driver, b.s.cwd) {
			return
		}
	}
	p.filling = true
	p.work.Go(func() {
		if p.r.awaitIdle() {
			p.make(b)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.filling = false
	})
}

// awaitIdle waits until no turn has run for a moment; false when the router ends.
func (r *Router) awaitIdle() bool {
	t := time.NewTicker(r.opts.SpareAfter)
	defer t.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return false
		case <-t.C:
		}
		if r.idle() {
			return true
		}
	}
}

func (r *Router) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		s.mu.Lock()
		busy := len(s.queue) > 0
		s.mu.Unlock()
		if busy {
			return false
		}
	}
	return true
}

// make makes a spare and keeps it until it is taken or of no use any more. An
// error is only logged: the session that wants a sandbox will say it.
func (p *spares) make(b *backend) {
	sp := &spare{id: acp.SessionID(sessions.NewID()), agent: b.agent, driver: b.driver, taken: make(chan struct{})}
	err := sp.open(p.r, b)
	if err != nil {
		p.r.log.Debug("making a sandbox ahead", "err", err)
		return
	}
	p.mu.Lock()
	p.waiting = append(p.waiting, sp)
	var over []*spare
	for len(p.waiting) > p.r.opts.Spares || p.closed && len(p.waiting) > 0 {
		over = append(over, p.waiting[0])
		p.waiting = p.waiting[1:]
	}
	if !p.closed {
		p.work.Go(func() { p.watch(sp) })
	}
	p.mu.Unlock()
	for _, old := range over {
		old.discard(p.r)
	}
}

// open makes the sandbox like b's, with its own id and home.
func (sp *spare) open(r *Router, b *backend) error {
	id := sandboxID(sp.agent, sp.id)
	dir, err := registry.Claim(r.opts.StateDir, id)
	if err != nil {
		return err
	}
	sp.dir = dir
	if sp.place, err = os.Stat(b.s.cwd); err != nil {
		return errors.Join(err, registry.RemoveDir(dir))
	}
	home := filepath.Join(dir, homeDir)
	if err = os.Mkdir(home, 0o700); err == nil {
		sp.spec, err = b.place.Fit(home)
		sp.spec = sp.own(sp.spec, id)
	}
	if err == nil {
		sp.sb, err = sp.driver.Create(r.ctx, sp.spec)
	}
	if err != nil {
		return errors.Join(err, registry.RemoveDir(dir))
	}
	return nil
}

// own makes the spec of b's sandbox the spare's: what reaches out of it goes to
// whoever takes it.
func (sp *spare) own(spec sandbox.Spec, id string) sandbox.Spec {
	spec.ID = id
	spec.Labels = map[string]string{"agent": sp.agent.Name(), "program": sandbox.ProgramOf(sp.agent), "session": string(sp.id)}
	spec.Doors = slices.Clone(spec.Doors)
	for i := range spec.Doors {
		name := spec.Doors[i].Name
		spec.Doors[i].Dial = func(ctx context.Context) (net.Conn, error) { return sp.dial(ctx, name) }
	}
	if spec.Road != nil {
		spec.Road = spareRoad{sp}
	}
	if spec.Rules != nil {
		rules := *spec.Rules
		rules.Denied = func(d sandbox.Denial) {
			if user := sp.user.Load(); user != nil {
				user.Rules.Denied(d)
			}
		}
		spec.Rules = &rules
	}
	return spec
}

// errUnused answers whatever in a spare wants to get out: nothing runs in it that should.
var errUnused = errors.New("no session uses this sandbox yet")

func (sp *spare) dial(ctx context.Context, door string) (net.Conn, error) {
	user := sp.user.Load()
	if user == nil {
		return nil, errUnused
	}
	i := slices.IndexFunc(user.Doors, func(d sandbox.Door) bool { return d.Name == door }) // the doors are the same
	return user.Doors[i].Dial(ctx)
}

// spareRoad is the road of whoever takes a spare.
type spareRoad struct{ sp *spare }

func (r spareRoad) user() sandbox.Road {
	if user := r.sp.user.Load(); user != nil && user.Road != nil {
		return user.Road
	}
	return nil
}

func (r spareRoad) Known(ctx context.Context, host string, port int) bool {
	road := r.user()
	return road != nil && road.Known(ctx, host, port)
}

func (r spareRoad) Loopback() []netip.AddrPort {
	if road := r.user(); road != nil {
		return road.Loopback()
	}
	return nil
}

func (r spareRoad) Taken(at netip.AddrPort) {
	if road := r.user(); road != nil {
		road.Taken(at)
	}
}

func (r spareRoad) DialHost(ctx context.Context, host string, port int) (net.Conn, error) {
	if road := r.user(); road != nil {
		return road.DialHost(ctx, host, port)
	}
	return nil, errUnused
}

// watch gives a spare up when it has ended or nobody wants it.
func (p *spares) watch(sp *spare) {
	late := time.NewTimer(spareLife)
	defer late.Stop()
	select {
	case <-sp.taken:
		return
	case <-sp.sb.Done():
	case <-late.C:
	case <-p.r.ctx.Done():
	}
	if p.remove(sp) {
		sp.discard(p.r)
	}
}

// remove reports whether the spare was still waiting.
func (p *spares) remove(sp *spare) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, sp)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return true
}

// take gives the spare for a session that is about to be opened; nil when there is none.
func (p *spares) take(a sandbox.Agent, d sandbox.Driver, cwd string) *spare {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.waiting, func(sp *spare) bool { return sp.suits(a, d, cwd) })
	if i < 0 {
		return nil
	}
	sp := p.waiting[i]
	p.waiting = slices.Delete(p.waiting, i, i+1)
	close(sp.taken)
	return sp
}

func (sp *spare) suits(a sandbox.Agent, d sandbox.Driver, cwd string) bool {
	if sp.agent.Name() != a.Name() || sp.driver.Name() != d.Name() || sp.spec.WorkingDir != cwd {
		return false
	}
	now, err := os.Stat(cwd)
	return err == nil && os.SameFile(now, sp.place)
}

// close ends what waits.
func (p *spares) close() {
	p.mu.Lock()
	p.closed = true
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, sp := range waiting {
		sp.discard(p.r)
	}
	p.work.Wait()
}

// discard ends a spare that no session has used, and removes what it has on the host.
func (sp *spare) discard(r *Router) {
	if err := sp.sb.Close(); err != nil {
		r.log.Error("closing a sandbox that was made ahead", "err", err)
	}
	if err := registry.RemoveDir(sp.dir); err != nil {
		r.log.Warn("a sandbox's directory is left over", "err", err)
	}
}

// useSpare returns the sandbox of the spare that came with the session, if it is what a
// place would make now and still lives; nil if not. It is asked once.
func (b *backend) useSpare(p *confine.Place) (sandbox.Sandbox, sandbox.Spec) {
	s := b.s
	sp := s.takeSpare()
	if sp == nil {
		return nil, sandbox.Spec{}
	}
	want, err := p.Fit(sp.spec.Home)
	if err != nil {
		s.log.Debug("taking the sandbox made ahead", "err", err)
	}
	alive := true
	select {
	case <-sp.sb.Done():
		alive = false
	default:
	}
	if !alive || b.agent.Name() != sp.agent.Name() || b.driver.Name() != sp.driver.Name() || !sameSandbox(want, sp.spec) {
		sp.discard(s.r)
		return nil, sandbox.Spec{}
	}
	if err := s.takeHome(b.agent, sp.dir); err != nil {
		s.log.Debug("taking the sandbox made ahead", "err", err)
		sp.discard(s.r)
		return nil, sandbox.Spec{}
	}
	sp.user.Store(&want)
	return sp.sb, want
}

func (s *session) takeSpare() *spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spare
	s.spare = nil
	return sp
}

// takeHome makes the home of a spare the session's.
func (s *session) takeHome(a sandbox.Agent, dir string) error {
	if _, remembers := a.(sandbox.Rememberer); remembers {
		if err := registry.Keep(dir); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.homes[a.Name()] = true
	return nil
}

// sameSandbox says whether two specs make the same sandbox; who answers at their
// doors and hears of denials is another matter.
func sameSandbox(a, b sandbox.Spec) bool { return reflect.DeepEqual(dumb(a), dumb(b)) }

// dumb is a spec without its functions.
func dumb(spec sandbox.Spec) sandbox.Spec {
	spec.Doors = slices.Clone(spec.Doors)
	for i := range spec.Doors {
		spec.Doors[i].Dial = nil
	}
	spec.Road = nil
	if spec.Rules != nil {
		rules := *spec.Rules
		rules.Denied = nil
		spec.Rules = &rules
	}
	return spec
}
