package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call follows a simple command.
func (c *checker) call(cmd *syntax.CallExpr, st *state, depth int, input []string) error {
	for _, w := range cmd.Args {
		if err := c.within(w, st, depth); err != nil {
			return err
		}
	}
	inherited := st
	if len(cmd.Args) > 0 && len(cmd.Assigns) > 0 {
		inherited = st.clone() // they hold for this command only
	}
	if err := c.assign(cmd.Assigns, inherited, depth); err != nil {
		return err
	}
	if len(cmd.Args) == 0 {
		return nil
	}
	for _, dir := range slices.Clone(st.dirs) {
		for _, a := range cmd.Assigns {
			if err := c.argument(c.value(a.Value, inherited, dir, false), place{c: c, dir: dir}); err != nil {
				return err
			}
		}
		args, err := c.fields(cmd.Args, st, dir)
		if err != nil {
			return err
		}
		if err := c.execute(args, st, dir, depth, input); err != nil {
			return err
		}
	}
	return nil
}

// execute looks at one command whose words are known.
func (c *checker) execute(args []string, st *state, dir string, depth int, input []string) error {
	if len(args) == 0 {
		return nil
	}
	name := filepath.Base(args[0])
	if strings.Contains(args[0], "/") {
		if err := c.argument(args[0], place{c: c, dir: dir, program: name}); err != nil {
			return err
		}
	}
	if err := c.arguments(args, dir); err != nil {
		return err
	}
	c.builtin(name, args, st, dir)
	return c.scripts(args, st, dir, depth, input)
}

// arguments looks at what follows the program's name.
func (c *checker) arguments(args []string, dir string) error {
	p := place{c: c, dir: dir, program: filepath.Base(args[0])}
	if silent[p.program] {
		return nil
	}
	places := []place{p}
	for _, other := range elsewhere(args) {
		if abs, ok := c.abs(dir, other); ok {
			p.dir = abs
			places = append(places, p)
		}
	}
	verb := verbs[p.program]
	for i, a := range args[1:] {
		if leavesOut(p.program, args[1:], i) {
			continue
		}
		for _, p := range places {
			p.verb = verb && !strings.HasPrefix(a, "-")
			if err := c.argument(a, p); err != nil {
				return err
			}
		}
		verb = verb && strings.HasPrefix(a, "-")
	}
	return nil
}

// leavesOut says that an argument names what the program is not to touch, as in
// "--exclude=.env" and "find -path ./build -prune".
func leavesOut(program string, args []string, i int) bool {
	for _, flag := range []string{"--exclude", "--ignore", "--skip", "--omit"} {
		if strings.HasPrefix(args[i], flag) {
			return !strings.HasSuffix(args[i], "-from") && !strings.Contains(args[i], "-from=") && !strings.Contains(args[i], "file")
		}
	}
	if i == 0 {
		return false
	}
	switch before := args[i-1]; before {
	case "--exclude", "--exclude-dir", "--ignore", "--ignore-dir", "--ignore-pattern", "--skip":
		return true
	case "-path", "-name":
		return program == "find" && (i+1 < len(args) && args[i+1] == "-prune" || i > 1 && (args[i-2] == "-not" || args[i-2] == "!"))
	case "-I":
		return program == "tree"
	}
	return false
}

// builtin follows the commands that change where names lead.
func (c *checker) builtin(name string, args []string, st *state, dir string) {
	operands := withoutFlags(args[1:])
	switch name {
	case "cd", "chdir", "pushd":
		switch {
		case len(args) > 1 && args[len(args)-1] == "-":
			st.back()
		case len(operands) > 0:
			if abs, ok := c.abs(dir, operands[0]); ok {
				st.change(dir, abs)
			}
		case name != "pushd" && st.o.HomeDir != "":
			st.change(dir, st.o.HomeDir)
		}
	case "popd":
		st.back()
	case "shopt":
		for _, o := range operands {
			st.dots = st.dots || o == "dotglob"
		}
	case "setopt":
		for _, o := range operands {
			st.dots = st.dots || strings.EqualFold(strings.ReplaceAll(o, "_", ""), "globdots")
		}
	case "read", "mapfile", "readarray", "getopts":
		for _, o := range operands {
			if syntax.ValidName(o) {
				st.set(o, unknown)
			}
		}
	case "unset":
		for _, o := range operands {
			delete(st.vars, o)
		}
	}
}

func withoutFlags(args []string) []string {
	var rest []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			rest = append(rest, a)
		}
	}
	return rest
}

// elsewhere are the directories that a program is told to work in.
func elsewhere(args []string) []string {
	var dirs []string
	for i, a := range args {
		switch flag, value, ok := strings.Cut(a, "="); {
		case a == "-C" || a == "--directory" || a == "--chdir" || a == "--cwd" || a == "--prefix":
			if i+1 < len(args) {
				dirs = append(dirs, args[i+1])
			}
		case ok && (flag == "--directory" || flag == "--chdir" || flag == "--cwd" || flag == "--prefix" || flag == "--work-tree"):
			dirs = append(dirs, value)
		case strings.HasPrefix(a, "-C") && len(a) > 2:
			dirs = append(dirs, a[2:])
		}
	}
	return dirs
}

// isDir says that a path is a directory, or leads to one.
func isDir(abs string) bool {
	info, err := os.Stat(abs)
	return err == nil && info.IsDir()
}
