package docker

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/moby/api/types/mount"
	"github.com/natefinch/atomic"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/rules/project"
)

// debianBundle is where programs of a Debian image look for CA certificates.
const debianBundle = "/etc/ssl/certs/ca-certificates.crt"

// mounts lists what the container shows of the host.
func (d *Driver) mounts(p plan, program string) ([]mount.Mount, error) {
	t := mountTable{writable: p.spec.WritableDirs()}
	for _, path := range d.options.ReadOnlyPaths {
		t.show(sandbox.Mount{Path: path})
	}
	for _, m := range p.spec.Mounts {
		t.show(m)
	}
	if _, copied := p.spec.Files[d.options.CABundle]; d.options.CABundle != "" && !copied {
		t.show(sandbox.Mount{Path: d.options.CABundle})
		t.bind(d.options.CABundle, debianBundle, false)
	}
	t.writable = nil // the project and its home are what was asked for
	if p.spec.Home != "" {
		t.bind(p.spec.Home, p.home, true)
	}
	t.show(sandbox.Mount{Path: p.project.Name, Writable: !p.spec.ReadOnly})
	if program != "" {
		t.bind(program, supervise.InsideExecutable, false)
	}
	return t.mounts, t.err
}

// mountTable collects mounts; a later one of the same place replaces an earlier.
type mountTable struct {
	mounts   []mount.Mount
	writable []string // directories in which links are not followed
	err      error    // the first
}

// show shows a path of the host at its own path, under its real name and the
// one that was asked for. Directories of the system are the image's own.
func (t *mountTable) show(m sandbox.Mount) {
	name := filepath.Clean(m.Path)
	if isSystem(name) {
		return
	}
	real := t.bind(m.Path, name, m.Writable)
	if real != "" && real != name && !isSystem(real) {
		t.bind(real, real, m.Writable)
	}
}

// isSystem says whether an image has this directory of its own, in which its
// programs and libraries must not be replaced by the host's.
func isSystem(path string) bool {
	own := append(project.SystemDirs(), "/", "/var", "/home", "/root", "/run", "/tmp", "/dev",
		"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/share",
		"/usr/local", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/local/share")
	return slices.Contains(own, path) || project.Below(path, "/proc") || project.Below(path, "/sys")
}

// bind mounts a path of the host and returns its real name. What is mounted
// below a read-only path is left out: older daemons would show it writable.
func (t *mountTable) bind(path, at string, writable bool) (real string) {
	real, err := project.Resolve(path, t.writable)
	if err != nil {
		if t.err == nil {
			t.err = fmt.Errorf("showing %s in the sandbox: %w", path, err)
		}
		return ""
	}
	t.mounts = slices.DeleteFunc(t.mounts, func(m mount.Mount) bool { return m.Target == at })
	t.mounts = append(t.mounts, mount.Mount{
		Type: mount.TypeBind, Source: real, Target: at, ReadOnly: !writable,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: !writable},
	})
	return real
}

// showFiles mounts the files that are made for a sandbox: those by which programs find out who
// and where they are, and the Spec's. A daemon mounts files of the host only, so that they are
// kept below the state, by their content.
func (d *Driver) showFiles(p *plan) error {
	if d.options.StateDir == "" {
		return nil
	}
	files := p.user.Names(p.home, "/bin/sh", func(string) string { return "" })
	delete(files, "/etc/nsswitch.conf") // the image's is for the image's library
	maps.Copy(files, p.spec.Files)
	if text, ok := files[d.options.CABundle]; ok { // of the person's, without what is no certificate
		files[debianBundle] = text
	}
	dir := filepath.Join(d.options.StateDir, "files")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keeping files for containers: %w", err)
	}
	p.mounts = slices.Clone(p.mounts)
	for _, at := range slices.Sorted(maps.Keys(files)) {
		text := files[at]
		name := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256(text)))
		if have, err := os.ReadFile(name); err != nil || !bytes.Equal(have, text) {
			if err := errors.Join(atomic.WriteFile(name, bytes.NewReader(text)), os.Chmod(name, 0o444)); err != nil {
				return fmt.Errorf("keeping a file for containers: %w", err)
			}
		}
		p.mounts = slices.DeleteFunc(p.mounts, func(m mount.Mount) bool { return m.Target == at })
		p.mounts = append(p.mounts, mount.Mount{
			Type: mount.TypeBind, Source: name, Target: at, ReadOnly: true, BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	return nil
}
