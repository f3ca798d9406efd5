package gitconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/rules/project"
)

// Bounds of what is read to find git's data.
const (
	maxPointer    = 4 << 10
	maxAlternates = 16 // stores, with those that they name
)

// Place says where git keeps what belongs to a project, as far as that is elsewhere than in it.
// Its paths are absolute and without links.
type Place struct {
	// Top is the top of the work tree that the project is a directory of; empty when it is the
	// top itself, or in none.
	Top string
	// Inner is the git directory in Top, which has its usual name; empty without one.
	Inner string
	// Dir is the git directory of a linked work tree, a submodule or of a repository whose git
	// directory is elsewhere, and Common the one that it shares; empty when they are in Top or
	// in the project. They are the same where nothing is shared.
	Dir, Common string
	// Objects are stores that git's objects are found in besides.
	Objects []string
	// Unknown are such stores that came after the project was first opened, and are not shown.
	Unknown []string
	// Left says in sentences what is there and does not count.
	Left []string
	// Signs says that the repository's own configuration has git sign.
	Signs bool
}

// Environment returns the variables that switch off inside what the repository's own configuration
// says of signing.
func (p Place) Environment() []string {
	if !p.Signs {
		return nil
	}
	return []string{
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=commit.gpgSign", "GIT_CONFIG_VALUE_0=false", "GIT_CONFIG_KEY_1=tag.gpgSign", "GIT_CONFIG_VALUE_1=false",
	}
}

// PlaceOptions say what a place is looked for.
type PlaceOptions struct {
	// Project is the project's directory.
	Project string
	// Private are directories that are never shown: gander's own.
	Private []string
	// Homes are people's: neither they nor what they are in is shown.
	Homes []string
	// Known returns those of some stores of objects that were there when the project was first
	// opened, or were agreed to; nil shows none.
	Known func(stores []string) []string
}

// Find finds git's data of a project, without running git. A pointer out of the directory counts
// only if what it leads to points back, and belongs to the same user.
func Find(o PlaceOptions) (p Place) {
	at, err := filepath.EvalSymlinks(o.Project)
	if err != nil {
		return p
	}
	f := finder{o: o, p: &p, top: at}
	for !isThere(filepath.Join(f.top, ".git")) {
		if f.top = filepath.Dir(f.top); f.unfit(f.top, at) != nil {
			return Place{}
		}
	}
	if f.top != at {
		p.Top = f.top
	}
	if err := f.entry(filepath.Join(f.top, ".git")); err != nil {
		return Place{Left: []string{fmt.Sprintf("Git finds no repository inside: %s leads to git data elsewhere, and %v.", filepath.Join(f.top, ".git"), err)}}
	}
	return p
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

type finder struct {
	o   PlaceOptions
	p   *Place
	top string
}

// unfit says why a directory cannot be shown for the sake of another one.
func (f *finder) unfit(dir, from string) error {
	if _, err := project.Open(dir, f.o.Private...); err != nil {
		return err
	}
	for _, home := range f.o.Homes {
		if project.Below(home, dir) {
			return fmt.Errorf("%s is a home, or has one in it", dir)
		}
	}
	for _, own := range f.o.Private {
		if real, err := filepath.EvalSymlinks(own); err == nil && project.Below(dir, real) {
			return fmt.Errorf("%s is gander's own", dir)
		}
	}
	if !project.SameOwner(dir, from) {
		return fmt.Errorf("%s is another user's", dir)
	}
	return nil
}

// plain is a path without links, which it must be already.
func plain(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err != nil || real != path {
		return "", errors.Join(err, fmt.Errorf("there is nothing at %s, or a link on the way", path))
	}
	return path, nil
}

// entry takes the .git of the work tree.
func (f *finder) entry(entry string) error {
	info, err := os.Lstat(entry)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		if !project.SameOwner(entry, f.top) {
			return fmt.Errorf("%s is another user's", entry)
		}
		if f.p.Top != "" {
			f.p.Inner = entry
		}
		f.stores(entry)
		return nil
	case !info.Mode().IsRegular(): // a link: git's, and the sandbox's, as ever
		f.p.Top = ""
		return nil
	}
	to, err := pointer(entry, "gitdir:")
	if err != nil {
		return err
	}
	dir, err := plain(f.top, to)
	if err != nil {
		return err
	}
	common := dir
	if isThere(filepath.Join(dir, "commondir")) {
		if common, err = f.shared(dir, entry); err != nil {
			return err
		}
	} else if err := f.worksHere(dir); err != nil {
		return err
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if !isThere(filepath.Join(common, name)) {
			return fmt.Errorf("%s is no git directory", common)
		}
	}
	for _, d := range []string{dir, common} {
		if err := f.unfit(d, f.top); err != nil {
			return err
		}
	}
	if !project.Below(common, f.top) || !project.Below(dir, f.top) {
		f.p.Dir, f.p.Common = dir, common
	} else if f.p.Top != "" {
		f.p.Inner = common
	}
	f.stores(common)
	return nil
}

