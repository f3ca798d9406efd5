package enforce

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// What the filter does with each call and each flag that it looks at, by an
// interpreter of its program.
func TestFilter(t *testing.T) {
	t.Run("machine", testMachineFilter)
	var raw []bpf.RawInstruction
	for _, i := range (Filter{Connect: true}).program() {
		raw = append(raw, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	insns, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program has instructions that are none")
	}
	vm, err := bpf.NewVM(insns)
	if err != nil {
		t.Fatal(err)
	}
	run := func(arch uint32, nr uintptr, args ...uint64) uint32 {
		data := make([]byte, 64) // the interpreter reads words as a network has them
		binary.BigEndian.PutUint32(data[0:], uint32(nr))
		binary.BigEndian.PutUint32(data[4:], arch)
		for i, a := range args {
			binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
			binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
		}
		got, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(got)
	}
	const (
		allow  = unix.SECCOMP_RET_ALLOW
		notify = unix.SECCOMP_RET_USER_NOTIF
	)
	unsupported, unknownRequest := errno(unix.EPROTONOSUPPORT), errno(unix.ENOTTY)
	deny, missing := errno(unix.EPERM), errno(unix.ENOSYS)
	for _, c := range (Filter{Connect: true}).table() {
		if got := run(auditArch, c.nr); got != c.rule.result() {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.rule.result())
		}
	}
	tests := []struct {
		name string
		want uint32
		nr   uintptr
		args []uint64
	}{
		{"read", allow, unix.SYS_READ, nil},
		{"execve", allow, unix.SYS_EXECVE, nil},
		{"openat for reading", notify, unix.SYS_OPENAT, []uint64{0, 0, unix.O_RDONLY}},
		{"openat for writing", notify, unix.SYS_OPENAT, []uint64{0, 0, unix.O_WRONLY}},
		{"openat O_PATH", allow, unix.SYS_OPENAT, []uint64{0, 0, unix.O_PATH}},
		{"openat O_PATH O_CREAT, which is O_PATH", allow, unix.SYS_OPENAT, []uint64{0, 0, unix.O_PATH | unix.O_CREAT}},
		{"openat of a directory", allow, unix.SYS_OPENAT, []uint64{0, 0, unix.O_DIRECTORY}},
		{"openat O_DIRECTORY O_CREAT", notify, unix.SYS_OPENAT, []uint64{0, 0, unix.O_DIRECTORY | unix.O_CREAT}},
		{"openat O_TMPFILE", notify, unix.SYS_OPENAT, []uint64{0, 0, unix.O_TMPFILE | unix.O_RDWR}},
		{"openat, flags in the high word only", notify, unix.SYS_OPENAT, []uint64{0, 0, unix.O_PATH << 32}},
		{"clone of a process", allow, unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}},
		{"clone of a thread", allow, unix.SYS_CLONE, []uint64{unix.CLONE_THREAD | unix.CLONE_VM}},
		{"clone into a user namespace", deny, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}},
		{"clone into a mount namespace", deny, unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS | uint64(unix.SIGCHLD)}},
		{"unshare of files", allow, unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}},
		{"unshare of a time namespace", deny, unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}},
		{"not dumpable", notify, unix.SYS_PRCTL, []uint64{unix.PR_SET_DUMPABLE, 0}},
		{"dumpable", allow, unix.SYS_PRCTL, []uint64{unix.PR_SET_DUMPABLE, 1}},
		{"one's own limits", allow, unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 0x7fff_0000_0000}},
		{"one's own core dumps", notify, unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0x7fff_0000_0000}},
		{"one's own core dumps, to read", allow, unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0, 0x1000}},
		{"one's own core dumps, the older call", errno(0), unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_CORE, 0x1000}},
		{"one's own limits, the older call", allow, unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_NOFILE, 0x1000}},
		{"another's limits, to read", allow, unix.SYS_PRLIMIT64, []uint64{7, unix.RLIMIT_NOFILE, 0, 0x1000}},
		{"another's limits", notify, unix.SYS_PRLIMIT64, []uint64{7, unix.RLIMIT_NOFILE, 0x1000}},
		{"another's limits, address in the high word only", notify, unix.SYS_PRLIMIT64, []uint64{7, unix.RLIMIT_NOFILE, 0x7fff_0000_0000}},
		{"one's own scheduling", allow, unix.SYS_SCHED_SETSCHEDULER, []uint64{0, 5}},
		{"another's scheduling", notify, unix.SYS_SCHED_SETSCHEDULER, []uint64{1, 5}},
		{"another's processors", notify, unix.SYS_SCHED_SETAFFINITY, []uint64{1, 8}},
		{"another's scheduling by its attributes", notify, unix.SYS_SCHED_SETATTR, []uint64{1}},
		{"one's own priority", allow, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0, 19}},
		{"the priority of one's own group", allow, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PGRP, 0, 19}},
		{"another's priority", notify, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 1, 19}},
		{"the priority of one's own user", notify, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0, 19}},
		{"the priority of one's own user for disks", notify, unix.SYS_IOPRIO_SET, []uint64{ioPrioUser, 0}},
		{"one's own priority for disks", allow, unix.SYS_IOPRIO_SET, []uint64{ioPrioProcess, 0}},
		{"another prctl", allow, unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME, 0}},
		{"typing into a terminal", deny, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}},
		{"pasting into a console", deny, unix.SYS_IOCTL, []uint64{0, unix.TIOCLINUX}},
		{"typing, high word set", deny, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI | 1<<32}},
		{"a snapshot of btrfs", unknownRequest, unix.SYS_IOCTL, []uint64{0, 0x50009417}},
		{"a subvolume of btrfs, high word set", unknownRequest, unix.SYS_IOCTL, []uint64{0, 0x5000940e | 1<<32}},
		{"a snapshot of bcachefs", unknownRequest, unix.SYS_IOCTL, []uint64{0, 0x4020bc10}},
		{"a copy of ocfs2", unknownRequest, unix.SYS_IOCTL, []uint64{0, copyByName}},
		{"attributes of fat", unknownRequest, unix.SYS_IOCTL, []uint64{0, setFATAttributes}},
		{"a directory without case", unknownRequest, unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_SETFLAGS}},
		{"a file that nobody can write any more", unknownRequest, unix.SYS_IOCTL, []uint64{0, enableVerity}},
		{"a directory that is encrypted", unknownRequest, unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_SET_ENCRYPTION_POLICY}},
		{"a key for encrypted directories", unknownRequest, unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_ADD_ENCRYPTION_KEY}},
		{"locking encrypted directories", unknownRequest, unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_REMOVE_ENCRYPTION_KEY}},
		{"locking them for all users, high word set", unknownRequest, unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS | 1<<32}},
		{"asking about a key", allow, unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_GET_ENCRYPTION_KEY_STATUS}},
		{"asking for flags of a file", allow, unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_GETFLAGS}},
		{"sharing a file's blocks", allow, unix.SYS_IOCTL, []uint64{0, unix.FICLONE}},
		{"another ioctl", allow, unix.SYS_IOCTL, []uint64{0, unix.TCGETS}},
		{"a lease", errno(unix.EINVAL), unix.SYS_FCNTL, []uint64{0, unix.F_SETLEASE, unix.F_WRLCK}},
		{"a lease, high word set", errno(unix.EINVAL), unix.SYS_FCNTL, []uint64{0, unix.F_SETLEASE | 1<<32, unix.F_RDLCK}},
		{"a delegation", errno(unix.EINVAL), unix.SYS_FCNTL, []uint64{0, setDelegation}},
		{"asking about a lease", allow, unix.SYS_FCNTL, []uint64{0, unix.F_GETLEASE}},
		{"a lock", allow, unix.SYS_FCNTL, []uint64{0, unix.F_SETLK}},
		{"a TCP socket", allow, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM}},
		{"a UDP socket", allow, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}},
		{"a UNIX stream socket", allow, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_NONBLOCK}},
		{"a UNIX packet socket", allow, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}},
		{"a UNIX datagram socket", unsupported, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}},
		{"a UNIX raw socket", unsupported, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_RAW}},
		{"a pair of UNIX datagram sockets", unsupported, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}},
		{"a UNIX datagram socket, high words set", unsupported, unix.SYS_SOCKET, []uint64{unix.AF_UNIX | 1<<32, unix.SOCK_DGRAM | 1<<32}},
		{"netlink of routes", allow, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}},
		{"netlink of sockets", allow, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}},
		{"netlink of devices", allow, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}},
		{"netlink of the audit", unsupported, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}},
		{"generic netlink", unsupported, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC}},
		{"a vsock", errno(unix.EAFNOSUPPORT), unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}},
		{"a packet socket", errno(unix.EAFNOSUPPORT), unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW}},
		{"a socket of the kernel's crypto", errno(unix.EAFNOSUPPORT), unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}},
		{"a call that nobody knows", missing, newestCall + 1, nil},
		{"an x32 call", missing, 0x40000000 | unix.SYS_READ, nil},
	}
	for _, tt := range tests {
		if got := run(auditArch, tt.nr, tt.args...); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
	if got := run(unix.AUDIT_ARCH_I386, unix.SYS_READ); got != missing {
		t.Errorf("a 32 bit call: %#x, want %#x", got, missing)
	}
}

// testMachineFilter: files are asked about, the machine is left alone.
func testMachineFilter(t *testing.T) {
	calls := map[uintptr]rule{}
	for _, c := range (Filter{Machine: true}).table() {
		calls[c.nr] = c.rule
	}
	for _, nr := range []uintptr{unix.SYS_CONNECT, unix.SYS_KEYCTL, unix.SYS_SYSLOG, unix.SYS_REBOOT} {
		if r, ok := calls[nr]; ok {
			t.Errorf("call %d has the rule %d", nr, r)
		}
	}
	for nr, want := range map[uintptr]rule{
		unix.SYS_SETUID: supervise, unix.SYS_CAPSET: supervise, unix.SYS_RENAMEAT2: supervise, unix.SYS_PTRACE: supervise,
		unix.SYS_MOUNT: forbid, unix.SYS_OPEN_BY_HANDLE_AT: forbid, unix.SYS_OPENAT2: unknown, unix.SYS_IO_URING_SETUP: unknown,
	} {
		if got, ok := calls[nr]; !ok || got != want {
			t.Errorf("call %d has the rule %d (%t), want %d", nr, got, ok, want)
		}
	}
}
