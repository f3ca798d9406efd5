package enforce

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Calls that are newer than the headers that x/sys was made from; the numbers are the
// same everywhere.
const (
	sysOpenTreeAttr = 467
	sysFileSetattr  = 469

	// newestCall is the last that somebody has thought about: a newer one may open files.
	newestCall = sysFileSetattr
)

// here is the caller's working directory as a descriptor.
const here = int32(unix.AT_FDCWD)

// openCall is an open call and which of its arguments has the flags.
type openCall struct {
	nr    uintptr
	flags int
	do    func(*task) answer
}

func openCalls() []openCall {
	return append(olderOpenCalls(), openCall{unix.SYS_OPENAT, 2, func(t *task) answer {
		return t.open(t.fd(0), t.arg(1), int(uint32(t.arg(2))), uint32(t.arg(3)))
	}})
}

// table is every system call that the filter does not simply let through, beside
// the open calls and those that are judged by their flags.
func (o Filter) table() []call {
	calls := append(olderCalls(), changes()...)
	for _, c := range []struct {
		rule  rule
		calls map[string]uintptr
	}{{forbid, forbidden()}, {unknown, unknowns()}} {
		for name, nr := range c.calls {
			calls = append(calls, call{name: name, nr: nr, rule: c.rule})
		}
	}
	if o.Machine {
		calls = slices.DeleteFunc(calls, func(c call) bool { return slices.Contains(machineCalls(), c.nr) })
		calls = append(calls, userCalls()...)
	}
	if !o.Connect {
		calls = slices.DeleteFunc(calls, func(c call) bool { return c.nr == unix.SYS_CONNECT })
	}
	return calls
}

// changes are supervised.
func changes() []call {
	return []call{
		{"truncate", unix.SYS_TRUNCATE, supervise, (*task).truncate},
		{"linkat", unix.SYS_LINKAT, supervise, func(t *task) answer {
			return t.link(t.fd(0), t.arg(1), t.fd(2), t.arg(3), int(int32(t.arg(4))))
		}},
		{"renameat", unix.SYS_RENAMEAT, supervise, func(t *task) answer {
			return t.rename(t.fd(0), t.arg(1), t.fd(2), t.arg(3), 0)
		}},
		{"renameat2", unix.SYS_RENAMEAT2, supervise, func(t *task) answer {
			return t.rename(t.fd(0), t.arg(1), t.fd(2), t.arg(3), uint(uint32(t.arg(4))))
		}},
		{"unlinkat", unix.SYS_UNLINKAT, supervise, func(t *task) answer {
			return t.unlink(t.fd(0), t.arg(1), int(int32(t.arg(2))))
		}},
		{"symlinkat", unix.SYS_SYMLINKAT, supervise, func(t *task) answer {
			return t.symlink(t.arg(0), t.fd(1), t.arg(2))
		}},
		{"mknodat", unix.SYS_MKNODAT, supervise, func(t *task) answer {
			return t.mknod(t.fd(0), t.arg(1), uint32(t.arg(2)), int(t.arg(3)))
		}},
		{"mkdirat", unix.SYS_MKDIRAT, supervise, func(t *task) answer {
			return t.mkdir(t.fd(0), t.arg(1), uint32(t.arg(2)))
		}},
		{"fchmod", unix.SYS_FCHMOD, supervise, (*task).fchmod},
		{"fchmodat", unix.SYS_FCHMODAT, supervise, func(t *task) answer {
			return t.chmod(t.fd(0), t.arg(1), uint32(t.arg(2)), 0)
		}},
		{"fchmodat2", unix.SYS_FCHMODAT2, supervise, func(t *task) answer {
			return t.chmod(t.fd(0), t.arg(1), uint32(t.arg(2)), int(int32(t.arg(3))))
		}},
		{"setxattr", unix.SYS_SETXATTR, supervise, func(t *task) answer { return t.setAttribute(t.named(true)) }},
		{"lsetxattr", unix.SYS_LSETXATTR, supervise, func(t *task) answer { return t.setAttribute(t.named(false)) }},
		{"fsetxattr", unix.SYS_FSETXATTR, supervise, func(t *task) answer { return t.setAttribute(t.descriptor(t.fd(0))) }},
		{"removexattr", unix.SYS_REMOVEXATTR, supervise, func(t *task) answer { return t.removeAttribute(t.named(true)) }},
		{"lremovexattr", unix.SYS_LREMOVEXATTR, supervise, func(t *task) answer { return t.removeAttribute(t.named(false)) }},
		{"fremovexattr", unix.SYS_FREMOVEXATTR, supervise, func(t *task) answer { return t.removeAttribute(t.descriptor(t.fd(0))) }},
		{"connect", unix.SYS_CONNECT, supervise, (*task).connect},
		{"ptrace", unix.SYS_PTRACE, supervise, (*task).ptrace},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, supervise, (*task).touchMemory},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, supervise, (*task).touchMemory},
	}
}

