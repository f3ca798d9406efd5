package guard

import (
	"path/filepath"
	"strings"
)

// scripts follows the commands that a command is given to run: as an argument, or
// on its input. It looks for them behind every word, for "sudo", "timeout" and
// many others run what follows.
func (c *checker) scripts(args []string, st *state, dir string, depth int, input []string) error {
	st = st.clone()
	st.dirs = []string{dir}
	given := false // a shell got its script, and takes none from its input
	for i, a := range args {
		name, rest := filepath.Base(a), args[i+1:]
		for _, text := range inner(name, rest) {
			given = given || shells[name]
			if err := c.script(text, st, depth+1); err != nil {
				return err
			}
		}
		if !isInterpreter(name) {
			continue
		}
		for _, code := range rest {
			if !strings.ContainsAny(code, "'\"( \n") {
				continue
			}
			if err := c.scan(code, dir); err != nil {
				return err
			}
		}
	}
	return c.fed(args, st, dir, depth, input, given)
}

// inner are the scripts that a command has among its arguments.
func inner(name string, args []string) []string {
	switch name {
	case "eval", "trap", "watch":
		return []string{strings.Join(args, " ")}
	case "alias":
		return after(args, "=")
	case "env":
		if len(args) > 1 && args[0] == "-S" {
			return args[1:2]
		}
		return append(after(args, "--split-string="), after(args, "-S")...)
	}
	if text, ok := inline(args); ok && shells[name] {
		return []string{text}
	}
	return nil
}

// after is what follows a mark in those arguments that have it.
func after(args []string, mark string) []string {
	var found []string
	for _, a := range args {
		if _, text, ok := strings.Cut(a, mark); ok && text != "" {
			found = append(found, text)
		}
	}
	return found
}

// inline is the script among a shell's arguments, as in "bash -lc SCRIPT".
func inline(args []string) (string, bool) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-o" || a == "+o" || a == "-O" || a == "--rcfile" || a == "--init-file":
			i++
		case a == "--command" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "c"):
			for _, s := range args[i+1:] {
				if !strings.HasPrefix(s, "-") {
					return s, true
				}
			}
			return "", false
		}
	}
	return "", false
}

// fed looks at what a command gets on its input: names, commands or code.
func (c *checker) fed(args []string, st *state, dir string, depth int, input []string, given bool) error {
	for _, text := range input {
		for _, a := range args {
			name := filepath.Base(a)
			var err error
			switch {
			case shells[name] && !given:
				err = c.script(text, st, depth+1)
			case readers[name]:
				err = c.arguments(append([]string{name}, strings.Fields(text)...), dir)
			case isInterpreter(name):
				err = c.scan(text, dir)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// isInterpreter knows "python3.12" as well as "python".
func isInterpreter(name string) bool { return interpreters[strings.TrimRight(name, "0123456789.")] }
