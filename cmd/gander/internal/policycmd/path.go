package policycmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/rules/project"
)

// pathJudge explains paths of a project.
type pathJudge struct {
	cfg *config.Config
	dir string // without links
	set *ignore.Set
}

// explainInProject decides as the supervisor does: by the name, by the file that it
// leads to, by the other names of that, and by the links that lead to it.
func explainInProject(a *cli.App, cfg *config.Config, dir, what, rel string) (explanation, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return explanation{}, err
	}
	set, err := ignore.NewSet(ignore.SetOptions{Root: real, Shared: true, Global: wire.New(a).Rules().Own, MaxAge: namesTime})
	if err != nil {
		return explanation{}, err
	}
	j := &pathJudge{cfg: cfg, dir: real, set: set}
	x, err := j.explain(dir, rel)
	x.What, x.Kind = what, "path"
	return x, err
}

func (j *pathJudge) explain(dir, rel string) (explanation, error) {
	reached, err := project.Follow(dir, rel)
	if err != nil {
		return explanation{Access: "absent", From: "built in", Effect: "cannot be opened: " + err.Error()}, nil
	}
	isDir := !reached.Linked && reached.Info != nil && reached.Info.IsDir()
	x, err := j.judge(rel, isDir)
	if err != nil {
		return x, err
	}
	if reached.Linked {
		to, err := j.target(reached)
		if err != nil {
			return x, err
		}
		x = stricter(x, to)
	}
	if x.Access == "none" || reached.Outside {
		return x, nil
	}
	if !reached.Linked {
		reached.Path = filepath.Clean(rel)
	}
	return j.otherNames(x, reached)
}

// target explains what a link leads to.
func (j *pathJudge) target(reached project.Reached) (explanation, error) {
	if reached.Outside {
		x := explainOutside(j.cfg, j.dir, reached.Path)
		x.LeadsTo, x.Effect = reached.Path, fmt.Sprintf("is a link that leads out of the project, to %s, which %s", visible(reached.Path), x.Effect)
		return x, nil
	}
	x, err := j.judge(reached.Path, reached.Info != nil && reached.Info.IsDir())
	x.LeadsTo, x.Effect = reached.Path, fmt.Sprintf("is a link to %s, which %s", visible(reached.Path), x.Effect)
	return x, err
}

// stricter is what is left of a file by two explanations; the second one where they leave
// the same.
func stricter(x, y explanation) explanation {
	if accessRank(x.Access) < accessRank(y.Access) {
		return x
	}
	return y
}

func accessRank(access string) int {
	switch access {
	case "write":
		return 2
	case "read":
		return 1
	}
	return 0
}

// judge explains a path of the project by its name.
func (j *pathJudge) judge(rel string, isDir bool) (explanation, error) {
	d := j.set.Explain(filepath.Join(j.dir, rel), isDir)
	if d.Ignored {
		return closedBy(d.Rule), nil
	}
	protection, err := supervise.Protection(j.dir, rel, j.cfg.Policy.Writes)
	if err != nil {
		return explanation{}, err
	}
	if r, ok := protection.Protects(filepath.ToSlash(rel)); ok {
		return protectedBy(j.cfg, r), nil
	}
	return explanation{Access: "write", Effect: "can be read and written", From: "the project is the sandbox's to write"}, nil
}

func closedBy(r ignore.Rule) explanation {
	x := explanation{Access: "none", Effect: "is closed: nothing inside can read, write, rename or remove it", Rule: r.Text, From: "built in, as there is no .gooseignore"}
	if r.File != "" {
		x.From = fmt.Sprintf("%s:%d", r.File, r.Line)
	}
	return x
}

func protectedBy(cfg *config.Config, r policy.Rule) explanation {
	x := explanation{Access: "read", Rule: r.Name(), From: cmp.Or(originOf(cfg, r.Pattern, r.Group), "built in")}
	x.Effect = "can be read and not written, made, renamed or removed: " + r.Why
	if !r.Fixed {
		x.Effect += fmt.Sprintf("; %q in policy.writes.allow allows it", r.Entry())
	}
	return x
}

// originOf is where Writes.Protect names a pattern or its group.
func originOf(cfg *config.Config, pattern, group string) string {
	for _, value := range []string{pattern, "@" + group} {
		if o := cfg.EffectivePolicy().Origin("writes.protect", value); o.File != "" {
			return o.String()
		}
	}
	return ""
}

// Bounds of looking for the other names of a file.
const (
	maxNames  = 500_000 // entries
	maxDepth  = 100     // directories
	namesTime = 3 * time.Second
)

