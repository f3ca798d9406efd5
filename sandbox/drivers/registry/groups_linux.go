package registry

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupsRoot is where the kernel's control groups are.
const groupsRoot = "/sys/fs/cgroup"

// removeGroups removes the control groups of a sandbox that has ended. What the record
// names is no more than a hint, which may be old or somebody else's.
func removeGroups(r Record) {
	for _, path := range r.Groups {
		if isGroupOf(path, r.ID) {
			_ = removeGroup(path) // a later sandbox tries again
		}
	}
}

// isGroupOf reports whether a path can be one of the groups that gander makes for a sandbox.
func isGroupOf(path, id string) bool {
	return filepath.Clean(path) == path && strings.HasPrefix(path, groupsRoot+"/") &&
		filepath.Base(id) == id && filepath.Base(path) == GroupPrefix+id
}

// removeGroup removes a group without processes. Links are not followed, and nothing but a
// group is removed.
func removeGroup(path string) error {
	parent, err := unix.Openat2(unix.AT_FDCWD, filepath.Dir(path), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(parent, &fs); err != nil {
		return err
	}
	if fs.Type != unix.CGROUP_SUPER_MAGIC && fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return errors.New("it is no control group")
	}
	const tries = 50
	for range tries { // the kernel takes a moment to let go of what has ended
		if err = unix.Unlinkat(parent, filepath.Base(path), unix.AT_REMOVEDIR); !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return err
}
