package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// restricter restricts mounts, in namespaces of its own.
const restricter = "restricter"

func restrictMounts() error {
	var found problems
	if err := enterStaging(Root{}); err != nil {
		return err
	}
	for name, restrict := range map[string]func(string, uintptr) error{"at once": restrict, "each": restrictEach} {
		top := newRoot + "/" + name
		below := top + "/below"
		for _, dir := range []string{top, below} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			if err := mount("tmpfs", dir, "tmpfs", unix.MS_NOEXEC, ""); err != nil {
				return err
			}
		}
		if err := restrict(top, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV); err != nil {
			found.add("%s: %w", name, err)
		}
		for _, dir := range []string{top, below} {
			if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); !errors.Is(err, unix.EROFS) {
				found.add("writing in %s: %v, want a read-only file system", dir, err)
			}
			var st unix.Statfs_t
			const want = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC
			if err := unix.Statfs(dir, &st); err != nil || st.Flags&want != want {
				found.add("%s has the flags %x, %v, want %x among them", dir, st.Flags, err, want)
			}
		}
	}
	return found.error
}

func TestRestrict(t *testing.T) {
	cmd := helper(restricter)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
