// Package toolchains finds what a person keeps below the home of compilers, interpreters and
// their managers, for sandboxes to show. What is shown of each tool is in one table. Use [Find].
package toolchains

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/rules/project"
)

// Options say whose toolchains are looked for, and for what.
type Options struct {
	// Variable returns the person's environment: HOME, PATH, and those that the table names.
	Variable func(name string) string
	// Writable are directories that sandboxes can write: nothing in them is shown, and nothing
	// that contains one of them.
	Writable []string
	// Shown are paths that sandboxes show anyway.
	Shown []string
}

// Found holds what sandboxes show of a person's toolchains.
type Found struct {
	// Places are directories and files without links, none in another.
	Places []Place
	// Env are variables by which tools find themselves, as "NAME=value".
	Env []string
	// Files are for the home inside, by their paths there: what leads Python to the packages in
	// the person's own directory of them.
	Files map[string][]byte
	// Unshown are directories of PATH below the home that no row of the table covers.
	Unshown []string

	system []string // directories that sandboxes show anyway
}

// Place is a directory or a file of a tool.
type Place struct {
	Tool string `json:"tool"`
	Path string `json:"path"`
}

//go:embed table.txt
var tableText string

// row is a line of the table.
type row struct {
	tool         string
	roots, shown []string
	only         string
	variables    []string
}

var table = func() (rows []row) {
	for line := range strings.Lines(tableText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.Split(line, "|")
		rows = append(rows, row{strings.TrimSpace(c[0]), strings.Fields(c[1]), strings.Fields(c[2]), strings.TrimSpace(c[3]), strings.Fields(c[4])})
	}
	return rows
}()

// maxPlaces bounds what is shown: each place is a mount.
const maxPlaces = 200

// Find looks for a person's toolchains. It runs nothing and opens no file.
func Find(o Options) Found {
	home, err := filepath.EvalSymlinks(o.Variable("HOME"))
	if err != nil || !filepath.IsAbs(home) || home == "/" {
		return Found{}
	}
	f := finder{o: o, home: home, system: slices.Concat(project.SystemDirs(), o.Shown)}
	for _, dir := range o.Writable {
		if real, err := filepath.EvalSymlinks(dir); dir != "" && err == nil {
			f.writable = append(f.writable, real)
		}
	}
	f.look()
	return f.choose()
}

type finder struct {
	o        Options
	home     string
	system   []string // that sandboxes show anyway
	writable []string
	named    []candidate // that the table names, as it names them
}

// candidate is a path that a row names.
type candidate struct {
	row        row
	root, path string
}

// look lists what the table names and is there.
func (f *finder) look() {
	for _, r := range table {
		for _, root := range f.roots(r) {
			if _, err := os.Stat(filepath.Join(root, r.only)); err != nil {
				continue
			}
			for _, sub := range r.shown {
				paths, _ := filepath.Glob(filepath.Join(escape(root), sub)) // only a bad pattern is an error
				for _, path := range paths {
					f.named = append(f.named, candidate{r, root, path})
				}
			}
		}
	}
}

// escape returns a path as a pattern for itself.
func escape(path string) string { return escapes.Replace(path) }

var escapes = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// roots are the directories of a row. Those below the home are so under its real name.
func (f *finder) roots(r row) (roots []string) {
	for _, text := range r.roots {
		pattern := ""
		switch name, rest, _ := strings.Cut(text, "/"); {
		case name == "~":
			pattern = filepath.Join(escape(f.home), rest)
		default:
			value := f.o.Variable(strings.TrimPrefix(name, "$"))
			if !filepath.IsAbs(value) {
				continue
			}
			pattern = filepath.Join(escape(f.real(value)), rest)
		}
		found, _ := filepath.Glob(pattern)
		for _, root := range found {
			if !project.Below(f.home, root) && !slices.Contains(roots, root) { // never the home or what it is in
				roots = append(roots, root)
			}
		}
	}
	return roots
}

// real is a directory that a variable names: below the home by the home's real name and
// with the links there, elsewhere without links.
func (f *finder) real(dir string) string {
	dir = filepath.Clean(dir)
	if rest, ok := strings.CutPrefix(dir, filepath.Clean(f.o.Variable("HOME"))+"/"); ok {
		return filepath.Join(f.home, rest)
	}
	if project.Below(dir, f.home) {
		return dir
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// choose keeps of what is named what may be shown.
func (f *finder) choose() (found Found) {
	found.system = f.system
	var places []Place
	have := map[string]bool{}
	for _, c := range f.named {
		real, ok := f.mayShow(c.path)
		if !ok {
			continue
		}
		for _, name := range c.row.variables {
			if v := name + "=" + c.root; !have[name] {
				have[name] = true
				found.Env = append(found.Env, v)
			}
		}
		if !below(real, f.system) {
			places = append(places, Place{c.row.tool, real})
		}
	}
	slices.SortStableFunc(places, func(a, b Place) int { return strings.Compare(a.Path, b.Path) })
	for _, p := range places {
		inside := slices.ContainsFunc(found.Places, func(o Place) bool { return project.Below(p.Path, o.Path) })
		if !inside && len(found.Places) < maxPlaces {
			found.Places = append(found.Places, p)
		}
	}
	for _, p := range found.Places {
		packages, _ := filepath.Glob(filepath.Join(escape(p.Path), "python3*", "site-packages"))
		for _, dir := range packages {
			if base := filepath.Join(f.home, ".local"); p.Path == filepath.Join(base, "lib") {
				if found.Files == nil {
					found.Files = map[string][]byte{}
				}
				found.Files[".local"+filepath.ToSlash(strings.TrimPrefix(dir, base))+"/person.pth"] = []byte(dir + "\n")
			}
		}
	}
	for _, dir := range filepath.SplitList(f.o.Variable("PATH")) {
		if _, ok := found.Shows(dir); !ok && filepath.IsAbs(dir) && project.Below(f.real(dir), f.home) && !below(filepath.Clean(dir), f.system) && !slices.Contains(found.Unshown, dir) {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				found.Unshown = append(found.Unshown, dir)
			}
		}
	}
	return found
}

// below reports whether a path is one of these directories, or in one.
func below(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return project.Below(path, dir) })
}

// mayShow returns the path without links. It reports false where a link leads to anything but
// what the table names, and where a sandbox could write there.
func (f *finder) mayShow(path string) (string, bool) {
	real, err := project.Resolve(path, f.writable)
	if err != nil {
		return "", false
	}
	if real != path && !below(real, f.system) && !slices.ContainsFunc(f.named, func(c candidate) bool { return project.Below(real, c.path) }) {
		return "", false
	}
	for _, dir := range f.writable {
		if project.Below(real, dir) || project.Below(dir, real) {
			return "", false
		}
	}
	return real, true
}

// Shows returns the name by which sandboxes have a directory of PATH; false where the places
// do not show it.
func (f Found) Shows(dir string) (string, bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
	shown := func(path string) bool {
		return slices.ContainsFunc(f.Places, func(p Place) bool { return project.Below(path, p.Path) })
	}
	if name := filepath.Clean(dir); shown(name) && (shown(real) || below(real, f.system)) {
		return name, true
	}
	return real, shown(real)
}
