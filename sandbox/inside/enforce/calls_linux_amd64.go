package enforce

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// olderOpenCalls exist on amd64 only.
func olderOpenCalls() []openCall {
	return []openCall{{unix.SYS_OPEN, 1, func(t *task) answer {
		return t.open(here, t.arg(0), int(uint32(t.arg(1))), uint32(t.arg(2)))
	}}}
}

// olderCalls exist on amd64 only: each is another spelling of one in changes.
func olderCalls() []call {
	return append([]call{
		{"creat", unix.SYS_CREAT, supervise, func(t *task) answer {
			return t.open(here, t.arg(0), unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(t.arg(1)))
		}},
		{"link", unix.SYS_LINK, supervise, func(t *task) answer { return t.link(here, t.arg(0), here, t.arg(1), 0) }},
		{"rename", unix.SYS_RENAME, supervise, func(t *task) answer { return t.rename(here, t.arg(0), here, t.arg(1), 0) }},
		{"unlink", unix.SYS_UNLINK, supervise, func(t *task) answer { return t.unlink(here, t.arg(0), 0) }},
		{"rmdir", unix.SYS_RMDIR, supervise, func(t *task) answer { return t.unlink(here, t.arg(0), unix.AT_REMOVEDIR) }},
		{"symlink", unix.SYS_SYMLINK, supervise, func(t *task) answer { return t.symlink(t.arg(0), here, t.arg(1)) }},
		{"mknod", unix.SYS_MKNOD, supervise, func(t *task) answer {
			return t.mknod(here, t.arg(0), uint32(t.arg(1)), int(t.arg(2)))
		}},
		{"chmod", unix.SYS_CHMOD, supervise, func(t *task) answer { return t.chmod(here, t.arg(0), uint32(t.arg(1)), 0) }},
		{"mkdir", unix.SYS_MKDIR, supervise, func(t *task) answer { return t.mkdir(here, t.arg(0), uint32(t.arg(1))) }},
	}, olderForbidden()...)
}

func olderForbidden() []call {
	var calls []call
	for name, nr := range map[string]uintptr{
		"uselib": unix.SYS_USELIB, "iopl": unix.SYS_IOPL, "ioperm": unix.SYS_IOPERM,
		"lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE, "kexec_file_load": unix.SYS_KEXEC_FILE_LOAD,
		"modify_ldt": unix.SYS_MODIFY_LDT,
	} {
		calls = append(calls, call{name: name, nr: nr, rule: forbid})
	}
	return calls
}
