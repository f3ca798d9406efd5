package ports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
)

// ErrShared is returned where a sandbox has no ports of its own.
var ErrShared = errors.New("this sandbox has no network of its own, so its ports are this machine's anyway")

const (
	// lookEvery passes between two looks for new listeners.
	lookEvery = 2 * time.Second
	// maxFound bounds the listeners that a set tells of.
	maxFound = 20
	// ephemeral is the first of the ports that the kernel hands out to programs that name none.
	ephemeral = 32768
)

// A Set holds what is open of one sandbox. Its methods may be called concurrently.
type Set struct {
	sb  sandbox.Sandbox
	id  string // names it in addresses
	log *slog.Logger

	ctx      context.Context // ends with End
	cancel   context.CancelFunc
	watching sync.WaitGroup

	// mu guards what follows.
	mu    sync.Mutex
	open  []*Opened
	ended bool
}

// NewSet returns the empty set of a sandbox that addresses name by id.
func NewSet(sb sandbox.Sandbox, id string, log *slog.Logger) *Set {
	s := &Set{sb: sb, id: id, log: log}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *Set) ported() (sandbox.Ported, error) {
	p, ok := s.sb.(sandbox.Ported)
	if !ok || !s.sb.Info().Isolated {
		return nil, ErrShared
	}
	return p, nil
}

// Open opens a port, unless it is, and returns its address for a browser.
func (s *Set) Open(spec Spec) (url string, err error) {
	p, err := s.ported()
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return "", sandbox.ErrGone
	}
	if !slices.ContainsFunc(s.open, func(o *Opened) bool { return o.Spec == spec }) {
		o, err := Open(p, spec, s.log)
		if err != nil {
			return "", err
		}
		s.open = append(s.open, o)
	}
	return spec.URL(s.id), nil
}

// Close closes a port of the sandbox, and reports whether it was open.
func (s *Set) Close(port int) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(o *Opened) bool {
		if o.Port != port {
			return false
		}
		was = true
		_ = o.Close()
		return true
	})
	return was
}

// End closes all ports; none is opened any more, and nothing is watched.
func (s *Set) End() {
	s.cancel()
	s.watching.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.open {
		_ = o.Close()
	}
	s.open, s.ended = nil, true
}

// State returns what is open, and the ports at which programs inside listen.
func (s *Set) State(ctx context.Context) (open []Spec, listening []int, err error) {
	p, err := s.ported()
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	for _, o := range s.open {
		open = append(open, o.Spec)
	}
	s.mu.Unlock()
	listening, err = p.Listening(ctx)
	return open, listening, err
}

// An Order opens a port, which Parse reads, closes one, or only looks where it is empty.
type Order struct {
	Open  string `json:"open,omitempty"`
	Close int    `json:"close,omitempty"`
}

// A View tells which ports of a sandbox are open, and at which others programs inside listen.
type View struct {
	Open      []Link `json:"open"`
	Listening []int  `json:"listening"`
}

// A Link leads to an open port. Heard tells whether anything listens there now.
type Link struct {
	Port  int    `json:"port"`
	URL   string `json:"url"`
	Heard bool   `json:"heard"`
}

// View returns what is open, and what else listens.
func (s *Set) View(ctx context.Context) (View, error) {
	open, listening, err := s.State(ctx)
	v := View{Open: []Link{}, Listening: []int{}}
	for _, o := range open {
		v.Open = append(v.Open, Link{Port: o.Port, URL: o.URL(s.id), Heard: slices.Contains(listening, o.Port)})
	}
	for _, port := range listening {
		if !slices.ContainsFunc(open, func(o Spec) bool { return o.Port == port }) {
			v.Listening = append(v.Listening, port)
		}
	}
	return v, err
}

// Watch has found called with each port, below those that the kernel hands out, at which something
// inside begins to listen from now on, until End.
func (s *Set) Watch(found func(port int)) {
	_, before, err := s.State(s.ctx)
	if err == nil {
		s.watching.Go(func() { s.watch(s.ctx, before, found) })
	}
}

func (s *Set) watch(ctx context.Context, before []int, found func(port int)) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for told := 0; told < maxFound; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		_, now, err := s.State(ctx)
		if err != nil {
			return // the sandbox has ended
		}
		for _, port := range now {
			if port < ephemeral && !slices.Contains(before, port) {
				found(port)
				told++
			}
		}
		before = now
	}
}

// Say names a port that is open, and whom it is open for.
func Say(port int, url string) string {
	return fmt.Sprintf("port %d inside is %s, for every user of this machine", port, url)
}