// otherNames makes an explanation that of the strictest of a file's names in the project,
// under all of which the kernel knows it, and of the links there that lead to it.
func (j *pathJudge) otherNames(x explanation, reached project.Reached) (explanation, error) {
	protection, err := supervise.Protection(j.dir, "", j.cfg.Policy.Writes)
	if err != nil {
		return x, err
	}
	root, err := os.OpenRoot(j.dir)
	if err != nil {
		return x, err
	}
	defer func() { _ = root.Close() }()
	s := &nameSearch{root: root, path: reached.Path, until: time.Now().Add(namesTime)}
	if info := reached.Info; info != nil && info.Mode().IsRegular() && project.Links(info) > 1 {
		s.file = info
	}
	s.judge = func(rel string) (explanation, bool) {
		if d := j.set.Explain(filepath.Join(j.dir, rel), false); d.Ignored {
			return closedBy(d.Rule), true
		}
		if r, ok := protection.Protects(filepath.ToSlash(rel)); ok {
			return protectedBy(j.cfg, r), true
		}
		return explanation{}, false
	}
	s.judgeLink = func(rel string) (explanation, bool) { return j.judgeLink(protection, filepath.ToSlash(rel), s.path) }
	s.below(".", maxDepth)
	switch {
	case s.found.LeadsTo != "" && accessRank(s.found.Access) < accessRank(x.Access):
		return s.found, nil
	case s.partial && s.file != nil:
		x.Effect += fmt.Sprintf("; unless one of its %d names, or a link to it, is closed or protected: the project is too large to be looked through for them", project.Links(s.file))
	case s.partial:
		x.Effect += "; unless a link to it is closed or protected: the project is too large to be looked through for them"
	}
	return x, nil
}

// judgeLink explains a path for a symbolic link that leads to it, or to what it is below,
// where rules close the link itself, or it is protected, or what the path is to the link would
// be. Of packages' links that is not said, nor of those in git's own directories, which its
// configuration stands for.
func (j *pathJudge) judgeLink(protection *policy.Protection, rel, path string) (x explanation, ok bool) {
	if protection.InGit(rel) {
		return x, false
	}
	inside, _ := protection.Inside(rel)
	if d := j.set.Explain(filepath.Join(j.dir, rel), false); d.Ignored && d.Path == rel && !policy.IsDependency(rel) {
		x, ok = closedBy(d.Rule), true
	} else if r, protected := protection.Protects(rel); protected {
		x, ok = protectedBy(j.cfg, r), true
	} else if len(inside) == 0 {
		return x, false
	}
	to, err := project.Follow(j.dir, rel)
	switch {
	case err != nil || to.Outside:
		return x, false
	case ok:
		return x, project.Below(filepath.ToSlash(path), filepath.ToSlash(to.Path))
	}
	for i := range inside {
		inside[i] = policy.Anchor(filepath.ToSlash(to.Path), inside[i])
	}
	beyond, err := policy.NewProtection(j.cfg.Policy.Writes, policy.GitPlaces{Beyond: inside})
	if err != nil {
		return x, false
	}
	r, ok := beyond.Protects(filepath.ToSlash(path))
	return protectedBy(j.cfg, r), ok
}

// nameSearch looks through a project that may be somebody else's for what else stands for
// a path: names of its file, and links that lead to it. It opens directories only, and no
// directory by a link.
type nameSearch struct {
	root    *os.Root
	path    string
	file    fs.FileInfo // nil for one without other names
	until   time.Time
	entries int
	judge   func(rel string) (explanation, bool) // false: nothing restricts it
	// judgeLink says what a link restricts by leading to the path, or above it.
	judgeLink func(rel string) (explanation, bool)
	found     explanation // the strictest
	partial   bool
}

// below looks through a directory, and so many levels of those in it.
func (s *nameSearch) below(rel string, deeper int) {
	d, err := s.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // what was a directory may be a pipe now
	if err != nil {
		s.partial = s.partial || !errors.Is(err, fs.ErrNotExist)
		return
	}
	defer func() { _ = d.Close() }()
	for !s.partial && s.found.Access != "none" {
		entries, err := d.ReadDir(512)
		for _, e := range entries {
			s.entries++
			s.partial = s.partial || s.entries > maxNames || deeper == 0 || time.Now().After(s.until)
			if s.partial {
				return
			}
			s.entry(filepath.Join(rel, e.Name()), e, deeper)
		}
		if err != nil {
			return
		}
	}
}

func (s *nameSearch) entry(rel string, e fs.DirEntry, deeper int) {
	switch {
	case e.IsDir():
		s.below(rel, deeper-1)
	case e.Type()&fs.ModeSymlink != 0 && rel != s.path:
		if x, restricted := s.judgeLink(rel); restricted {
			s.take(x, rel, "is what "+visible(rel)+", a link, leads to, which ")
		}
	case e.Type().IsRegular() && s.file != nil:
		x, restricted := s.judge(rel)
		if !restricted {
			return
		}
		if info, err := s.root.Lstat(rel); err == nil && os.SameFile(info, s.file) {
			s.take(x, rel, "is another name (a hard link) of "+visible(rel)+", which ")
		}
	}
}

// take keeps the stricter explanation of two.
func (s *nameSearch) take(x explanation, name, how string) {
	if s.found.LeadsTo == "" || accessRank(x.Access) < accessRank(s.found.Access) {
		x.LeadsTo, x.Effect = name, how+x.Effect
		s.found = x
	}
}
