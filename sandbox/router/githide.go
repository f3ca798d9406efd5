package router

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/policy"
	"gander.dev/gander/sandbox/registry"
)

// Where the policy's git is "hide", all object stores of the project are closed to the
// agent's sandbox before anything runs in it. What git has is looked at in a sandbox of
// its own, in which nothing of the agent's ever runs: git makes an object store there
// that lacks the content of closed files, and the agent's git finds it beside its own.

// Bounds of making such a store.
const (
	hideTime     = time.Minute
	hideTries    = 3       // when the rules change meanwhile
	maxListing   = 1 << 30 // bytes that git prints of a history
	maxObjects   = 4 << 20 // in it
	maxClosed    = 20000   // objects that are left out
	maxLine      = 64 << 10
	gitStoreName = "git"
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
		if t, stores, err = h.look(ctx); err != nil && t.unknown == "" {
			t.closed = err.Error()
		}
		if t.unknown != "" || t.closed != "" {
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

// look finds out, in a sandbox of its own, what git has of closed files, and makes a
// store without it when there is something. stores are those for OpenGit.
func (h *hiding) look(ctx context.Context) (t tracked, stores map[string]string, err error) {
	if !isRepository(h.spec.WorkingDir) {
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
	id := h.spec.ID + "-git"
	dir, err := registry.Claim(h.stateDir, id)
	if err != nil {
		return t, nil, err
	}
	defer func() { _ = registry.RemoveDir(dir) }()
	rules := *h.spec.Rules
	rules.GitStore, rules.Denied = "", nil
	sb, err := h.driver.Create(ctx, sandbox.Spec{
		ID: id, WorkingDir: h.spec.WorkingDir, Home: home, Rules: &rules, Limits: h.spec.Limits,
		Labels: map[string]string{"agent": h.spec.Labels["agent"], "purpose": "git"},
	})
	if err != nil {
		return t, nil, fmt.Errorf("a sandbox to look at git in: %w", err)
	}
	defer func() { _ = sb.Close() }()
	t = findTracked(ctx, sb, h.spec.WorkingDir, h.keeper)
	if t.unknown != "" || len(t.paths) == 0 && !t.partial {
		return t, nil, nil
	}
	f := &filtering{ctx: ctx, sb: sb, keeper: h.keeper, seen: map[string]sight{}, verdicts: map[string]bool{}}
	objects, err := f.filter(h.spec.WorkingDir)
	if err != nil {
		return t, nil, err
	}
	if err := h.write(name, f.left()); err != nil {
		return t, nil, err
	}
	t.shown = true
	return t, map[string]string{objects: name + ".alternates"}, nil
}

// write makes what gander itself puts beside a store: for each object that is left out
// an entry that cannot be read, because git commits no tree with an object that is not
// there, and the list of both.
func (h *hiding) write(name string, left []string) error {
	at, err := filepath.EvalSymlinks(h.spec.Rules.GitStore)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	closed := name + ".closed"
	_ = registry.RemoveDir(filepath.Join(at, closed))
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
	list := filepath.Join(at, name) + "\n" + filepath.Join(at, closed) + "\n"
	return root.WriteFile(name+".alternates", []byte(list), 0o644) //nolint:gosec // it is for somebody else inside
}

// sight is where content was seen.
type sight uint8

const (
	atOpen   sight = 1 << iota // at a path that the rules leave open
	atClosed                   // at one that they close
)

// filtering is the making of one store.
type filtering struct {
	ctx    context.Context
	sb     sandbox.Sandbox
	keeper sandbox.RuleKeeper

	seen     map[string]sight // content, by its id
	verdicts map[string]bool  // closed, by path
	waiting  []located        // for verdicts
}

// located is content at a path.
type located struct{ id, path string }

// filter has git write a pack into the sandbox's home, of all commits, trees and tags
// that a reference, or its log, leads to, and of the content that was seen at open paths
// and at no closed one. It returns the repository's own object store, relative to the
// project.
func (f *filtering) filter(project string) (objects string, err error) {
	var lines []string
	if err := f.git(nil, nil, func(r io.Reader) error {
		return eachLine(r, func(l string) error { lines = append(lines, l); return nil })
	},
		"rev-parse", "--git-path", "objects"); err != nil {
		return "", err
	}
	if len(lines) != 1 {
		return "", errors.New("git does not say where its objects are")
	}
	objects = lines[0]
	if filepath.IsAbs(objects) {
		if objects, err = filepath.Rel(project, objects); err != nil {
			return "", err
		}
	}
	at := filepath.Join(project, objects)
	if !filepath.IsLocal(objects) || strings.ContainsAny(at, ":\"\n") {
		return "", fmt.Errorf("git's objects are in %s, which cannot be worked with", printable(at))
	}
	if err := f.list(); err != nil {
		return "", err
	}
	return objects, f.pack(at)
}

// list sees all content that there is, with the paths that it has or has had.
func (f *filtering) list() error {
	if err := f.git(nil, nil, f.readIndex, "ls-files", "-s", "-z"); err != nil {
		return err
	}
	if err := f.git(nil, nil, f.readLog, "log", "--all", "--reflog", "-m", "--raw", "--no-abbrev", "--no-renames", "--no-relative", "--root", "-z", "--format="); err != nil {
		return err
	}
	return f.judge()
}

// readIndex reads "mode id stage\tpath" records.
func (f *filtering) readIndex(r io.Reader) error {
	return eachToken(r, maxListing, func(t string) error {
		head, path, ok := strings.Cut(t, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 3 {
			return errors.New("git's index is not to be understood")
		}
		return f.see(fields[0], fields[1], path)
	})
}

// readLog reads records of ":mode mode id id status" and a path.
func (f *filtering) readLog(r io.Reader) error {
	var head []string
	return eachToken(r, maxListing, func(t string) error {
		if head == nil {
			if t = strings.TrimLeft(t, "\n"); t == "" {
				return nil
			}
			if head = strings.Fields(strings.TrimPrefix(t, ":")); len(head) != 5 || t[0] != ':' {
				return errors.New("git's log is not to be understood")
			}
			return nil
		}
		err := errors.Join(f.see(head[0], head[2], t), f.see(head[1], head[3], t))
		head = nil
		return err
	})
}

// modeSubmodule is the mode of an entry that is another repository's commit.
const modeSubmodule = "160000"

func (f *filtering) see(mode, id, path string) error {
	switch {
	case strings.TrimLeft(mode, "0") == "" || mode == modeSubmodule:
		return nil
	case !isObjectID(id):
		return fmt.Errorf("git names an object %s", printable(id))
	case len(f.seen)+len(f.verdicts) > maxObjects:
		return errors.New("the repository has more objects than are looked at")
	}
	if closed, known := f.verdicts[path]; known {
		f.mark(id, closed)
		return nil
	}
	f.waiting = append(f.waiting, located{id, path})
	if len(f.waiting) < judgeAtOnce {
		return nil
	}
	return f.judge()
}

func (f *filtering) mark(id string, closed bool) {
	if closed {
		f.seen[id] |= atClosed
	} else {
		f.seen[id] |= atOpen
	}
}

// judge has the rules decide about the paths that wait.
func (f *filtering) judge() error {
	paths := make([]string, len(f.waiting))
	for i, w := range f.waiting {
		paths[i] = w.path
	}
	closed, err := f.keeper.Judge(f.ctx, paths)
	if err != nil {
		return err
	}
	for i, w := range f.waiting {
		f.verdicts[w.path] = closed[i]
		f.mark(w.id, closed[i])
	}
	f.waiting = f.waiting[:0]
	return nil
}

// isObjectID says whether git could name an object so, by SHA-1 or SHA-256.
func isObjectID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}

// isEmptyBlob says whether an id is that of no content, which tells nothing.
func isEmptyBlob(id string) bool {
	return id == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391" || id == "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
}

// hidden reports whether an object must be left out.
func (f *filtering) hidden(id string) bool { return f.seen[id]&atClosed != 0 && !isEmptyBlob(id) }

// left are the objects that are left out, sorted.
func (f *filtering) left() (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(f.seen)) {
		if f.hidden(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// pack has git write the pack.
func (f *filtering) pack(objects string) error {
	if n := len(f.left()); n > maxClosed {
		return fmt.Errorf("%d objects would have to be left out, which are too many", n)
	}
	home := f.sb.Info().Home
	in, out := io.Pipe()
	listed := make(chan error, 1)
	go func() { // ends with the reader, which pack-objects' end closes
		w := bufio.NewWriter(out)
		err := f.git(nil, nil, func(r io.Reader) error {
			return eachLine(r, func(id string) error {
				if !isObjectID(id) {
					return fmt.Errorf("git names an object %s", printable(id))
				}
				if f.hidden(id) {
					return nil
				}
				_, err := w.WriteString(id + "\n")
				return err
			})
		}, "rev-list", "--objects", "--no-object-names", "--filter=blob:none", "--filter-provided-objects", "--all", "--reflog")
		for id, at := range f.seen {
			if err == nil && at&atOpen != 0 && !f.hidden(id) {
				_, err = w.WriteString(id + "\n")
			}
		}
		err = errors.Join(err, w.Flush())
		_ = out.CloseWithError(err)
		listed <- err
	}()
	err := f.git([]string{"GIT_OBJECT_DIRECTORY=" + home, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + objects}, in,
		func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err },
		"pack-objects", "-q", filepath.Join(home, "pack", "pack"))
	_ = in.CloseWithError(context.Canceled)
	return errors.Join(err, <-listed)
}

// git runs git in the sandbox: stdin, where there is one, is what it reads.
func (f *filtering) git(env []string, stdin io.Reader, output func(io.Reader) error, args ...string) error {
	return runGit(f.ctx, f.sb, gitCall{args: args, env: env, stdin: stdin, output: output})
}

// eachLine passes on what git separates by newlines.
func eachLine(r io.Reader, each func(string) error) error {
	lines := bufio.NewScanner(io.LimitReader(r, maxListing))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := each(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}
