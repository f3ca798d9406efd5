package sandboxtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/mountinfo"
)

// sandboxMounts are what mounts of a sandbox can be told by, in whatever mount namespace.
type sandboxMounts struct{ names []string }

// upperDir is where an overlay, of all on a machine this one, keeps what is written.
var upperDir = regexp.MustCompile(`[, ]upperdir=([^, ]+)`)

// lookAtMounts notes what is mounted for a sandbox that runs. One that isolates has mounts:
// were none found, none would be found that are left.
func lookAtMounts(t *testing.T, sb sandbox.Sandbox, spec sandbox.Spec) sandboxMounts {
	t.Helper()
	var m sandboxMounts
	for _, dir := range []string{spec.WorkingDir, spec.Home} {
		// A mount tells the name below its file system: the last parts are this test's alone.
		parts := strings.Split(dir, "/")
		m.names = append(m.names, strings.Join(parts[max(len(parts)-3, 0):], "/"))
	}
	found := m.find()
	if sb.Info().Isolated && len(found) == 0 {
		t.Fatal("the mounts of a sandbox that runs are not found")
	}
	for file := range found {
		raw, _ := os.ReadFile(file)
		for line := range strings.Lines(string(raw)) {
			at, ok := mountinfo.Parse(line)
			if upper := upperDir.FindStringSubmatch(line); ok && at.At == "/" && upper != nil && !slices.Contains(m.names, upper[1]) {
				m.names = append(m.names, upper[1])
			}
		}
	}
	return m
}

// find returns which mounts there are, by the file that tells of them: each process of the
// machine may be in a namespace of its own.
func (m sandboxMounts) find() map[string][]string {
	found := map[string][]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, file := range files {
		raw, _ := os.ReadFile(file) // of who has ended, nothing
		for line := range strings.Lines(string(raw)) {
			if slices.ContainsFunc(m.names, func(name string) bool { return strings.Contains(line, name) }) {
				found[file] = append(found[file], line)
			}
		}
	}
	return found
}

// mountsTime is for who begins a namespace with a copy of all mounts, as sandboxes do, and
// leaves them in a moment.
const mountsTime = 5 * time.Second

// checkGone fails when a mount stays.
func (m sandboxMounts) checkGone(t *testing.T) {
	t.Helper()
	found := m.find()
	for deadline := time.Now().Add(mountsTime); len(found) > 0 && time.Now().Before(deadline); found = m.find() {
		time.Sleep(10 * time.Millisecond)
	}
	if len(found) > 0 {
		t.Fatalf("mounts of a sandbox that is closed are left: %q", found)
	}
}
