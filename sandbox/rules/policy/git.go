package policy

import (
	"iter"
	"path"
	"slices"
	"strings"
)

// gitControls are the entries of a git directory by which git is told to run
// something, or to read its configuration elsewhere. The locks are those by which
// git replaces the files.
func gitControls() []string {
	return []string{
		"config", "config.lock", "config.worktree", "config.worktree.lock", "hooks", "commondir", "commondir.lock", "gitdir", "gitdir.lock",
	}
}

// newPrefix begins the names of the files that gander writes in a git directory before they get
// theirs (enforce.WrittenPrefix).
const newPrefix = ".gander-new-"

// gitRemotes are the entries by which git is told, in an older way, where to fetch and
// push: to push to a repository in the project runs its hooks. A file in such a directory
// is a remote; what is in directories in it git does not read, for a remote's name has no
// slash (valid_remote_nick).
func gitRemotes() []string { return []string{"remotes", "branches"} }

// isAlternates reports whether a path in a git directory names where else objects are: what
// gander shows of the machine depends on it.
func isAlternates(tail []string) bool {
	return len(tail) == 3 && tail[0] == "objects" && tail[1] == "info" && strings.HasSuffix(tail[2], "alternates")
}

// isGit reports whether a folded name is ".git", in the spellings of Windows, too.
func isGit(name string) bool {
	if !strings.HasPrefix(name, ".git") && !strings.HasPrefix(name, "git~1") {
		return false
	}
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return name == ".git" || name == "git~1"
}

// gitTails are what is below each git directory of the path.
func (p *Protection) gitTails(names []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for i, name := range names {
			if isGit(name) && !yield(names[i+1:]) {
				return
			}
		}
		for _, dir := range p.gitDirs {
			if len(names) >= len(dir) && slices.Equal(names[:len(dir)], dir) && !yield(names[len(dir):]) {
				return
			}
		}
	}
}

// InGit reports whether a path is a git directory of the tree or in one.
func (p *Protection) InGit(rel string) bool {
	for range p.gitTails(foldAll(rel)) {
		return true
	}
	return false
}

// inModules reports whether a path is, or is in, where git keeps the directories of
// submodules and worktrees, or has such a directory, or the list of other stores of objects, in it.
func (p *Protection) inModules(names []string) bool {
	for tail := range p.gitTails(names) {
		if len(tail) > 0 && (tail[0] == "modules" || tail[0] == "worktrees") {
			return true
		}
		if len(tail) == 1 && tail[0] == "objects" || len(tail) == 2 && tail[0] == "objects" && tail[1] == "info" {
			return true // what is moved there may name other stores
		}
	}
	return slices.ContainsFunc(p.gitDirs, func(dir []string) bool {
		return len(names) < len(dir) && slices.Equal(names, dir[:len(names)])
	})
}

// isHead reports whether a path is what makes git take the top of a work tree for a bare
// repository: with a HEAD, objects and refs it is one once its own git directory is none any
// more, for which that need only lose a file.
func (p *Protection) isHead(names []string) bool {
	last := len(names) - 1
	return last >= 0 && names[last] == "head" && slices.ContainsFunc(p.tops, func(top []string) bool { return slices.Equal(top, names[:last]) })
}

// gitStores are the directories in which git keeps what it writes.
func gitStores() []string {
	return []string{
		"branches", "hooks", "info", "lfs", "logs", "modules", "objects", "rebase-apply", "rebase-merge", "refs", "reftable", "remotes",
		"rr-cache", "sequencer", "svn", "worktrees",
	}
}

// linkless reports whether a directory is for what git writes alone: a git directory, with
// all that is below it. One that is not called ".git" can have work trees in it.
func (p *Protection) linkless(dir []string) bool {
	if slices.ContainsFunc(dir, isGit) {
		return true
	}
	for tail := range p.gitTails(dir) {
		if len(tail) == 0 || slices.Contains(gitStores(), tail[0]) {
			return true
		}
	}
	return false
}

