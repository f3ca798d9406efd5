package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/rules/policy"
)

// Where the policy's git is "hide", all object stores that it has are closed to the agent's
// sandbox before anything runs in it. What git has is looked at in a sandbox of
// its own, in which nothing of the agent's ever runs: git makes an object store there
// that lacks the content of closed files, and the agent's git finds it beside its own.

// Bounds of making such a store.
const (
	hideTime  = time.Minute
	hideTries = 3 // when the rules change meanwhile

)

// hiding keeps what git has of closed files from a sandbox.
type hiding struct {
	driver   sandbox.Driver
	spec     sandbox.Spec // the sandbox's
	stateDir string
	keeper   sandbox.RuleKeeper
	made     int // stores
}

// GiveGitStore readies a Spec for a policy's git: dir, which is made and belongs to the
// caller, is for the object stores that the sandbox's git finds beside the project's.
func GiveGitStore(spec *sandbox.Spec, git, dir string) error {
	if git != policy.GitHide || spec.Rules == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a place for git's objects: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // what is above it is private; inside it is somebody else's
		return fmt.Errorf("making a place for git's objects: %w", err)
	}
	rules := *spec.Rules
	rules.GitStore = dir
	spec.Rules = &rules
	spec.Mounts = append(slices.Clone(spec.Mounts), sandbox.Mount{Path: dir})
	return nil
}

// GitStore returns the directory for the object stores of a sandbox with a home.
func GitStore(home string) string { return filepath.Join(filepath.Dir(home), "git") }

// CreateHiding makes a sandbox in which git lacks the content of closed files, as where
// the policy's git is "hide". What that takes goes to state, which belongs to the caller.
func CreateHiding(ctx context.Context, d sandbox.Driver, spec sandbox.Spec, state string) (sandbox.Sandbox, error) {
	if err := GiveGitStore(&spec, policy.GitHide, filepath.Join(state, "git")); err != nil {
		return nil, err
	}
	sb, err := d.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	if _, err := (Examination{Driver: d, Spec: spec, StateDir: state, Git: policy.GitHide}).Examine(ctx, sb); err != nil {
		return nil, errors.Join(err, sb.Close())
	}
	return sb, nil
}

// hide closes what git has and shows what is harmless of it. An error means that it
// may be open.
func (h *hiding) hide(ctx context.Context) (t tracked, err error) {
	ctx, cancel := context.WithTimeout(ctx, hideTime)
	defer cancel()
	for range hideTries {
		rules, err := h.keeper.CloseGit(ctx)
		if err != nil {
			return t, err
		}
		var stores map[string]string
		if t, stores, err = h.look(ctx); err != nil && len(t.unknown) == 0 {
			t.closed = err.Error()
		}
		if len(t.unknown) > 0 || t.closed != "" {
			return t, nil
		}
		if err = h.keeper.OpenGit(ctx, rules, stores); err == nil {
			h.tidy(h.made)
			return t, nil
		}
		t.closed = err.Error()
	}
	return t, nil
}

// again does it once more when something has come to git from outside, or the rules
// have changed. It reports whether it was necessary.
func (h *hiding) again(ctx context.Context) (t tracked, changed bool, err error) {
	if changed, err = h.keeper.GitChanged(ctx); err != nil || !changed {
		return t, false, err
	}
	t, err = h.hide(ctx)
	return t, true, err
}

// tidy removes the stores that were made before one.
func (h *hiding) tidy(last int) {
	entries, _ := os.ReadDir(h.spec.Rules.GitStore)
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), ".")
		if n, err := strconv.Atoi(number); err != nil || n < last {
			_ = registry.RemoveDir(filepath.Join(h.spec.Rules.GitStore, e.Name())) // it goes with the sandbox at the latest
		}
	}
}

