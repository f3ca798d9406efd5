package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/inside/supervise"
)

// processPlan says how the supervisor's process is made.
type processPlan struct {
	namespaces bool
	// users and groups are mapped to themselves; nobody else exists inside.
	users, groups []int
}

func (p plan) isolated() bool { return p.process.namespaces }

const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

func (p processPlan) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if !p.namespaces {
		// Its stream ends with us too, and then it kills what runs; killed itself it
		// could not, while a shepherd is dead that somebody killed. But it must not be
		// stopped.
		attr.Pdeathsig = syscall.SIGCONT
		return attr
	}
	attr.Cloneflags = namespaces
	attr.UidMappings, attr.GidMappings = mapped(p.users), mapped(p.groups)
	// The kernel permits dropping groups only in a namespace made by root.
	attr.GidMappingsEnableSetgroups = os.Geteuid() == 0
	if os.Geteuid() != 0 {
		// Executing the supervisor would take the capabilities away from any other
		// user than 0. It gives them up itself before anything else runs. By the last two it
		// looks for closed files also where their owner may not, and sets the namespace's bounds.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_RESOURCE}
	}
	return attr
}

func mapped(ids []int) (m []syscall.SysProcIDMap) {
	for _, id := range ids {
		m = append(m, syscall.SysProcIDMap{ContainerID: id, HostID: id, Size: 1})
	}
	return m
}

// startSupervisor starts a supervisor, within bounds, and returns the host's end of its
// stream, and of how many groups it has the entrances.
func (d *Driver) startSupervisor(p plan, within *bounds, stderr io.Writer) (proc *supervisorProcess, conn io.ReadWriteCloser, groups int, err error) {
	conn, theirs, err := supervise.NewLocalConn()
	if err != nil {
		return nil, nil, 0, fmt.Errorf("connecting to the supervisor: %w", err)
	}
	defer func() { _ = theirs.Close() }()
	proc, groups, err = within.start(func(entrances []*os.File, group *os.File) (*supervisorProcess, error) {
		cmd := command(p.exe, supervise.Verb, stderr)
		cmd.Stdin, cmd.Stdout = theirs.Stdin, theirs.Stdout
		cmd.ExtraFiles = append([]*os.File{theirs.Handover}, entrances...)
		small, err := program()
		if err != nil {
			d.log.Debug("the whole of gander is the supervisor: it starts more slowly", "error", err)
		}
		if small != nil && d.options.Executable == "" {
			hand(cmd, small)
		}
		cmd.SysProcAttr = p.process.attributes()
		if group != nil {
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
		}
		return run(cmd)
	})
	if err != nil {
		_ = conn.Close()
		refused := p.process.namespaces && namespaceRefused(err)
		if path, ok := errors.AsType[*fs.PathError](err); ok && refused {
			err = path.Err // what was started is beside the point, and may have no name
		}
		err = fmt.Errorf("starting the supervisor: %w", err)
		if refused {
			err = &refusal{err}
		}
		return nil, nil, 0, err
	}
	return proc, conn, groups, nil
}

func namespaceRefused(err error) bool {
	for _, e := range []error{unix.EPERM, unix.ENOSPC, unix.EINVAL, unix.ENOSYS, unix.EACCES, unix.EUSERS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// sweep has nothing to do: a supervisor's commands end with it (supervise), also by force.
func sweep(int) error { return nil }
