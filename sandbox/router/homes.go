package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
)

// What agents keep of their conversations is a part of their homes. Between two
// openings of a session only that part is left, and none of what a hostile
// program may have put beside it for the next one.

const (
	// maxRemembered bounds what is kept of one agent's conversation, in bytes, and
	// maxRememberedFiles in files. A larger one is told again from the transcript.
	maxRemembered      = 256 << 20
	maxRememberedFiles = 5000
	// maxRememberedDepth is in directories: to look through them takes the square of it.
	maxRememberedDepth = 100

	homeDir  = "home"
	trimming = "home.trimmed" // the next home while it is made
)

// leftTime bounds the waiting for a sandbox of a gander that was killed.
const leftTime = 10 * time.Second

func (s *session) sandboxID(a sandbox.Agent) string { return sandboxID(a, s.id) }

// sandboxID names a sandbox after agent and session.
func sandboxID(a sandbox.Agent, id acp.SessionID) string { return a.Name() + "-" + string(id) }

func (s *session) sandboxDir(a sandbox.Agent) string {
	return filepath.Join(s.r.opts.StateDir, "sandboxes", s.sandboxID(a))
}

// home is the directory that the agent has as its home. What is in it stays
// while the session is open, so that a restarted agent finds its state.
func (s *session) home(ctx context.Context, a sandbox.Agent) (string, error) {
	if err := registry.AwaitEnd(ctx, s.r.opts.StateDir, s.sandboxID(a), leftTime); err != nil {
		return "", err
	}
	dir, err := registry.Claim(s.r.opts.StateDir, s.sandboxID(a))
	if err != nil {
		return "", err
	}
	if _, remembers := a.(sandbox.Rememberer); remembers {
		if err := registry.Keep(dir); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	known := s.homes[a.Name()]
	s.homes[a.Name()] = true
	s.mu.Unlock()
	if !known {
		if err := trimHome(dir, remembered(a)); err != nil {
			return "", fmt.Errorf("preparing the home of %s: %w", a.Name(), err)
		}
	}
	dir = filepath.Join(dir, homeDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the agent's home: %w", err)
	}
	return dir, nil
}

func remembered(a sandbox.Agent) []string {
	if r, ok := a.(sandbox.Rememberer); ok {
		return r.Remembers()
	}
	return nil
}

// leaveHome gives up the home of an agent that has ended. What the agent needs to
// go on with its conversation stays.
func (s *session) leaveHome(a sandbox.Agent) {
	dir := s.sandboxDir(a)
	keep := remembered(a)
	if len(keep) == 0 || !s.remembers(a) {
		s.removeHome(a)
		return
	}
	if err := trimHome(dir, keep); err != nil {
		s.log.Warn("tidying the agent's home", "err", err)
		s.removeHome(a)
		return
	}
	registry.Disown(dir)
}

// remembers reports whether the agent has been part of the conversation.
func (s *session) remembers(a sandbox.Agent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[a.Name()].turn != ""
}

// dropRecord gives up what an agent keeps of the conversation, as it cannot start with
// it: a disk may have damaged it. It is told again from the transcript.
func (s *session) dropRecord(a sandbox.Agent) {
	s.removeHome(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[a.Name()] = memory{lost: true}
}

// removeHome removes what an agent of this session left on the host.
func (s *session) removeHome(a sandbox.Agent) {
	if err := registry.RemoveDir(s.sandboxDir(a)); err != nil {
		s.log.Warn("removing the agent's home", "err", err)
	}
}

// trimHome leaves of the home below dir only the paths to keep, and nothing at
// all when they are too large. Nothing may run in it. A trimming that was cut
// short is finished by the next one. What was in the home is not trusted: it is
// moved and removed, but never opened, and no link in it leads out of dir.
func trimHome(dir string, keep []string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.Mkdir(trimming, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range keep {
		if err := moveTo(root, path.Join(homeDir, name), path.Join(trimming, name)); err != nil {
			return err
		}
	}
	if err := registry.RemoveDir(filepath.Join(dir, homeDir)); err != nil {
		return err
	}
	if tooLarge(root.FS(), trimming) {
		return registry.RemoveDir(filepath.Join(dir, trimming))
	}
	return root.Rename(trimming, homeDir)
}

// moveTo moves a file or directory when it is there and can be reached without
// leaving root, and nothing has been moved to its place before.
func moveTo(root *os.Root, from, to string) error {
	if _, err := root.Lstat(from); err != nil {
		return nil // it is not there, or a link leads elsewhere
	}
	if _, err := root.Lstat(to); err == nil {
		return nil
	}
	if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return err
	}
	return root.Rename(from, to)
}

// tooLarge reports whether a directory has more in it than is kept. Links are not followed.
func tooLarge(fsys fs.FS, dir string) bool {
	var bytes int64
	files := 0
	err := fs.WalkDir(fsys, dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		files++
		bytes += info.Size()
		if bytes > maxRemembered || files > maxRememberedFiles || strings.Count(name, "/") > maxRememberedDepth {
			return fs.ErrInvalid
		}
		return nil
	})
	return err != nil
}
