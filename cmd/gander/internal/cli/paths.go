package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"gander.dev/gander/cmd/gander/internal/clients"
	"gander.dev/gander/cmd/gander/internal/config"
)

// ProjectDir is the absolute path of a directory given by --cwd.
func ProjectDir(dir string) (string, error) {
	return DirectoryOf("--cwd", dir, "the project's directory")
}

// Absolute is the absolute path of what a flag or an argument names.
func Absolute(name, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", UsageError("%s %s: the current directory is gone (%w); go to one that is there, or give an absolute path", name, path, err)
	}
	return abs, nil
}

// DirectoryOf is the absolute path of a directory given by a flag, which is to be used
// as something.
func DirectoryOf(flag, dir, use string) (string, error) {
	path, err := Absolute(flag, dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", UsageError("%s %s cannot be used as %s: %v", flag, dir, use, errors.Unwrap(err))
	case !info.IsDir():
		return "", UsageError("%s %s is not a directory", flag, dir)
	case !utf8.ValidString(path):
		return "", UsageError("%s %q cannot be used as %s: sessions and sandboxes take names in UTF-8 only; rename it", flag, path, use)
	}
	return path, nil
}

const HomeAdvice = "make room, give yourself the directory, or choose another one with --home or GANDER_HOME"

const TemporaryAdvice = "make room for temporary files, or name another directory in TMPDIR"

// Variable is the last value of a variable, as programs see it.
func Variable(environ []string, name string) (value string) {
	for _, v := range environ {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

// GooseConfigDir returns the directory of goose's configuration; empty when that cannot be
// known.
func GooseConfigDir(environ []string) string {
	if root := Variable(environ, "GOOSE_PATH_ROOT"); root != "" {
		return filepath.Join(root, "config")
	}
	if runtime.GOOS == "windows" {
		if dir := Variable(environ, "APPDATA"); dir != "" {
			return filepath.Join(dir, "Block", "goose", "config")
		}
		return ""
	}
	if dir := Variable(environ, "XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "goose")
	}
	if home := Variable(environ, "HOME"); home != "" {
		return filepath.Join(home, ".config", "goose")
	}
	return ""
}

// GooseName is the name under which gander answers "goose mcp developer", which
// goose starts inside containers.
const GooseName = "goose"

// Program returns the file of the program that runs.
func Program() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding gander's own program: %w", err)
	}
	return self, nil
}

// Executable is the absolute path of gander for a client, which does not have a
// shell's PATH: the one in PATH when it is this program, because a new version
// will be there too, else where this program is.
func (a *App) Executable() (string, error) {
	self, err := Program()
	if err != nil {
		return "", err
	}
	if found := a.LookPath("gander"); found != "" && sameFile(found, self) {
		return found, nil
	}
	return self, nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// LookPath finds a program in the PATH of gander's environment; empty without it.
func (a *App) LookPath(program string) string {
	var path string
	for _, v := range a.Environ {
		if name, value, ok := strings.Cut(v, "="); ok && strings.EqualFold(name, "PATH") {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found
		}
	}
	return ""
}

// Clients says where this person's clients keep their files.
func (a *App) Clients() clients.Place {
	home, _ := config.PersonalDir(a.Environ) // without it the paths are relative, and refused
	return clients.Place{
		OS: runtime.GOOS, Home: home,
		Config: Variable(a.Environ, "XDG_CONFIG_HOME"), AppData: Variable(a.Environ, "APPDATA"),
	}
}
