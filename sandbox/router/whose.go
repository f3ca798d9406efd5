package router

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/project"
)

// While a turn runs, others change files of the project, too: another thread, an unattended
// run, the person. An undo of the turn leaves alone what they did. The sandbox notes what
// something in it has opened for writing, and what it has written through the editor the
// router knows. Where the sandbox notes nothing, or MCP servers outside of it may have
// written for the agent, a change belongs to the turn unless another thread was at work.

// whoseTime bounds how long the sandbox is asked.
const whoseTime = 5 * time.Second

// whose says which changes of files the backend's turn made.
func (b *backend) whose(paths []string) []changes.Owner {
	s := b.s
	crowded := s.r.isCrowded(s)
	touched, err := b.touched(paths)
	if err != nil {
		s.log.Debug("what the turn itself has changed is not known", "err", err)
	}
	owners := make([]changes.Owner, len(paths))
	for i, path := range paths {
		switch {
		case !utf8.ValidString(path), err == nil && touched[i], b.hasEdited(path):
		case err == nil && !s.usesServers():
			owners[i] = changes.Others
		case crowded:
			owners[i] = changes.Unsure
		}
	}
	return owners
}

func (b *backend) touched(paths []string) ([]bool, error) {
	t, ok := b.sb.(sandbox.Toucher)
	if !ok {
		return nil, fmt.Errorf("the %s sandbox does not note it", b.driver.Name())
	}
	ctx, done := context.WithTimeout(b.s.ctx, whoseTime)
	defer done()
	return t.Touched(ctx, paths)
}

// edited notes that the editor has changed a file for the agent.
func (b *backend) edited(path string) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if b.byEditor == nil {
		b.byEditor = map[string]bool{}
	}
	b.byEditor[path] = true
}

func (b *backend) hasEdited(path string) bool {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.byEditor[path]
}

// usesServers reports whether the agent has MCP servers of the editor's, which run outside.
func (s *session) usesServers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.servers.all, func(v *server) bool { return v.allowed })
}

// beginWork notes that a turn of a session runs, and tells the threads that work in one
// project at the same time of each other.
func (r *Router) beginWork(s *session) {
	r.mu.Lock()
	var others []*session
	for other := range r.working {
		if other != s && inOneProject(other, s) {
			others = append(others, other)
			r.crowded[other], r.crowded[s] = true, true
		}
	}
	r.working[s] = true
	r.mu.Unlock()
	if r.opts.Parent != "" { // the parent session says it
		return
	}
	for _, other := range others {
		s.sayAlso(other)
		other.sayAlso(s)
	}
}

// endWork notes that no turn of a session runs any more.
func (r *Router) endWork(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.working, s)
	delete(r.crowded, s)
}

// isCrowded reports whether a turn of another session ran in the project of one while its
// own did.
func (r *Router) isCrowded(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crowded[s]
}

func inOneProject(a, b *session) bool {
	x, y := realPath(a.cwd), realPath(b.cwd)
	return project.Below(x, y) || project.Below(y, x)
}

// sayAlso tells of another thread that works in the project.
func (s *session) sayAlso(other *session) {
	other.mu.Lock()
	name := cmp.Or(other.title, string(other.id))
	other.mu.Unlock()
	s.notice("info", fmt.Sprintf("Another thread works in this project at the same time: %s. /undo puts back what this thread changed, and leaves alone what the other did.", name))
}