// look finds out, in a sandbox of its own, what git has of closed files, and makes
// stores without it, for all repositories, when there is something. stores are those
// for OpenGit.
func (h *hiding) look(ctx context.Context) (t tracked, stores map[string]string, err error) {
	repos, err := h.keeper.Repositories(ctx)
	switch {
	case err != nil || len(repos.Found) == 0 && !repos.Partial:
		return t, nil, err
	case repos.Partial:
		t.unknown = []string{tooMany}
		return t, nil, nil
	}
	h.made++
	name := strconv.Itoa(h.made)
	home := filepath.Join(h.spec.Rules.GitStore, name)
	h.tidy(h.made)
	_ = registry.RemoveDir(home) // of an earlier gander
	if err := os.Mkdir(home, 0o700); err != nil {
		return t, nil, err
	}
	for i := range repos.Found { // git takes no directory for a store that is not there
		if err := os.Mkdir(filepath.Join(home, strconv.Itoa(i)), 0o700); err != nil {
			return t, nil, err
		}
	}
	sb, done, err := h.lookingSandbox(ctx, home)
	if err != nil {
		return t, nil, err
	}
	defer done()
	t = findTracked(ctx, sb, h.keeper, repos)
	if len(t.unknown) > 0 || len(t.paths) == 0 && !t.partial {
		return t, nil, nil
	}
	f := &filtering{ctx: ctx, sb: sb, keeper: h.keeper, closed: map[string]bool{}, verdicts: map[string]bool{}}
	for _, dir := range append([]sandbox.Mount{{Path: h.spec.WorkingDir}}, h.ruled()...) {
		real, err := filepath.EvalSymlinks(dir.Path)
		if err != nil {
			return t, nil, err
		}
		f.roots = append(f.roots, real)
	}
	objects, err := f.filter(repos.Found)
	if err != nil {
		return t, nil, err
	}
	if stores, err = h.write(name, objects, f.left()); err != nil {
		return t, nil, err
	}
	t.shown = true
	return t, stores, nil
}

// ruled are the directories that the sandbox has besides the project, for reading.
func (h *hiding) ruled() (mounts []sandbox.Mount) {
	for _, m := range h.spec.Mounts {
		if m.Ruled {
			m.Writable = false
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// lookingSandbox makes the sandbox to look at git in, and what takes it down again.
func (h *hiding) lookingSandbox(ctx context.Context, home string) (sandbox.Sandbox, func(), error) {
	id := h.spec.ID + "-git"
	dir, err := registry.Claim(h.stateDir, id)
	if err != nil {
		return nil, nil, err
	}
	rules := *h.spec.Rules
	rules.GitStore, rules.Denied = "", nil
	sb, err := h.driver.Create(ctx, sandbox.Spec{
		ID: id, WorkingDir: h.spec.WorkingDir, Home: home, Mounts: h.ruled(), Rules: &rules, Limits: h.spec.Limits,
		Labels: map[string]string{"agent": h.spec.Labels["agent"], "purpose": "git"},
	})
	if err != nil {
		_ = registry.RemoveDir(dir)
		return nil, nil, fmt.Errorf("a sandbox to look at git in: %w", err)
	}
	return sb, func() { _, _ = sb.Close(), registry.RemoveDir(dir) }, nil
}

// write makes what gander itself puts beside stores: for each object that is left out
// an entry that cannot be read, because git commits no tree with an object that is not
// there, and for each of the repositories' stores the list of both. It returns those lists,
// by the stores.
func (h *hiding) write(name string, objects, left []string) (map[string]string, error) {
	at, err := filepath.EvalSymlinks(h.spec.Rules.GitStore)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	closed := name + supervise.LeftOut
	_ = registry.RemoveDir(filepath.Join(at, closed))
	if err := writeClosed(root, closed, left); err != nil {
		return nil, err
	}
	lists := map[string]string{}
	for i, dir := range objects {
		lists[dir] = fmt.Sprintf("%s.%d.alternates", name, i)
		text := filepath.Join(at, name, strconv.Itoa(i)) + "\n" + filepath.Join(at, closed) + "\n"
		if err := root.WriteFile(lists[dir], []byte(text), 0o644); err != nil { //nolint:gosec // it is for somebody else inside
			return nil, err
		}
	}
	return lists, nil
}

// writeClosed makes a store in which no object can be read.
func writeClosed(root *os.Root, closed string, left []string) error {
	if err := root.Mkdir(closed, 0o755); err != nil {
		return err
	}
	for _, id := range left {
		dir := filepath.Join(closed, id[:2])
		if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		f, err := root.OpenFile(filepath.Join(dir, id[2:]), os.O_CREATE|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
