package enforce

import (
	"golang.org/x/sys/unix"
)

// rule is what the filter does with a system call.
type rule uint8

const (
	supervise rule = iota // the Guard decides
	forbid                // EPERM
	unknown               // ENOSYS: programs fall back to a call that is supervised
)

// call is a row of the table: a system call, what the filter does with it and,
// for supervised ones, what the Guard does.
type call struct {
	name string
	nr   uintptr
	rule rule
	do   func(*task) answer
}

// namespaces are the flags of clone and unshare that make new namespaces.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// tmpfile is the bit of O_TMPFILE that O_DIRECTORY does not have.
const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY

// socketTypes are the bits of a socket's type that are not flags.
const socketTypes = 0xf

// Offsets in struct seccomp_data; of an argument, the low word, which is where
// both architectures have every flag.
const (
	offsetNr   = 0
	offsetArch = 4
)

func offsetArg(i int) uint32 { return uint32(16 + 8*i) }

// program collects classic BPF instructions.
type program []unix.SockFilter

const (
	load     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	equal    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	atMost   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	hasAny   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	maskWith = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	result   = unix.BPF_RET | unix.BPF_K
)

func (p *program) add(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func (p *program) ret(k uint32) { p.add(result, k, 0, 0) }

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// results of the rules.
func (r rule) result() uint32 {
	switch r {
	case forbid:
		return errno(unix.EPERM)
	case unknown:
		return errno(unix.ENOSYS)
	}
	return unix.SECCOMP_RET_USER_NOTIF
}

// program returns what Install loads. It is made of independent blocks,
// each for one system call: compare the number, else jump over the block.
func (o Filter) program() program {
	var p program
	p.add(load, offsetArch, 0, 0)
	p.add(equal, auditArch, 1, 0)
	p.ret(errno(unix.ENOSYS)) // another architecture's calls have other numbers
	p.add(load, offsetNr, 0, 0)
	p.add(atMost, newestCall+1, 0, 1) // x32's, too
	p.ret(errno(unix.ENOSYS))
	for _, c := range openCalls() {
		p.openBlock(c.nr, c.flags)
	}
	for _, c := range o.table() {
		p.add(equal, uint32(c.nr), 0, 1)
		p.ret(c.rule.result())
	}
	p.flagBlock(unix.SYS_UNSHARE, namespaces)
	p.flagBlock(unix.SYS_CLONE, namespaces&^unix.CLONE_NEWTIME) // clone has a signal number there
	if !o.Machine {
		p.socketBlock(unix.SYS_SOCKET)
		p.socketBlock(unix.SYS_SOCKETPAIR)
	}
	p.dumpableBlock()
	p.limitBlock()
	p.scheduleBlocks()
	p.ioctlBlock()
	p.leaseBlock()
	p.ret(unix.SECCOMP_RET_ALLOW)
	return p
}

// openBlock supervises opening, except of what yields no contents: an O_PATH
// descriptor, or a directory, can only be turned into contents by another open.
func (p *program) openBlock(nr uintptr, flags int) {
	p.add(equal, uint32(nr), 0, 6)
	p.add(load, offsetArg(flags), 0, 0)
	p.add(hasAny, unix.O_PATH, 2, 0)
	p.add(hasAny, unix.O_CREAT|tmpfile, 2, 0)
	p.add(hasAny, unix.O_DIRECTORY, 0, 1)
	p.ret(unix.SECCOMP_RET_ALLOW)
	p.ret(unix.SECCOMP_RET_USER_NOTIF)
}

// flagBlock forbids a call whose first argument has any of the flags.
func (p *program) flagBlock(nr uintptr, flags uint32) {
	p.add(equal, uint32(nr), 0, 4)
	p.add(load, offsetArg(0), 0, 0)
	p.add(hasAny, flags, 0, 1)
	p.ret(errno(unix.EPERM))
	p.ret(unix.SECCOMP_RET_ALLOW)
}

// The families and protocols of sockets that there are inside. Others, such as vsock
// and the kernel's crypto, lead past the network namespace or deep into the kernel.
const (
	netlinkDiag   = 4  // of what is in the namespace: ss
	netlinkEvents = 15 // of devices: udev's library
)

// socketBlock lets sockets of the usual families be made. A UNIX datagram socket
// would reach a listener of the host's in the project by sendmsg, whose address is in
// memory; stream sockets have to connect, which the Guard carries out.
func (p *program) socketBlock(nr uintptr) {
	p.add(equal, uint32(nr), 0, 17)
	p.add(load, offsetArg(0), 0, 0)
	p.add(equal, unix.AF_INET, 13, 0)
	p.add(equal, unix.AF_INET6, 12, 0)
	p.add(equal, unix.AF_NETLINK, 7, 0)
	p.add(equal, unix.AF_UNIX, 1, 0)
	p.ret(errno(unix.EAFNOSUPPORT))
	p.add(load, offsetArg(1), 0, 0)
	p.add(maskWith, socketTypes, 0, 0)
	p.add(equal, unix.SOCK_DGRAM, 1, 0)
	p.add(equal, unix.SOCK_RAW, 0, 5) // which is a datagram socket, too
	p.ret(errno(unix.EPROTONOSUPPORT))
	p.add(load, offsetArg(2), 0, 0)
	p.add(equal, unix.NETLINK_ROUTE, 2, 0)
	p.add(equal, netlinkDiag, 1, 0)
	p.add(equal, netlinkEvents, 0, 1)
	p.ret(unix.SECCOMP_RET_ALLOW)
	p.ret(errno(unix.EPROTONOSUPPORT))
}

// dumpableBlock asks about prctl(PR_SET_DUMPABLE, 0): a Guard without privileges
// cannot read the arguments of a process that is not dumpable.
func (p *program) dumpableBlock() {
	p.add(equal, unix.SYS_PRCTL, 0, 6)
	p.add(load, offsetArg(0), 0, 0)
	p.add(equal, unix.PR_SET_DUMPABLE, 0, 3)
	p.add(load, offsetArg(1), 0, 0)
	p.add(equal, 0, 0, 1)
	p.ret(unix.SECCOMP_RET_USER_NOTIF)
	p.ret(unix.SECCOMP_RET_ALLOW)
}

// limitBlock asks about new limits of a process by its number: the Guard has the same
// user as who asks, and would run out of descriptors. It asks about that of core dumps, too,
// and has the older call do nothing there: 1 keeps them also from a program of the machine's
// that the kernel pipes them to (core(5)), and 0, which everybody may set, does not.
func (p *program) limitBlock() {
	p.add(equal, unix.SYS_SETRLIMIT, 0, 4)
	p.add(load, offsetArg(0), 0, 0)
	p.add(equal, unix.RLIMIT_CORE, 0, 1)
	p.ret(errno(0))
	p.ret(unix.SECCOMP_RET_ALLOW)
	p.add(equal, unix.SYS_PRLIMIT64, 0, 10)
	p.add(load, offsetArg(2), 0, 0)
	p.add(equal, 0, 0, 2)
	p.add(load, offsetArg(2)+4, 0, 0)
	p.add(equal, 0, 5, 0) // none new
	p.add(load, offsetArg(0), 0, 0)
	p.add(equal, 0, 0, 2) // the caller's own
	p.add(load, offsetArg(1), 0, 0)
	p.add(equal, unix.RLIMIT_CORE, 0, 1)
	p.ret(unix.SECCOMP_RET_USER_NOTIF)
	p.ret(unix.SECCOMP_RET_ALLOW)
}

// setDelegation is F_SETDELEG, which is newer than x/sys.
const setDelegation = 1024 + 16

// leaseBlock answers for leases and delegations as a file system without them does:
// who opens a file waits for the one that holds its lease, and programs outside would.
func (p *program) leaseBlock() {
	p.add(equal, unix.SYS_FCNTL, 0, 5)
	p.add(load, offsetArg(1), 0, 0)
	p.add(equal, unix.F_SETLEASE, 1, 0)
	p.add(equal, setDelegation, 0, 1)
	p.ret(errno(unix.EINVAL))
	p.ret(unix.SECCOMP_RET_ALLOW)
}
