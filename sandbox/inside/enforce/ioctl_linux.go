package enforce

import "golang.org/x/sys/unix"

// Requests of ioctl(2) that x/sys does not have. Both architectures have the same.
const (
	setExtendedFlags  = 0x401c5820 // FS_IOC_FSSETXATTR
	setFlags32        = 0x40046602 // FS_IOC32_SETFLAGS
	enableVerity      = 0x40806685 // FS_IOC_ENABLE_VERITY
	encryptDirectory  = 0x800c6613 // FS_IOC_SET_ENCRYPTION_POLICY, and with a newer policy
	encryptDirectory2 = 0xc0406613
	copyByName        = 0x40186f04 // OCFS2_IOC_REFLINK
	setFATAttributes  = 0x40047211 // FAT_IOCTL_SET_ATTRIBUTES
)

// The requests of a file system of its own, by the byte that all of them have.
const (
	requestKind  = 0xff00
	btrfsKind    = 0x9400
	bcachefsKind = 0xbc00
)

// refusedRequests are answered as by files that do not know them. They make, copy and
// remove entries by names that are in memory, or change, by a descriptor for reading, what
// a file is: a directory of btrfs is copied with all that is closed in it, and one that
// does not count case has what is closed under further names. Keys of encrypted directories
// (fscrypt) are the user's, wherever these are: to remove one locks them outside, too.
func refusedRequests() []uint32 {
	return []uint32{
		unix.FS_IOC_SETFLAGS, setFlags32, setExtendedFlags, enableVerity, encryptDirectory, encryptDirectory2, copyByName, setFATAttributes,
		unix.FS_IOC_ADD_ENCRYPTION_KEY, unix.FS_IOC_REMOVE_ENCRYPTION_KEY, unix.FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS,
	}
}

// sharedRequests began as requests of btrfs, and every file system has them now: they
// copy from a descriptor to one that is open for writing.
func sharedRequests() []uint32 {
	return []uint32{unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE}
}

// ioctlBlock forbids typing into a terminal, and what would get at files past the Guard.
func (p *program) ioctlBlock() {
	var block program
	block.add(load, offsetArg(1), 0, 0)
	for _, list := range []struct {
		requests []uint32
		answer   uint32
	}{
		{[]uint32{unix.TIOCSTI, unix.TIOCLINUX}, errno(unix.EPERM)},
		{refusedRequests(), errno(unix.ENOTTY)},
		{sharedRequests(), unix.SECCOMP_RET_ALLOW},
	} {
		for _, request := range list.requests {
			block.add(equal, request, 0, 1)
			block.ret(list.answer)
		}
	}
	block.add(maskWith, requestKind, 0, 0)
	for _, kind := range []uint32{btrfsKind, bcachefsKind} {
		block.add(equal, kind, 0, 1)
		block.ret(errno(unix.ENOTTY))
	}
	block.ret(unix.SECCOMP_RET_ALLOW)
	p.add(equal, unix.SYS_IOCTL, 0, uint8(len(block)))
	*p = append(*p, block...)
}
