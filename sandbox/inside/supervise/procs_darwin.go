package supervise

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// States of sys/proc.h.
const (
	stopped = 4 // SSTOP
	zombie  = 5 // SZOMB
)

// allProcs reads every process of the machine.
func allProcs() ([]proc, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	all := make([]proc, 0, len(list))
	for i := range list {
		all = append(all, toProc(&list[i]))
	}
	return all, nil
}

func toProc(k *unix.KinfoProc) proc {
	return proc{
		procID: procID{int(k.Proc.P_pid), startOf(k)},
		parent: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid),
		dead: k.Proc.P_stat == zombie, stopped: k.Proc.P_stat == stopped,
	}
}

func startOf(k *unix.KinfoProc) uint64 {
	return uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)
}

// ProcessStart says when a process began, in units of the operating system. With
// the process id it names a process for all time. An error means that there is
// no such process; one that has ended and was not waited for counts as none.
func ProcessStart(pid int) (uint64, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	if p := toProc(k); p.dead || p.pid != pid {
		return 0, errNoProcess
	}
	return startOf(k), nil
}

func maxRSS(u *syscall.Rusage) int64 { return u.Maxrss } // bytes here