// pointer reads a file of git's that has a path in it.
func pointer(file, prefix string) (string, error) {
	info, err := os.Lstat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(file + " is not a regular file")
	}
	if err != nil {
		return "", err
	}
	text, err := project.ReadRegular(file, maxPointer)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	if path = strings.TrimLeft(path, " "); !ok || path == "" || strings.ContainsAny(path, "\n\x00") {
		return "", errors.New(file + " says nothing that git understands")
	}
	return path, nil
}

// shared is the git directory that a linked work tree shares: dir is one of its work trees'
// directories, and leads back to the entry.
func (f *finder) shared(dir, entry string) (string, error) {
	to, err := pointer(filepath.Join(dir, "commondir"), "")
	if err != nil {
		return "", err
	}
	common, err := plain(dir, to)
	if err != nil {
		return "", err
	}
	if filepath.Dir(dir) != filepath.Join(common, "worktrees") {
		return "", fmt.Errorf("%s is not one of the work trees of %s", dir, common)
	}
	back, err := pointer(filepath.Join(dir, "gitdir"), "")
	if err != nil {
		return "", err
	}
	if at, err := plain(dir, back); err != nil || at != entry {
		return "", fmt.Errorf("%s is the git directory of %s, not of %s (git worktree repair mends that)", dir, back, entry)
	}
	return common, nil
}

// worksHere fails unless the configuration of a git directory names the top as its work tree. One
// that names none, is not bare and not called as in a work tree of its own was made for another
// place (git init --separate-git-dir), and nothing else is known of that.
func (f *finder) worksHere(dir string) error {
	apart := false
	for _, name := range []string{"config.worktree", "config"} {
		file := filepath.Join(dir, name)
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, err := project.ReadRegular(file, maxConfig)
		if err != nil {
			return err
		}
		all, err := Parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, s := range slices.Backward(all) {
			apart = apart || s.Name() == "core.bare" && s.Value == "false" && filepath.Base(dir) != ".git"
			if s.Name() != "core.worktree" {
				continue
			}
			if at, err := plain(dir, s.Value); err == nil && at == f.top {
				return nil
			}
			return fmt.Errorf("%s has another work tree (core.worktree = %s)", dir, s.Value)
		}
	}
	if apart {
		return nil
	}
	return fmt.Errorf("%s does not lead back (it has no core.worktree)", dir)
}

// signs looks into a git directory for settings that have git sign.
func (f *finder) signs(common string) {
	file := filepath.Join(common, "config")
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return
	}
	text, err := project.ReadRegular(file, maxConfig)
	if err != nil {
		return // git says what is wrong with it
	}
	all, _ := Parse(text)
	for _, s := range all {
		if s.Name() == "commit.gpgsign" || s.Name() == "tag.gpgsign" {
			f.p.Signs = f.p.Signs || !isFalse(s)
		}
	}
}

// stores finds the stores of objects that a git directory has elsewhere, and looks into its
// configuration.
func (f *finder) stores(common string) {
	f.signs(common)
	found, err := f.alternates(filepath.Join(common, "objects"), nil)
	if err != nil {
		f.p.Left = append(f.p.Left, fmt.Sprintf("Git misses objects inside: %v.", err))
	}
	if f.o.Known == nil {
		return
	}
	known := f.o.Known(found)
	for _, store := range found {
		switch err := f.unfit(store, f.top); {
		case filepath.Base(store) != "objects" || err != nil:
			f.p.Left = append(f.p.Left, fmt.Sprintf("Git's objects in %s are not shown inside: it is no store of yours (%v).", store, err))
		case !slices.Contains(known, store):
			f.p.Unknown = append(f.p.Unknown, store)
			f.p.Left = append(f.p.Left, fmt.Sprintf("Git's objects in %s are not shown inside: they were not there when you first opened the project. `gander policy trust` shows them.", store))
		default:
			f.p.Objects = append(f.p.Objects, store)
		}
	}
}

// alternates are the stores that a store names and that are not shown anyway, and those that
// these name.
func (f *finder) alternates(store string, found []string) ([]string, error) {
	file := filepath.Join(store, "info", "alternates")
	info, err := os.Lstat(file)
	if err != nil {
		return found, nil //nolint:nilerr // most have none
	}
	if !info.Mode().IsRegular() {
		return found, fmt.Errorf("%s is not a regular file", file)
	}
	text, err := project.ReadRegular(file, maxConfig)
	if err != nil {
		return found, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		at, err := plain(store, line)
		if err != nil {
			return found, fmt.Errorf("%s: %w", file, err)
		}
		shown := slices.ContainsFunc([]string{f.top, f.p.Common}, func(dir string) bool { return dir != "" && project.Below(at, dir) })
		if shown || slices.Contains(found, at) {
			continue
		}
		if len(found) >= maxAlternates {
			return found, fmt.Errorf("%s: there are more than %d stores", file, maxAlternates)
		}
		if found, err = f.alternates(at, append(found, at)); err != nil {
			return found, err
		}
	}
	return found, nil
}
