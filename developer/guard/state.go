package guard

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// unknown stands for text that only the running command will know. It is a
// character that nobody uses.
const unknown = "\uf8ff"

// A state is what is known at one place of a script.
type state struct {
	o    Options
	dirs []string // where it may be; the last is the most likely
	seen []string // and has been
	vars map[string]expand.Variable
	dots bool // globs match names that begin with a dot
}

func newState(o Options) *state {
	st := &state{o: o, dirs: []string{o.WorkingDir}, seen: []string{o.WorkingDir}, vars: map[string]expand.Variable{}}
	for _, pair := range o.Environment {
		if name, value, ok := strings.Cut(pair, "="); ok {
			st.set(name, value)
		}
	}
	if o.HomeDir != "" {
		st.set("HOME", o.HomeDir)
	}
	return st
}

func (st *state) clone() *state {
	c := *st
	c.dirs, c.seen, c.vars = slices.Clone(st.dirs), slices.Clone(st.seen), maps.Clone(st.vars)
	return &c
}

// join takes over what a branch changed that may or may not have run.
func (st *state) join(branch *state) {
	for _, d := range branch.dirs {
		st.add(d)
	}
	for name, v := range branch.vars {
		if have := st.vars[name]; !have.IsSet() || !slices.Contains(values(have), v.String()) {
			st.vars[name] = v
		}
	}
	st.dots = st.dots || branch.dots
}

func values(v expand.Variable) []string {
	if v.Kind == expand.Indexed {
		return v.List
	}
	return []string{v.Str}
}

// add is one more directory where the script may be, a bounded number.
func (st *state) add(dir string) {
	if !slices.Contains(st.dirs, dir) && len(st.dirs) < 8 {
		st.dirs = append(st.dirs, dir)
	}
	if !slices.Contains(st.seen, dir) && len(st.seen) < 64 {
		st.seen = append(st.seen, dir)
	}
}

func (st *state) set(name, value string) {
	if len(value) > maxValue {
		value = unknown // no path is that long
	}
	st.vars[name] = expand.Variable{Set: true, Kind: expand.String, Str: value}
}

// change is "cd": to a place that exists the script goes, and from one that does
// not it may go on where it was.
func (st *state) change(from, to string) {
	target := to
	if !filepath.IsAbs(to) {
		target = filepath.Join(from, to)
	}
	info, err := os.Stat(target)
	if err != nil || !info.IsDir() || strings.Contains(to, unknown) {
		return
	}
	st.dirs = slices.DeleteFunc(st.dirs, func(d string) bool { return d == from })
	st.add(filepath.Clean(target))
}

// back is "cd -" and "popd": to somewhere it has been.
func (st *state) back() {
	for _, d := range st.seen {
		st.add(d)
	}
}

// An environ is the variables as seen from one directory.
type environ struct {
	*state
	c   *checker
	dir string
}

// Get implements expand.Environ.
func (e environ) Get(name string) expand.Variable {
	switch name {
	case "PWD":
		return text(e.dir)
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: []string{unknown}}
	case "#", "?", "$", "!", "PPID", "RANDOM", "LINENO", "SECONDS", "UID", "EUID":
		return text(unknown)
	}
	if v, ok := e.vars[name]; ok {
		if e.c.bytes -= len(v.Str); e.c.bytes < 0 {
			e.c.words = -1 // it is too much
			return text("")
		}
		return v
	}
	positional := name != "" && strings.Trim(name, "0123456789") == ""
	if positional || e.o.Environment == nil && !strings.HasPrefix(name, "HOME ") && name != "IFS" {
		return text(unknown)
	}
	return expand.Variable{}
}

// Each implements expand.Environ.
func (e environ) Each(fn func(string, expand.Variable) bool) {
	for name, v := range e.vars {
		if !fn(name, v) {
			return
		}
	}
}

func text(s string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: s}
}
