package enforce

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/inside/mountinfo"
)

// mountTable translates paths to those inside their file system, so that a
// directory is recognised wherever it is mounted. It is safe for concurrent use.
type mountTable struct {
	// changes is a descriptor of the table that tells when it has changed; -1 where
	// mounts are static.
	changes int
	// loading is held by who asks for changes, or reads the table: what was read before is
	// not to follow what was read after.
	loading sync.Mutex

	// mu guards the fields below.
	mu     sync.Mutex
	points map[uint64]mountinfo.Mount
}

func newMountTable(static bool) (*mountTable, error) {
	m := &mountTable{changes: -1}
	if !static {
		fd, err := unix.Open(mountsFile, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return m, fmt.Errorf("opening the table of mounts: %w", err)
		}
		m.changes = fd
	}
	return m, m.load()
}

const mountsFile = "/proc/self/mountinfo"

func (m *mountTable) close() {
	if m.changes >= 0 {
		_ = unix.Close(m.changes)
	}
}

func (m *mountTable) load() error {
	m.loading.Lock()
	defer m.loading.Unlock()
	return m.read()
}

// follow reads the table again when it has changed: a mount that has gone leaves its number
// to the next one.
func (m *mountTable) follow() {
	m.loading.Lock()
	defer m.loading.Unlock()
	p := []unix.PollFd{{Fd: int32(m.changes), Events: unix.POLLPRI}} // proc_pid_mounts(5)
	if n, err := unix.Poll(p, 0); (err != nil || n > 0) && m.read() != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.points = nil // and is read when one is looked for
	}
}

// read is for who holds loading.
func (m *mountTable) read() error {
	raw, err := os.ReadFile(mountsFile)
	if err != nil {
		return fmt.Errorf("reading the table of mounts: %w", err)
	}
	points := map[uint64]mountinfo.Mount{}
	for line := range strings.Lines(string(raw)) {
		if p, ok := mountinfo.Parse(line); ok {
			points[uint64(p.ID)] = p
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.points = points
	return nil
}

// inner is where a path of a mount is in its file system. ok is false for a mount
// that is not known.
func (m *mountTable) inner(id uint64, path string) (device, inner string, ok bool) {
	p, ok := m.find(id)
	if !ok {
		return "", "", false
	}
	rest, ok := below(path, p.At)
	return p.Device, filepath.Join(p.Root, rest), ok
}

// proc is the path below the mount when that is of a proc file system.
func (m *mountTable) proc(id uint64, path string) (string, bool) {
	if p, ok := m.find(id); ok && p.FSType == "proc" {
		return below(path, p.At)
	}
	return "", false
}

// find looks again for a mount that is not known.
func (m *mountTable) find(id uint64) (mountinfo.Mount, bool) {
	if m.changes >= 0 {
		m.follow()
	}
	p, ok := m.known(id)
	if !ok && m.load() == nil {
		p, ok = m.known(id)
	}
	return p, ok
}

func (m *mountTable) known(id uint64) (mountinfo.Mount, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.points[id]
	return p, ok
}

// aliases are the other mounts that show the directory, or something in it.
func (m *mountTable) aliases(mount uint64, device, inner string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var at []string
	for id, p := range m.points {
		if id == mount || p.Device != device {
			continue
		}
		_, above := below(inner, p.Root)
		_, within := below(p.Root, inner)
		if above || within {
			at = append(at, p.At)
		}
	}
	return at
}

// below returns path relative to dir, "" for dir itself.
func below(path, dir string) (string, bool) {
	if path == dir {
		return "", true
	}
	if dir == "/" {
		return strings.TrimPrefix(path, "/"), strings.HasPrefix(path, "/")
	}
	if len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir {
		return path[len(dir)+1:], true
	}
	return "", false
}
