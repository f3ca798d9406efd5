package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/project"
)

// Missing reads what commands print, for programs that they did not find and for arguments that
// were too long. It implements io.Writer and is not safe for concurrent use.
type Missing struct {
	line    []byte // its beginning, when its end has not come
	names   []string
	tooLong string // the program
}

// maxMissingLine bounds a line that is looked into, in bytes, and maxMissing the programs.
const maxMissingLine, maxMissing = 512, 3

var (
	// notFound finds what shells, env, make and xargs say of a program that is not there.
	notFound = regexp.MustCompile(`^\S*: (?:line \d+: )?([\w./+-]+): command not found$|^\S*: \d+: ([\w./+-]+): not found$|` +
		`^\S*(?:sh|make(?:\[\d+\])?|xargs): (?:line \d+: )?([\w./+-]+): No such file or directory$|^\S*env: .([\w./+-]+)\S*: No such file or directory$`)
	argumentsTooLong = regexp.MustCompile(`^\S*: (?:line \d+: |\d+: )?([\w./+-]+): Argument list too long$`)
)

func (m *Missing) Write(p []byte) (int, error) {
	n := len(p)
	for {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		if room := maxMissingLine - len(m.line); room > 0 {
			m.line = append(m.line, part[:min(len(part), room)]...)
		}
		if !ended {
			return n, nil
		}
		m.look(string(bytes.TrimRight(m.line, "\r")))
		m.line, p = m.line[:0], rest
	}
}

// look looks into a line.
func (m *Missing) look(line string) {
	if found := argumentsTooLong.FindStringSubmatch(line); found != nil {
		m.tooLong = found[1]
	}
	for i, name := range notFound.FindStringSubmatch(line) {
		if i > 0 && name != "" && len(m.names) < maxMissing && !slices.Contains(m.names, name) {
			m.names = append(m.names, name)
		}
	}
}

// Say returns an error for each program that is outside and not in the sandbox, and one for
// arguments that were too long.
func (m *Missing) Say(in sandbox.Info) (says []error) {
	if m.tooLong != "" {
		says = append(says, TooLong(syscall.E2BIG, m.tooLong))
	}
	for _, name := range m.names {
		path, err := exec.LookPath(name)
		shown := in.Image == "" && slices.ContainsFunc(project.SystemDirs(), func(dir string) bool { return project.Below(path, dir) })
		if err == nil && filepath.IsAbs(path) && in.Isolated && !shown {
			says = append(says, NotInside(errors.ErrUnsupported, name, in))
		}
	}
	return says
}

// TooLong says why a program was not started whose arguments and variables are too long, and what to do.
func TooLong(err error, program string) error {
	return fmt.Errorf("the arguments and variables of %s are longer than the kernel takes (%w); pass what is long in a file or on stdin, or take names out of policy.environment", program, err)
}

// NotInside says why there is no such program in a sandbox, and which setting shows it.
func NotInside(err error, program string, in sandbox.Info) error {
	path, failed := exec.LookPath(program)
	if failed == nil && filepath.IsAbs(path) {
		if in.Image != "" {
			return fmt.Errorf("%s is outside (%s) and not in the image %s; name an image that has it in sandbox.image, or its directory in policy.readOnlyPaths", program, path, in.Image)
		}
		return fmt.Errorf("%s is outside (%s) and not in the sandbox, or what it is run by is not; name its directory in policy.readOnlyPaths", program, path)
	}
	return fmt.Errorf("there is no program %q in the sandbox, which shows the system's directories, toolchains below your home and the project, nor outside: %w", program, err)
}
