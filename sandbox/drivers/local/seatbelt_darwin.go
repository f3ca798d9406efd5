package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/project"
)

const sandboxExec = "/usr/bin/sandbox-exec" // puts programs under a profile

// confine puts the plan under a profile of the policy, where there is the program.
func (d *Driver) confine(p *plan, spec sandbox.Spec) error {
	if _, err := os.Stat(sandboxExec); err != nil {
		p.warnings = append(p.warnings, "There is no sandbox-exec on this machine: commands see all files that you can see, and the network.")
		return nil
	}
	s, err := d.seatbeltOf(spec)
	if err != nil {
		return err
	}
	p.process.profile = s.profile()
	p.confined(held)
	return checkStrings(p.process.profile)
}

// keep puts the plan of the driver "off" under a profile that keeps the rules and no more.
func (d *Driver) keep(p *plan, spec sandbox.Spec) error {
	top, err := filepath.EvalSymlinks(spec.WorkingDir)
	if err != nil {
		return fmt.Errorf("finding the directory of the rules for files: %w", err)
	}
	s := seatbelt{project: top, writes: spec.Rules.Writes}
	if s.rules, err = rulesOf(top, spec.Rules); err != nil {
		return err
	}
	p.process.profile = s.keeping()
	p.kept = sandbox.Enforcement{Closed: sandbox.ByName, Protected: sandbox.ByName}
	return checkStrings(p.process.profile)
}

// Lacks says in words for people what sandboxes of this package are on this system, and
// what they do not hold.
func Lacks() string {
	if _, err := os.Stat(sandboxExec); err != nil {
		return noSandbox
	}
	var p plan
	p.confined(held)
	return p.isolation
}

func (d *Driver) seatbeltOf(spec sandbox.Spec) (seatbelt, error) {
	s := seatbelt{private: []string{"/Users", "/Volumes", "/private/var/root", "/private/var/folders"}, temporary: []string{"/private/tmp"}}
	if spec.Rules != nil {
		s.writes = spec.Rules.Writes
	}
	var err error
	real := func(path string) string {
		resolved, failed := filepath.EvalSymlinks(path)
		err = errors.Join(err, failed)
		return resolved
	}
	shown := func(path string) string {
		resolved, failed := project.Resolve(path, spec.WritableDirs())
		err = errors.Join(err, failed)
		return resolved
	}
	s.project, s.home = real(spec.WorkingDir), real(spec.Home)
	s.temporary = append(s.temporary, real(os.TempDir()))
	for _, m := range spec.Mounts {
		s.readable = append(s.readable, shown(m.Path))
		if m.Writable {
			s.temporary = append(s.temporary, shown(m.Path))
		}
	}
	for _, path := range append([]string{filepath.Dir(d.options.Executable)}, d.options.ReadOnlyPaths...) {
		if filepath.IsAbs(path) {
			s.readable = append(s.readable, shown(path))
		}
	}
	if err != nil {
		return s, fmt.Errorf("describing the sandbox: %w", err)
	}
	s.rules, err = rulesOf(s.project, spec.Rules)
	return s, err
}

// rulesOf are the lines of the person's and the project's rules files.
func rulesOf(project string, r *sandbox.Rules) ([]seatbeltRule, error) {
	var lines []seatbeltRule
	add := func(text string) {
		for line := range strings.Lines(text) {
			lines = append(lines, seatbeltRule{project, strings.TrimRight(line, "\n")})
		}
	}
	found := false
	read := func(raw []byte, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the rules for files: %w", err)
		}
		found = true
		add(string(raw))
		return nil
	}
	if r != nil && r.Own != "" {
		if err := read(os.ReadFile(r.Own)); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(project)
	if err != nil {
		return nil, fmt.Errorf("reading the rules for files: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := read(root.ReadFile(ignore.FileName)); err != nil {
		return nil, err
	}
	if !found {
		add(ignore.Defaults)
	}
	return lines, nil
}
