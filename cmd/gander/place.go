package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/rules/project"
)

// A place is a sandbox for a command of gander's own.
type place struct {
	driver  string // a --sandbox choice; empty is the configuration's
	cwd     string
	name    string
	purpose string
	labels  map[string]string
	mounts  []sandbox.Mount
	doors   []sandbox.Door
	quiet   bool // what rules refuse is expected
	// examined is called with what was found out of git before anything runs; it may be nil.
	examined func(*confine.Examined)
	leaked   func() // called before the sandbox is closed because content of a closed file was about to leave; may be nil
}

// safeName is what the name of a sandbox may be: it becomes a directory's.
var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// openSandbox makes a sandbox whose home goes away with it. The function that it
// returns ends it and leaves nothing.
func (a *app) openSandbox(ctx context.Context, p place) (sandbox.Sandbox, func(), error) {
	w := a.wire()
	d, err := w.driver(cmp.Or(p.driver, a.cfg.Sandbox.Driver))
	if err != nil {
		return nil, nil, err
	}
	if !safeName.MatchString(p.name) {
		return nil, nil, usageError("the sandbox's name %q is not usable; take up to 64 letters, digits, dots, dashes and underscores", p.name)
	}
	dir, err := a.newSandboxDir(p.name)
	if err != nil {
		return nil, nil, err
	}
	labels := map[string]string{"purpose": p.purpose}
	maps.Copy(labels, p.labels)
	bounds, err := w.sandboxPolicy(p.cwd)
	if err != nil {
		a.remove(dir)
		return nil, nil, &exitError{exitUsage, err}
	}
	p.mounts = append(p.mounts, bounds.Mounts...)
	rules := w.rules()
	rules.Writes = bounds.Writes
	rules.Denied = func(d sandbox.Denial) {
		level := slog.LevelWarn
		if p.quiet {
			level = slog.LevelDebug
		}
		if d.Rule == sandbox.HiddenByGit {
			a.log.Log(ctx, level, sandbox.SayHidden, "sandbox", p.name)
			return
		}
		text := "a file that rules close or protect was refused inside"
		if d.Rule == sandbox.DeniedUnheard {
			text = "a socket at which nobody in the sandbox listens was refused inside"
		}
		a.log.Log(ctx, level, text, "sandbox", p.name, "path", d.Path, "operation", d.Operation, "rule", cmp.Or(d.Rule, ".gooseignore"))
	}
	using, stop := context.WithCancel(context.WithoutCancel(ctx))
	doors, closeDoors, err := a.egressDoor(using, p, stop)
	if err != nil {
		closeDoors()
		a.remove(dir)
		return nil, nil, err
	}
	p.doors = append(p.doors, doors...)
	spec := sandbox.Spec{
		ID: p.name, WorkingDir: p.cwd, Home: filepath.Join(dir, "home"), Mounts: p.mounts, Doors: p.doors, Labels: labels,
		Rules: rules, Limits: bounds.Bounds(),
	}
	err = confine.GiveGitStore(&spec, bounds.Git, filepath.Join(dir, "git"))
	var sb sandbox.Sandbox
	if err == nil {
		sb, err = d.Create(ctx, spec)
	}
	if err != nil {
		closeDoors()
		a.remove(dir)
		if _, ok := errors.AsType[*project.UnfitError](err); ok {
			err = &exitError{exitUsage, err}
		}
		return nil, nil, err
	}
	stopped := context.AfterFunc(using, func() { _ = sb.Close() }) // what sends out closed content
	done := func() {
		stopped()
		if err := sb.Close(); err != nil {
			a.log.Error("closing the sandbox", "err", err)
		}
		closeDoors()
		a.remove(dir)
	}
	found, err := a.keepGit(ctx, sb, confine.Examination{Driver: d, Spec: spec, StateDir: a.cfg.Home, Git: bounds.Git})
	if err != nil {
		done()
		return nil, nil, err
	}
	if p.examined != nil {
		p.examined(found)
	}
	return sb, done, nil
}

// keepGit protects what git's configuration names, and does what the policy says about
// closed files that git keeps, where it does not leave it at words: what a person runs by
// hand reads what it likes then.
func (a *app) keepGit(ctx context.Context, sb sandbox.Sandbox, e confine.Examination) (*confine.Examined, error) {
	look := e.Examine
	if e.Git == policy.GitWarn {
		look = e.Protect
	}
	found, err := look(ctx, sb)
	if confine.Refused(err) {
		return nil, &exitError{exitPermission, err}
	}
	if err != nil {
		return nil, err
	}
	for _, text := range found.Notices() {
		a.log.Info(text)
	}
	for _, text := range found.Weaker() {
		a.log.Warn(text)
	}
	return found, nil
}

// newSandboxDir makes the directory of a new sandbox, with an empty home.
func (a *app) newSandboxDir(name string) (string, error) {
	dir := filepath.Join(a.cfg.Home, "sandboxes", name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("making the sandbox's directory: %w; choose one that you can write with --home or GANDER_HOME", err)
	}
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return "", usageError("there is a sandbox %q already; see gander sandbox list, or clear away old ones with gander sandbox gc", name)
	}
	if err == nil {
		_, err = registry.Claim(a.cfg.Home, name)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "home"), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("making the sandbox's home: %w", err)
	}
	return dir, nil
}

// remove removes a directory with what a command made in it: directories that
// nobody may write to (a module cache has them) are no reason to leave it.
func (a *app) remove(dir string) {
	if err := registry.RemoveDir(dir); err != nil {
		a.log.Warn("a sandbox's directory is left over", "err", err)
	}
}

func randomName() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
