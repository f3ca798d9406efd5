package wire

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

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/rules/project"
)

// A place is a sandbox for a command of gander's own.
type Place struct {
	Driver  string // a --sandbox choice; empty is the configuration's
	CWD     string
	Name    string
	Purpose string
	Labels  map[string]string
	Mounts  []sandbox.Mount
	links   map[string]string // in its home
	Doors   []sandbox.Door
	Network *policy.Network // in place of policy.network; nil leaves that
	Quiet   bool            // what rules refuse is expected
	Leaked  func()          // called before the sandbox is closed because content of a closed file was about to leave; may be nil
}

// safeName is what the name of a sandbox may be: it becomes a directory's.
var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// OpenSandbox opens a place whose home goes away with it. The function that it returns
// closes it and leaves nothing.
func OpenSandbox(ctx context.Context, a *cli.App, p Place) (*confine.Place, func(), error) {
	w := New(a)
	w.network = p.Network
	d, err := w.Driver(cmp.Or(p.Driver, a.Config.Sandbox.Driver))
	if err != nil {
		return nil, nil, err
	}
	if len(p.Name) > 64 || !safeName.MatchString(p.Name) {
		return nil, nil, cli.UsageError("the sandbox's name %q is not usable; take up to 64 letters, digits, dots, dashes and underscores", p.Name)
	}
	dir, err := newSandboxDir(a, p.Name)
	if err != nil {
		return nil, nil, err
	}
	labels := map[string]string{"purpose": p.Purpose}
	maps.Copy(labels, p.Labels)
	using, stop := context.WithCancel(context.WithoutCancel(ctx))
	in, err := confine.Open(ctx, confine.Request{
		Terms: w.Ways, Driver: d, StateDir: a.Config.Home, Log: a.Log, NoModel: true, Named: true, Denied: denials(ctx, a, p),
		Spec: sandbox.Spec{ID: p.Name, WorkingDir: p.CWD, Home: filepath.Join(dir, "home"), Mounts: p.Mounts, HomeLinks: p.links, Doors: p.Doors, Labels: labels},
		Way: confine.Way{
			WorkingDir: p.CWD, Context: using, Leaks: leaksOf(using, a, w, p, stop),
			// A connection that was allowed is no reason to worry, and to be seen all the same.
			// A name that was only looked up is a notice.
			Decided: func(t egress.Tally) {
				level := slog.LevelInfo
				if t.Allowed || t.Port != 0 {
					level = slog.LevelWarn
				}
				a.Log.Log(ctx, level, t.String())
			},
			Notice: func(_, text string) { fmt.Fprintln(a.Err, "gander:", text) },
		},
	})
	if err != nil {
		stop()
		Remove(a, dir)
		return nil, nil, openError(err)
	}
	for _, text := range in.Examined.Notices() {
		a.Log.Info(text)
	}
	if in.Policy.Settings.Unsigned {
		a.Log.Warn(gitconfig.SayUnsigned)
	}
	for _, text := range in.Policy.SayPlace() {
		a.Log.Info(text)
	}
	for _, text := range in.Policy.Place.Left {
		a.Log.Warn(text)
	}
	for _, text := range in.Examined.Weaker() {
		a.Log.Warn(text)
	}
	stopped := context.AfterFunc(using, func() { _ = in.Sandbox.Close() }) // what sends out closed content
	return in, func() {
		stopped()
		stop()
		if err := in.Close(); err != nil {
			a.Log.Error("closing the sandbox", "err", err)
		}
		Remove(a, dir)
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
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	case confine.Refused(err):
		return &cli.ExitError{Code: cli.ExitPermission, Err: err}
	}
	return err
}

// denials logs what rules refuse in a place.
func denials(ctx context.Context, a *cli.App, p Place) func(sandbox.Denial) {
	level := slog.LevelWarn
	if p.Quiet {
		level = slog.LevelDebug
	}
	return func(d sandbox.Denial) {
		if d.Rule == sandbox.HiddenByGit {
			a.Log.Log(ctx, level, sandbox.SayHidden, "sandbox", p.Name)
			return
		}
		text := "a file that rules close or protect was refused inside"
		if d.Rule == sandbox.DeniedUnheard {
			text = "a socket at which nobody in the sandbox listens was refused inside"
		}
		a.Log.Log(ctx, level, text, "sandbox", p.Name, "path", d.Path, "operation", d.Operation, "rule", cmp.Or(d.Rule, d.By, ".gooseignore"), "why", cmp.Or(d.Why, "-"), "allow", permits(d))
	}
}

// permits says what permits what rules refused.
func permits(d sandbox.Denial) string {
	if d.Setting != "" {
		return d.Setting
	}
	if d.Allow == "" {
		return "-"
	}
	return fmt.Sprintf("%q in policy.writes.allow", d.Allow)
}

// leaksOf looks at what a command of gander's own sends out, also to hosts that are allowed
// while it runs. stop ends the command.
func leaksOf(ctx context.Context, a *cli.App, w *Wiring, p Place, stop func()) *confine.Leaks {
	return confine.NewLeaks(confine.LeakOptions{
		Mode: w.Canaries(p.CWD), Project: p.CWD, Own: w.Rules().Own, Context: ctx, Log: a.Log,
		Notice: func(_, text string) { a.Log.Warn(text) },
		Stop: func(why string) {
			a.Log.Error(why + " The command was ended (policy.canaries: stop).")
			if p.Leaked != nil {
				p.Leaked()
			}
			stop()
		},
		Spawn: func(f func()) { go f() }, // ends with ctx
	})
}

// newSandboxDir makes the directory of a new sandbox, with an empty home.
func newSandboxDir(a *cli.App, name string) (string, error) {
	dir := filepath.Join(a.Config.Home, "sandboxes", name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("making the sandbox's directory: %w; %s", err, cli.HomeAdvice)
	}
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return "", cli.UsageError("there is a sandbox %q already; see gander sandbox list, or clear away old ones with gander sandbox gc", name)
	}
	if err == nil {
		_, err = registry.Claim(a.Config.Home, name)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "home"), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("making the sandbox's home: %w; %s", err, cli.HomeAdvice)
	}
	return dir, nil
}

// Remove removes a directory with what a command made in it: directories that
// nobody may write to (a module cache has them) are no reason to leave it.
func Remove(a *cli.App, dir string) {
	if err := registry.RemoveDir(dir); err != nil {
		a.Log.Warn("a sandbox's directory is left over", "err", err)
	}
}

func RandomName() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
