package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
)

// shepherdRequest is what S asks of a shepherd. Three descriptors come with run.
type shepherdRequest struct {
	Method string `json:"method"` // run, signal, kill
	Run    uint64 `json:"run"`
	Args   octets `json:"args,omitempty"`
	Env    octets `json:"env,omitempty"`
	Dir    string `json:"dir,omitempty"`
	Signal int    `json:"signal,omitempty"`
}

// shepherdEvent is what it tells: started or failed in answer to run, then
// exited and empty.
type shepherdEvent struct {
	Event  string             `json:"event"`
	Run    uint64             `json:"run"`
	PID    int                `json:"pid,omitempty"`
	Error  *wireError         `json:"error,omitempty"`
	Status sandbox.ExitStatus `json:"status,omitzero"`
}

// shepherd runs one command at a time and knows when nothing of it is left: as
// the subreaper it inherits every orphan below it, so no children means none at all.
type shepherd struct {
	conn *fdConn

	// mu guards the fields below; a process is reaped only while it is held, so
	// that a signal cannot hit a reused number.
	mu     sync.Mutex
	run    uint64
	leader int           // 0 when it has been reaped
	group  int           // its process group
	empty  chan struct{} // closed when the run has no process left; nil before the first
	sweeps sync.WaitGroup
}

func serveShepherd(conn *fdConn) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a subreaper: %w", err)
	}
	s := &shepherd{conn: conn}
	for {
		var req shepherdRequest
		fds, err := conn.receive(&req)
		if err != nil {
			s.mu.Lock()
			empty := s.empty
			s.mu.Unlock()
			if empty != nil {
				s.sweep(empty)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		s.handle(req, fds)
		closeFDs(fds)
	}
}

func (s *shepherd) handle(req shepherdRequest, fds []int) {
	switch req.Method {
	case "run":
		s.start(req, fds)
	case "signal":
		s.signal(req.Run, syscall.Signal(req.Signal))
	case "kill":
		s.kill(req.Run)
	}
}

// kill begins to sweep the run, if it is the current one.
func (s *shepherd) kill(run uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == run && s.empty != nil {
		empty := s.empty
		s.sweeps.Go(func() { s.sweep(empty) })
	}
}

func (s *shepherd) start(req shepherdRequest, fds []int) {
	pid, err := forkExec(req, fds)
	if err != nil {
		_ = s.conn.send(shepherdEvent{Event: "failed", Run: req.Run, Error: toWireError(err)})
		return
	}
	empty := make(chan struct{})
	s.mu.Lock()
	s.run, s.leader, s.group, s.empty = req.Run, pid, pid, empty
	s.mu.Unlock()
	_ = s.conn.send(shepherdEvent{Event: "started", Run: req.Run, PID: pid})
	go s.reap(req.Run, pid, empty) // ends when the run is empty
}

func forkExec(req shepherdRequest, fds []int) (int, error) {
	if len(fds) != 3 {
		return 0, fmt.Errorf("got %d descriptors, not 3", len(fds))
	}
	if err := unix.Access(req.Dir, unix.X_OK); err != nil {
		return 0, fmt.Errorf("entering the working directory %s: %w", req.Dir, err)
	}
	path, err := lookPath(req.Args[0], req.Env, req.Dir)
	if err != nil {
		return 0, err
	}
	for _, fd := range fds { // the supervisor's ends do not block, these must
		_ = unix.SetNonblock(fd, false)
	}
	pid := 0
	err = withSlack(commandSlack, func() (err error) {
		pid, err = syscall.ForkExec(path, req.Args, &syscall.ProcAttr{
			Dir: req.Dir, Env: req.Env, Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2])},
			Sys: &syscall.SysProcAttr{Setsid: true},
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("running %s: %w", path, err)
	}
	return pid, nil
}

// reap collects every process that ends below the shepherd, until none is left.
func (s *shepherd) reap(run uint64, leader int, empty chan struct{}) {
	for {
		pid, ws, usage, err := s.reapOne()
		if err != nil {
			break
		}
		if pid == leader {
			_ = s.conn.send(shepherdEvent{Event: "exited", Run: run, Status: exitStatus(ws, usage)})
		}
	}
	s.mu.Lock()
	s.run = 0 // no further sweep may begin
	s.mu.Unlock()
	close(empty)
	s.sweeps.Wait() // nor reach into the next run
	_ = s.conn.send(shepherdEvent{Event: "empty", Run: run})
}

func (s *shepherd) reapOne() (pid int, ws unix.WaitStatus, usage unix.Rusage, err error) {
	err = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
	}
	if err != nil {
		return 0, ws, usage, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err = unix.Wait4(-1, &ws, unix.WNOHANG|unix.WALL, &usage)
	if pid == s.leader {
		s.leader = 0
	}
	return pid, ws, usage, err
}

// signal reaches the command's process group, also when its leader has gone.
func (s *shepherd) signal(run uint64, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != run {
		return
	}
	if s.leader != 0 {
		_ = unix.Kill(-s.group, sig)
		return
	}
	look(os.Getpid(), snapshot{}, func(p proc) {
		if p.group == s.group {
			signalProc(p.procID, sig)
		}
	})
}

// sweep kills what is below the shepherd until nothing is left.
func (s *shepherd) sweep(empty chan struct{}) {
	self := os.Getpid()
	for pass := 0; ; pass++ {
		look(self, snapshot{}, func(p proc) { killProc(p.procID) })
		select {
		case <-empty:
			return
		default:
			_ = pause(context.Background(), pass)
		}
	}
}

func exitStatus(ws unix.WaitStatus, u unix.Rusage) sandbox.ExitStatus {
	st := sandbox.ExitStatus{Code: ws.ExitStatus(), Usage: sandbox.Usage{
		User: time.Duration(u.Utime.Nano()), System: time.Duration(u.Stime.Nano()), MaxRSS: u.Maxrss << 10,
	}}
	if ws.Signaled() {
		st.Code = 128 + int(ws.Signal())
		st.Signal = strings.TrimPrefix(unix.SignalName(ws.Signal()), "SIG")
	}
	return st
}
