package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// readProc reads one process; an error means that there is none.
func readProc(pid int) (p proc, err error) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, err
	}
	// The name is in parentheses and may contain anything.
	_, rest, ok := bytes.Cut(line[max(bytes.LastIndexByte(line, ')'), 0):], []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return p, fmt.Errorf("reading process %d: unexpected %q", pid, line)
	}
	p.pid = pid
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.group, _ = strconv.Atoi(string(fields[2]))
	p.start, _ = strconv.ParseUint(string(fields[19]), 10, 64)
	switch fields[0][0] {
	case 'Z', 'X', 'x':
		// The state is that of the first thread. The others may go on, for good or
		// until they have been killed too; children may be theirs.
		threads, _ := strconv.Atoi(string(fields[17]))
		p.dead = threads <= 1
		p.stopped = !p.dead && othersStopped(pid)
	case 'T', 't':
		p.stopped = true
	case 'D':
		p.waiting = true
	}
	return p, nil
}

// othersStopped says whether all threads of a process are stopped but the first,
// which has ended.
func othersStopped(pid int) bool {
	states, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil {
		return false
	}
	for _, name := range states {
		line, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(line[max(bytes.LastIndexByte(line, ')'), 0):], []byte(") "))
		if len(rest) == 0 || !bytes.ContainsAny(rest[:1], "TtZXx") {
			return false
		}
	}
	return true
}

// survey is a look at the processes below one.
type survey struct {
	live []proc
	// churn says that a process ended during the look, so that a child of it may
	// have been missed.
	churn bool
	// ghosts are the dead that were met in this look or in those before.
	ghosts snapshot
	// err is why there may be more: something could not be read, and not for having ended.
	err error
}

// ended reports whether an error of /proc means that the process is there no more.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// look visits every live process below root as it is found, parents first. A
// process is the child either of one that is met or of one that ends meanwhile,
// which is then reported as churn. The dead of earlier looks are no churn.
func look(root int, ghosts snapshot, visit func(proc)) survey {
	s := survey{ghosts: ghosts}
	s.below(root, visit)
	return s
}

func (s *survey) below(pid int, visit func(proc)) {
	list, err := children(pid)
	if err != nil {
		s.err = err
	}
	for _, child := range list {
		p, ok := s.read(child)
		if !ok {
			continue
		}
		s.live = append(s.live, p)
		visit(p)
		s.below(child, visit)
		s.read(child) // its children were complete if it still lives
	}
}

func (s *survey) read(pid int) (proc, bool) {
	p, err := readProc(pid)
	if err != nil {
		s.churn = true
		if !ended(err) {
			s.err = err
		}
		return p, false
	}
	if _, known := s.ghosts[p.procID]; p.dead && !known {
		s.ghosts[p.procID] = struct{}{}
		s.churn = true
	}
	return p, !p.dead
}

// children lists the children of every thread of a process; one that has ended has none.
func children(pid int) (pids []int, err error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, err := os.ReadDir(dir)
	if err != nil && !ended(err) {
		return nil, fmt.Errorf("listing the threads of process %d: %w", pid, err)
	}
	for _, t := range tasks {
		list, err := os.ReadFile(dir + "/" + t.Name() + "/children")
		if err != nil && !ended(err) {
			return pids, fmt.Errorf("listing the children of process %d: %w", pid, err)
		}
		for f := range bytes.FieldsSeq(list) {
			if child, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids, nil
}

// processOf is the process that a number of /proc belongs to: threads have entries
// there, too, which no list shows.
func processOf(id int) (int, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("\nTgid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return strconv.Atoi(string(bytes.TrimSpace(line)))
}

// killProc sends SIGKILL to exactly this process, and to no later one of the
// same number. False means that it may not: a set-uid program has made it another user's.
func killProc(p procID) (may bool) { return signalProc(p, unix.SIGKILL) }

func signalProc(p procID, sig unix.Signal) (may bool) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	switch {
	case err == nil:
	case ended(err), errors.Is(err, unix.EINVAL): // no process's number any more
		return true
	default: // no such call, or no descriptor left
		return !errors.Is(unix.Kill(p.pid, sig), unix.EPERM)
	}
	defer func() { _ = unix.Close(fd) }()
	if now, err := readProc(p.pid); err == nil && now.procID == p {
		return !errors.Is(unix.PidfdSendSignal(fd, sig, nil, 0), unix.EPERM)
	}
	return true
}

// harmful are the signals that end or stop a Go program which has not asked for them;
// the others do nothing to it (os/signal, "Default behavior of signals in Go programs").
// SIGPIPE is one because of stderr, which nobody may read any more.
// Each that is asked for costs two switches of threads, and all of them as long as a fifth of
// the start of the program.
func harmful() []os.Signal {
	return append(usual(),
		unix.SIGABRT, unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
}

// usual are those of them that programs send to all that they may. They are enough for L and
// the shepherds: who sends another one to these could send SIGKILL or SIGSTOP, too.
func usual() []os.Signal {
	return []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE}
}