// forbidden calls would open what the Guard does not see, or change what it
// relies on: mounts, namespaces, the kernel itself.
func forbidden() map[string]uintptr {
	return map[string]uintptr{
		"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
		"mount":             unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT,
		"chroot": unix.SYS_CHROOT, "setns": unix.SYS_SETNS,
		"open_tree": unix.SYS_OPEN_TREE, "open_tree_attr": sysOpenTreeAttr, "move_mount": unix.SYS_MOVE_MOUNT,
		"fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG, "fsmount": unix.SYS_FSMOUNT,
		"fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR,
		"swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF, "acct": unix.SYS_ACCT,
		"quotactl": unix.SYS_QUOTACTL, "quotactl_fd": unix.SYS_QUOTACTL_FD,
		"bpf": unix.SYS_BPF, "fanotify_init": unix.SYS_FANOTIFY_INIT, "userfaultfd": unix.SYS_USERFAULTFD,
		"perf_event_open": unix.SYS_PERF_EVENT_OPEN, "kexec_load": unix.SYS_KEXEC_LOAD,
		"init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE,
		"reboot": unix.SYS_REBOOT, "pidfd_getfd": unix.SYS_PIDFD_GETFD, "process_madvise": unix.SYS_PROCESS_MADVISE,
		"syslog": unix.SYS_SYSLOG, "vhangup": unix.SYS_VHANGUP, "sethostname": unix.SYS_SETHOSTNAME, "setdomainname": unix.SYS_SETDOMAINNAME,
		"settimeofday": unix.SYS_SETTIMEOFDAY, "clock_settime": unix.SYS_CLOCK_SETTIME,
		"kcmp": unix.SYS_KCMP, "move_pages": unix.SYS_MOVE_PAGES, "migrate_pages": unix.SYS_MIGRATE_PAGES, "process_mrelease": unix.SYS_PROCESS_MRELEASE,
		"add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "keyctl": unix.SYS_KEYCTL,
	}
}

// unknowns have their flags or addresses in memory, where the caller could change
// them behind the filter's back. Programs take the older call instead. Landlock would confine
// the caller, and hold nothing of what the Guard does for it: better there is none.
func unknowns() map[string]uintptr {
	return map[string]uintptr{
		"openat2": unix.SYS_OPENAT2, "clone3": unix.SYS_CLONE3, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT,
		"file_setattr": sysFileSetattr,
		"setxattrat":   unix.SYS_SETXATTRAT, "removexattrat": unix.SYS_REMOVEXATTRAT,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER,
		"io_uring_register":       unix.SYS_IO_URING_REGISTER,
		"landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET, "landlock_add_rule": unix.SYS_LANDLOCK_ADD_RULE,
		"landlock_restrict_self": unix.SYS_LANDLOCK_RESTRICT_SELF,
	}
}
