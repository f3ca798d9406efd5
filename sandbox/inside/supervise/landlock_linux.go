package supervise

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock is a second wall, of the kernel's own judgement: where the mounts or the
// supervisor's look have a hole, what runs inside still changes files below the
// given directories only, and signals, traces and calls nobody outside. It is given
// up in silence where the kernel has less of it; landlockSays tells.

// The bits of landlock(7) that x/sys does not have.
const (
	scopeAbstractSocket = 1 << 0
	scopeSignal         = 1 << 1
	landlockScopes      = 6 // the ABI that has them
)

// landlockRuleset is struct landlock_ruleset_attr.
type landlockRuleset struct{ files, network, scoped uint64 }

// landlockABI is the version of Landlock here; 0 without.
func landlockABI() int {
	v, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}

// landlockWrites are the rights to change files that a version knows.
func landlockWrites(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM)
	if abi >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return rights
}

// confine is a stage of the launcher: needs no_new_privs.
func confine(p privileges) error {
	abi := landlockABI()
	if abi == 0 || p.Keep {
		return nil
	}
	rules := landlockRuleset{}
	// Before version 2 nothing could be moved to another directory.
	if abi >= 2 && len(p.Writable) > 0 {
		rules.files = landlockWrites(abi) | unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= landlockScopes {
		rules.scoped = scopeAbstractSocket | scopeSignal
	}
	if rules == (landlockRuleset{}) {
		return nil
	}
	size := unsafe.Sizeof(rules)
	if abi < landlockScopes {
		size = unsafe.Sizeof(rules.files)
	}
	set, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if e != 0 {
		return fmt.Errorf("making rules: %w", e)
	}
	defer func() { _ = unix.Close(int(set)) }()
	for _, path := range p.Writable {
		if err := landlockPath(int(set), path, rules.files); err != nil {
			return fmt.Errorf("permitting %s: %w", path, err)
		}
	}
	if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); e != 0 {
		return fmt.Errorf("taking the rules on: %w", e)
	}
	return nil
}

// landlockPath gives rights to a file, or to all below a directory. What is not
// there needs none.
func landlockPath(set int, path string, rights uint64) error {
	if rights == 0 {
		return nil
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR { // the others are about entries
		rights &= unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, e := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// landlockSays tells what of it holds here.
func landlockSays(p privileges) string {
	abi := landlockABI()
	var holds []string
	if abi >= 2 && len(p.Writable) > 0 {
		holds = append(holds, "changes below the writable directories only")
	}
	if abi >= landlockScopes {
		holds = append(holds, "no signals and abstract sockets to outside")
	}
	switch {
	case p.Keep:
		return ""
	case len(holds) == 0:
		return "landlock: not on this kernel"
	}
	return fmt.Sprintf("landlock: %s (ABI %d)", strings.Join(holds, ", "), abi)
}
