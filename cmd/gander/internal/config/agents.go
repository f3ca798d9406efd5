package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrNoAgent means that an agent's program is not on this machine.
var ErrNoAgent = errors.New("not installed")

// AgentDir is where an agent is installed under the home directory.
func (c *Config) AgentDir(name string) string {
	return filepath.Join(c.Home, "agents", name)
}

// FindAgent returns the command that starts an agent: an absolute path and what
// comes before the agent's own arguments. It is the variable GANDER_<NAME>_CMD
// (words as a shell splits them, quotes and backslashes honoured), else
// agents.<name>.command of the user's file, else the program of that name on
// PATH, else the one installed under AgentDir. Of an agent that a manifest has it is that
// of its program, and of one that only talks there is none. The error names the fix.
func (c *Config) FindAgent(name string) ([]string, error) {
	if c.OnlyTalks(name) {
		return nil, nil
	}
	name = c.Program(name)
	variable := "GANDER_" + variablePrefix(name) + "_CMD"
	if value := c.env[variable]; strings.TrimSpace(value) != "" {
		words, err := splitWords(value)
		if err != nil {
			return nil, &Error{Path: variable, Reason: err.Error()}
		}
		return c.resolve(variable, words)
	}
	if command := c.Agents[name].Command; len(command) > 0 {
		return c.resolve("agents."+name+".command", command)
	}
	if !isBuiltIn(name) {
		return nil, fmt.Errorf("%s is %w: nothing starts it; name its command in agents.%s.command or in %s", name, ErrNoAgent, name, variable)
	}
	if path := c.lookPath(name); path != "" {
		return []string{path}, nil
	}
	if path := findInstalled(c.AgentDir(name), name); path != "" {
		return []string{path}, nil
	}
	return nil, fmt.Errorf("%s is %w: it is neither on PATH nor under %s; install it with \"gander agent install %s\" or name it in %s",
		name, ErrNoAgent, c.AgentDir(name), name, variable)
}

// resolve makes the program of a command absolute.
func (c *Config) resolve(source string, command []string) ([]string, error) {
	program := command[0]
	if filepath.Base(program) == program && !filepath.IsAbs(program) {
		path := c.lookPath(program)
		if path == "" {
			return nil, &Error{Path: source, Reason: fmt.Sprintf("there is no program %q on PATH", program)}
		}
		return append([]string{path}, command[1:]...), nil
	}
	path, err := filepath.Abs(program)
	if err != nil {
		return nil, &Error{Path: source, Reason: err.Error()}
	}
	if !isProgram(path) {
		return nil, &Error{Path: source, Reason: fmt.Sprintf("%s is not an executable file", path)}
	}
	return append([]string{path}, command[1:]...), nil
}

// lookPath finds a program on the PATH of the environment. Relative entries do
// not count, for the working directory is a stranger's project, and neither does
// gander itself, which may be installed under the name goose.
func (c *Config) lookPath(program string) string {
	self, _ := os.Executable() // without it nothing is left out
	for _, dir := range filepath.SplitList(c.env["PATH"]) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, name := range programNames(program) {
			if path := filepath.Join(dir, name); isProgram(path) && !sameFile(path, self) {
				return path
			}
		}
	}
	return ""
}

// programNames are the files that a program may be.
func programNames(program string) []string {
	if runtime.GOOS == "windows" && filepath.Ext(program) == "" {
		return []string{program + ".exe", program + ".cmd", program + ".bat"}
	}
	return []string{program}
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	return runtime.GOOS == "windows" || info.Mode()&0o111 != 0
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// findInstalled finds the program in what npm left under dir: packages with the
// program for one platform keep it in bin. Plain archives with bin work too.
func findInstalled(dir, name string) string {
	for _, pattern := range []string{"bin", "node_modules/@*/*/bin", "node_modules/*/bin", "*/bin"} {
		for _, file := range programNames(name) {
			found, _ := filepath.Glob(filepath.Join(escapeGlob(dir), filepath.FromSlash(pattern), file))
			found = slices.DeleteFunc(found, func(path string) bool { return !isProgram(path) })
			if len(found) > 0 {
				return slices.MinFunc(found, comparePlatform)
			}
		}
	}
	return ""
}

// comparePlatform orders paths: those that name this platform first, then by name.
func comparePlatform(a, b string) int {
	foreign := func(path string) int {
		arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
		if strings.Contains(path, runtime.GOOS+"-"+cmp.Or(arch, runtime.GOARCH)+string(filepath.Separator)) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(foreign(a), foreign(b)), cmp.Compare(a, b))
}

// escapeGlob makes filepath.Glob take dir as it is.
func escapeGlob(dir string) string {
	if runtime.GOOS == "windows" {
		return dir // there is no escape there, and '[' is rare
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
