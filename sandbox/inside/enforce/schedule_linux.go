package enforce

import "golang.org/x/sys/unix"

// Who a priority is of (ioprio_set(2)); those of setpriority(2) begin with 0.
const (
	ioPrioProcess = 1
	ioPrioUser    = 3
)

// priorityCalls are by a kind of whom, and a number, and have first and last kinds.
func priorityCalls() []struct{ nr, first, last uint32 } {
	return []struct{ nr, first, last uint32 }{
		{unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, unix.PRIO_USER}, {unix.SYS_IOPRIO_SET, ioPrioProcess, ioPrioUser},
	}
}

// schedulingCalls have the number of a process or thread.
func schedulingCalls() []uint32 {
	return []uint32{unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR}
}

// scheduleBlocks ask about when others run: the Guard, and who kills what is inside, may
// have the same user, and would hardly run any more on a busy machine.
func (p *program) scheduleBlocks() {
	const self = 0 // also its own group
	for _, nr := range schedulingCalls() {
		p.add(equal, nr, 0, 4)
		p.add(load, offsetArg(0), 0, 0)
		p.add(equal, self, 0, 1)
		p.ret(unix.SECCOMP_RET_ALLOW)
		p.ret(unix.SECCOMP_RET_USER_NOTIF)
	}
	for _, c := range priorityCalls() {
		p.add(equal, c.nr, 0, 6)
		p.add(load, offsetArg(0), 0, 0)
		p.add(equal, c.last, 3, 0)
		p.add(load, offsetArg(1), 0, 0)
		p.add(equal, self, 0, 1)
		p.ret(unix.SECCOMP_RET_ALLOW)
		p.ret(unix.SECCOMP_RET_USER_NOTIF)
	}
}

// schedule is schedulingCalls.
func (t *task) schedule() answer { return t.touch(int(int32(t.arg(0)))) }

// prioritize is priorityCalls. A group has the number of its leader; one that it has
// outlived, and the user, who may be the Guard's, have no priority of their own.
func (t *task) prioritize(first, last uint32) answer {
	kind, who := uint32(t.arg(0)), int(int32(t.arg(1)))
	switch {
	case kind < first || kind > last: // which is none
		return done(unix.EINVAL)
	case kind == last:
		return done(unix.EPERM)
	case who == 0:
		return proceed()
	}
	return t.touch(who)
}
