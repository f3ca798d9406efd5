package changes

import (
	"time"

	"golang.org/x/sys/unix"
)

// clockWindow is for how long after a file's change time another change may have
// the same one. File systems of this machine stamp in steps of at most two
// seconds; those of another machine have a clock of their own.
func clockWindow(dir string) time.Duration {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 5 * time.Minute
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return 5 * time.Minute
	}
	return 2 * time.Second
}
