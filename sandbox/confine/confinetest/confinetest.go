// Package confinetest has a sandbox for tests of what looks at one before anything runs
// in it.
package confinetest

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"

	"gander.dev/gander/sandbox"
)

// Sandbox runs programs here, in Dir, and closes files called ".env" and "linked". What it
// is not asked for by those that examine a sandbox is the embedded one's.
type Sandbox struct {
	sandbox.Sandbox
	Dir string
	// Log hears of what it is asked for.
	Log func(format string, args ...any)
	// ClosedGit is whether git's objects are closed.
	ClosedGit bool
	// TooMany says that there are more repositories than are looked through.
	TooMany bool
	// Unread returns the reason for which git's configuration cannot be read; nil, or nil from it, when it can.
	Unread func() error
}

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = s.Dir, c.Env
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.errs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = cmd.Wait()
	close(p.done)
	return p, nil
}

// Closed implements sandbox.RuleKeeper.
func (s *Sandbox) Closed(context.Context) (sandbox.ClosedFiles, error) {
	return sandbox.ClosedFiles{Count: 2, Examples: []string{".env", "evil\x1b[31m"}}, nil
}

// Judge implements sandbox.RuleKeeper.
func (s *Sandbox) Judge(_ context.Context, paths []string) ([]bool, error) {
	out := make([]bool, len(paths))
	for i, p := range paths {
		out[i] = filepath.Base(p) == ".env" || filepath.Base(p) == "linked"
	}
	return out, nil
}

// MayWrite implements sandbox.RuleKeeper.
func (s *Sandbox) MayWrite(_ context.Context, path string) (bool, error) {
	return filepath.Base(path) != "named", nil
}

// ProtectNamed implements sandbox.RuleKeeper.
func (s *Sandbox) ProtectNamed(ctx context.Context) (sandbox.Repositories, error) {
	s.Log("protect named")
	if s.Unread != nil && s.Unread() != nil {
		return sandbox.Repositories{}, s.Unread()
	}
	return s.repositories()
}

// Repositories implements sandbox.RuleKeeper.
func (s *Sandbox) Repositories(context.Context) (sandbox.Repositories, error) {
	s.Log("look for repositories")
	return s.repositories()
}

func (s *Sandbox) repositories() (found sandbox.Repositories, err error) {
	found.Partial = s.TooMany
	return found, filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != ".git" {
			return err
		}
		dir, _ := filepath.Rel(s.Dir, path)
		found.Found = append(found.Found, sandbox.Repository{Dir: dir, Tree: filepath.Dir(dir)})
		return fs.SkipDir
	})
}

// CloseGit implements sandbox.RuleKeeper.
func (s *Sandbox) CloseGit(context.Context) (uint64, error) {
	s.ClosedGit = true
	return 1, nil
}

// OpenGit implements sandbox.RuleKeeper.
func (s *Sandbox) OpenGit(context.Context, uint64, map[string]string) error {
	s.ClosedGit = false
	return nil
}

// GitChanged implements sandbox.RuleKeeper.
func (s *Sandbox) GitChanged(context.Context) (bool, error) { return false, nil }

// process is a process that has ended.
type process struct {
	cmd       *exec.Cmd
	done      chan struct{}
	out, errs bytes.Buffer
}

func (p *process) PID() int                             { return p.cmd.Process.Pid }
func (p *process) Stdin() io.WriteCloser                { return discardCloser{io.Discard} }
func (p *process) Stdout() io.Reader                    { return &p.out }
func (p *process) Stderr() io.Reader                    { return &p.errs }
func (p *process) Signal(context.Context, string) error { return nil }
func (p *process) Kill(context.Context) error           { return nil }
func (p *process) Wait(context.Context) (sandbox.ExitStatus, error) {
	return sandbox.ExitStatus{Code: p.cmd.ProcessState.ExitCode()}, nil
}

type discardCloser struct{ io.Writer }

func (discardCloser) Close() error { return nil }
