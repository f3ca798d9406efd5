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
	"gander.dev/gander/sandbox/outbound/egress"
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
	quiet   bool   // what rules refuse is expected
	leaked  func() // called before the sandbox is closed because content of a closed file was about to leave; may be nil
}

// safeName is what the name of a sandbox may be: it becomes a directory's.
var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// openSandbox opens a place whose home goes away with it. The function that it returns
// closes it and leaves nothing.
func (a *app) openSandbox(ctx context.Context, p place) (*confine.Place, func(), error) {
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
	using, stop := context.WithCancel(context.WithoutCancel(ctx))
	in, err := confine.Open(ctx, confine.Request{
		Terms: w.ways, Driver: d, StateDir: a.cfg.Home, Log: a.log, NoModel: true, Named: true, Denied: a.denials(ctx, p),
		Spec: sandbox.Spec{ID: p.name, WorkingDir: p.cwd, Home: filepath.Join(dir, "home"), Mounts: p.mounts, Doors: p.doors, Labels: labels},
		Way: confine.Way{
			WorkingDir: p.cwd, Context: using, Leaks: a.leaksOf(using, w, p, stop),
			// What was allowed is no reason to worry, and to be seen all the same.
			Decided: func(t egress.Tally) { a.log.Warn(t.String()) },
		},
	})
	if err != nil {
		stop()
		a.remove(dir)
		return nil, nil, openError(err)
	}
	for _, text := range in.Examined.Notices() {
		a.log.Info(text)
	}
	for _, text := range in.Examined.Weaker() {
		a.log.Warn(text)
	}
	stopped := context.AfterFunc(using, func() { _ = in.Sandbox.Close() }) // what sends out closed content
	return in, func() {
		stopped()
		stop()
		if err := in.Close(); err != nil {
			a.log.Error("closing the sandbox", "err", err)
		}
		a.remove(dir)
	}, nil
}

// openError gives an error of confine.Open its exit code.
func openError(err error) error {
	if made, ok := errors.AsType[*confine.MakeError](err); ok {
		err = made.Reason
	}
	_, policy := errors.AsType[*confine.PolicyError](err)
	_, unfit := errors.AsType[*project.UnfitError](err)
	switch {
	case policy, unfit:
		return &exitError{exitUsage, err}
	case confine.Refused(err):
		return &exitError{exitPermission, err}
	}
	return err
}

// denials logs what rules refuse in a place.
func (a *app) denials(ctx context.Context, p place) func(sandbox.Denial) {
	level := slog.LevelWarn
	if p.quiet {
		level = slog.LevelDebug
	}
	return func(d sandbox.Denial) {
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
}

// leaksOf looks at what a command of gander's own sends out; nil where nothing can leave.
// stop ends the command.
func (a *app) leaksOf(ctx context.Context, w *wiring, p place, stop func()) *confine.Leaks {
	bounds, err := w.Policy(p.cwd)
	if err != nil || !bounds.Network.Open() {
		return nil // the error is said when the place is opened
	}
	return confine.NewLeaks(confine.LeakOptions{
		Mode: bounds.Canaries, Project: p.cwd, Own: w.Rules().Own, Context: ctx, Log: a.log,
		Notice: func(_, text string) { a.log.Warn(text) },
		Stop: func(why string) {
			a.log.Error(why + " The command was ended (policy.canaries: stop).")
			if p.leaked != nil {
				p.leaked()
			}
			stop()
		},
		Spawn: func(f func()) { go f() }, // ends with ctx
	})
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