// gitEntry names what is protected in git's directories; empty for the rest. The
// entry .git itself is: as a file it leads git elsewhere, and a directory that is
// renamed, or made, could have any configuration. In those of submodules, whose names
// have any number of parts, the protected names are so at any depth. Of remotes only what
// git reads is: below it are the directories of submodules with such a part in their name.
func (p *Protection) gitEntry(names []string) string {
	for tail := range p.gitTails(names) {
		switch {
		case len(tail) == 0:
			return ".git"
		case strings.HasPrefix(tail[0], newPrefix):
			return ".git/" + newPrefix + "*"
		case slices.Contains(gitControls(), tail[0]), slices.Contains(gitRemotes(), tail[0]):
			return ".git/" + tail[0]
		case isAlternates(tail):
			return ".git/" + strings.Join(tail, "/")
		case tail[0] != "modules" && tail[0] != "worktrees":
			continue
		}
		inRefs := false // where git has remotes and branches of its own
		for i, name := range tail[1:] {
			remote := slices.Contains(gitRemotes(), name) && !inRefs && len(tail[1:])-i <= 2
			if remote || strings.HasPrefix(name, newPrefix) || slices.Contains(gitControls(), name) || isAlternates(tail[1+i:]) {
				return ".git/" + tail[0] + "/…/" + name
			}
			inRefs = inRefs || i > 0 && name == "refs"
		}
	}
	return ""
}

// Locks returns the configuration that a lock of git's at a path is for; empty when it is no such
// lock, or when the configuration may be written anyway.
func (p *Protection) Locks(rel string) string {
	target, ok := strings.CutSuffix(rel, ".lock")
	if base := path.Base(target); !ok || base != "config" && base != "config.worktree" {
		return ""
	}
	if r, ok := p.Protects(rel); !ok || r.Group != "git" || !strings.HasSuffix(r.Pattern, "/"+path.Base(rel)) {
		return ""
	}
	return target
}

// Points reports whether a protected entry is a file of git's with a path in it, other than that at
// the top: the .git of a work tree, or what leads from a work tree's git directory (gitdir,
// commondir).
func (p *Protection) Points(rel string) bool {
	r, ok := p.Protects(rel)
	if !ok || r.Group != "git" {
		return false
	}
	switch dir, name := path.Split(rel); name {
	case ".git":
		return dir != "" && r.Pattern == ".git"
	case "gitdir", "commondir":
		return p.IsGitOf(path.Clean(dir), "worktrees")
	}
	return false
}

// IsGitOf reports whether a path is that of a git directory of a linked work tree ("worktrees"), or
// of a submodule ("modules"), by its name.
func (p *Protection) IsGitOf(rel, kind string) bool {
	for tail := range p.gitTails(foldAll(rel)) {
		n := len(tail)
		switch {
		case kind == "modules" && n >= 2 && tail[0] == kind:
			return true
		case kind == "worktrees" && n >= 2 && tail[n-2] == kind && (n == 2 || tail[0] == "modules"):
			return true
		}
	}
	return false
}

// MayBegin reports whether an entry may be made at a protected path where nothing is, as what is
// protected in it is so anyway: directories of a git directory and those for files that run
// nothing, samples of hooks, and, in a directory that was made inside (fresh), a git directory
// below the top.
func (p *Protection) MayBegin(rel string, dir, fresh bool) bool {
	r, ok := p.Protects(rel)
	name := path.Base(rel)
	switch {
	case ok && dir && r.Group != "" && r.Group != "git":
		return p.holdsOpen(foldAll(rel))
	case !ok || r.Group != "git":
		return false
	case dir && name == ".git":
		return fresh && rel != ".git" && r.Pattern == ".git"
	case dir:
		return fresh && slices.Contains([]string{"hooks", "branches"}, name) && strings.HasSuffix(r.Pattern, "/"+name)
	}
	return fresh && isSample(rel, r)
}

func isSample(rel string, r Rule) bool {
	return strings.HasSuffix(rel, ".sample") && path.Base(path.Dir(rel)) == "hooks" && strings.HasSuffix(r.Pattern, "/hooks")
}

// MayRemove reports whether a protected entry may go from a directory that was made inside: what
// MayBegin lets be made there, git's configuration, and what Points.
func (p *Protection) MayRemove(rel string) bool {
	r, ok := p.Protects(rel)
	name := path.Base(rel)
	if ok && r.Group != "" && r.Group != "git" {
		return p.holdsOpen(foldAll(rel))
	}
	return ok && r.Group == "git" && (rel != ".git" && slices.Contains([]string{".git", "hooks", "branches", "config", "config.worktree"}, name) || isSample(rel, r) || p.Points(rel))
}
