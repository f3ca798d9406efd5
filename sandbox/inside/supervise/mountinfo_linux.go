package supervise

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/inside/mountinfo"
)

// mountEntry is a mount and the flags it has. In a user namespace a remount that
// leaves one of them out is refused.
type mountEntry struct {
	id, parent int
	at         string
	flags      uintptr
}

// mountsBelow lists the mount at a path and those on it, as the old root's /proc
// shows them.
func mountsBelow(at string) ([]mountEntry, error) {
	table, err := os.ReadFile(oldRoot + "/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	found := mountTree(table, at)
	if len(found) == 0 {
		return nil, fmt.Errorf("%s is not in the mount table", at)
	}
	return found, nil
}

// mountTree is the topmost mount at a path and what is mounted on it. What a
// mount hides has the same path but another parent, and cannot be reached.
func mountTree(table []byte, at string) []mountEntry {
	var all []mountEntry
	top := -1
	for line := range bytes.Lines(table) {
		if m, ok := parseMount(string(line)); ok {
			all = append(all, m)
			if m.at == at {
				top = m.id // the later one is above
			}
		}
	}
	in := map[int]bool{top: true}
	var found []mountEntry
	for _, m := range all { // parents come first
		if m.id == top || in[m.parent] {
			in[m.id] = true
			found = append(found, m)
		}
	}
	return found
}

// parseMount is a line of mountinfo with the flags that its options are.
func parseMount(line string) (mountEntry, bool) {
	parsed, ok := mountinfo.Parse(line)
	m := mountEntry{id: parsed.ID, parent: parsed.Parent, at: parsed.At}
	for _, option := range parsed.Options {
		m.flags |= mountFlag(option)
	}
	if m.flags&(unix.MS_NOATIME|unix.MS_RELATIME) == 0 {
		m.flags |= unix.MS_STRICTATIME
	}
	return m, ok
}

func mountFlag(option string) uintptr {
	switch option {
	case "ro":
		return unix.MS_RDONLY
	case "nosuid":
		return unix.MS_NOSUID
	case "nodev":
		return unix.MS_NODEV
	case "noexec":
		return unix.MS_NOEXEC
	case "noatime":
		return unix.MS_NOATIME
	case "nodiratime":
		return unix.MS_NODIRATIME
	case "relatime":
		return unix.MS_RELATIME
	}
	return 0
}
