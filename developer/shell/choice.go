package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Interpreter is a shell and how it takes a command line.
type Interpreter struct {
	// Path is the program.
	Path string
	// kind is the program's name without directory and extension.
	kind string
}

// Name is the shell's name: "bash", "pwsh".
func (i Interpreter) Name() string { return i.kind }

// posixLike are the shells that take -c and understand what models write; fish
// does for the most part. Others (nu, csh) do not, and are passed over.
var posixLike = []string{"bash", "zsh", "sh", "dash", "ksh", "mksh", "ash", "fish"}

// choose finds the first shell that is there: of those that were named, or of the
// person's own and the usual ones.
func choose(named, env []string) (Interpreter, error) {
	candidates := named
	if len(named) == 0 {
		candidates = usual(lookup(env, "SHELL"))
	}
	for _, c := range candidates {
		if path := find(c, env); path != "" {
			return Interpreter{Path: path, kind: kindOf(path)}, nil
		}
	}
	return Interpreter{}, fmt.Errorf("no shell was found (looked for %s); install one or set PATH", strings.Join(candidates, ", "))
}

func usual(own string) []string {
	switch {
	case runtime.GOOS == "windows":
		return []string{"pwsh", "powershell", "cmd"}
	case slices.Contains(posixLike, kindOf(own)):
		return []string{own, "bash", "sh", "/bin/sh"}
	}
	return []string{"bash", "sh", "/bin/sh"}
}

func kindOf(path string) string {
	name := strings.ToLower(path[strings.LastIndexAny(path, `/\`)+1:])
	return strings.TrimSuffix(name, ".exe")
}

// find looks a program up in env's PATH; empty means that there is none.
func find(name string, env []string) string {
	if strings.ContainsAny(name, `/\`) {
		if isProgram(name) {
			return name
		}
		return ""
	}
	for _, dir := range filepath.SplitList(lookup(env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue // a project's directory must not provide the shell
		}
		file := filepath.Join(dir, name)
		if runtime.GOOS == "windows" && filepath.Ext(file) != ".exe" {
			file += ".exe"
		}
		if isProgram(file) {
			return file
		}
	}
	return ""
}

func isProgram(file string) bool {
	st, err := os.Stat(file)
	return err == nil && st.Mode().IsRegular() && (runtime.GOOS == "windows" || st.Mode()&0o111 != 0)
}

// command gives the arguments for a command line and the directory to start in.
func (i Interpreter) command(line, dir string) (args []string, startDir string) {
	switch i.kind {
	case "pwsh", "powershell":
		return []string{i.Path, "-NoProfile", "-NonInteractive", "-Command", line}, dir
	case "cmd":
		line = oneLine(line)
		// cmd refuses a network share as its directory; pushd gives it a letter.
		if strings.HasPrefix(dir, `\\`) {
			line, dir = `pushd "`+dir+`" && `+line, filepath.Dir(i.Path)
		}
		// The supervisor passes cmd's arguments on as they are, and cmd takes off
		// the outer quotes.
		return []string{i.Path, "/d", "/s", "/c", `"` + line + `"`}, dir
	}
	return []string{i.Path, "-c", line}, dir
}

// oneLine joins lines, of which cmd would read the first and ignore the others.
func oneLine(text string) string {
	var lines []string
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, " & ")
}

// lookup returns the value of a variable; the last one counts.
func lookup(env []string, name string) (value string) {
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && sameName(k, name) {
			value = v
		}
	}
	return value
}

func sameName(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}
