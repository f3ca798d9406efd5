package enforce

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// machineCalls concern the machine, its network and its users, and open no files: with
// Filter.Machine they are the caller's own affair.
func machineCalls() []uintptr {
	return []uintptr{
		unix.SYS_CONNECT, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY,
		unix.SYS_CLOCK_SETTIME, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_REBOOT,
	}
}

// userCalls change who a caller is, or what it may.
func userCalls() []call {
	var calls []call
	for name, nr := range map[string]uintptr{
		"setuid": unix.SYS_SETUID, "setgid": unix.SYS_SETGID, "setreuid": unix.SYS_SETREUID, "setregid": unix.SYS_SETREGID,
		"setresuid": unix.SYS_SETRESUID, "setresgid": unix.SYS_SETRESGID, "setfsuid": unix.SYS_SETFSUID, "setfsgid": unix.SYS_SETFSGID,
		"setgroups": unix.SYS_SETGROUPS, "capset": unix.SYS_CAPSET,
	} {
		calls = append(calls, call{name: name, nr: nr, rule: supervise, do: (*task).changeUser})
	}
	return calls
}

// changeUser lets the caller become somebody else. From now on each call is carried out as
// whoever makes it.
func (t *task) changeUser() answer {
	t.g.users.Store(true)
	return proceed()
}

// rights are those of a caller, as /proc/PID/status has them.
type rights struct{ uid, gid, groups, capabilities string }

func rightsOf(thread string) (r rights, ok bool) {
	status, err := os.ReadFile("/proc/" + thread + "/status")
	if err != nil {
		return r, false
	}
	last := func(field string) string { // of real, effective, saved and file system's
		all := strings.Fields(statusField(status, field))
		if len(all) == 0 {
			return ""
		}
		return all[len(all)-1]
	}
	r = rights{last("Uid:"), last("Gid:"), statusField(status, "Groups:"), last("CapEff:")}
	return r, r.uid != "" && r.gid != "" && r.capabilities != ""
}

// become gives the worker's thread the rights of the caller, or those of the process
// while nobody has others.
func (w *worker) become(t *task) unix.Errno {
	if !t.g.users.Load() {
		return 0
	}
	r, ok := rightsOf(decimal(t.tid))
	if ok && w.as == (rights{}) {
		w.as, _ = rightsOf("thread-self")
	}
	switch {
	case !ok:
		return unix.EACCES
	case r == w.as: // an ordinary user's programs become nobody else
		return 0
	}
	w.as = rights{}
	if err := r.take(); err != nil {
		t.g.o.Log.Error("a call cannot be carried out as the user that makes it", "error", err)
		return unix.EACCES
	}
	w.as = r
	return 0
}

// take changes the thread's rights on files. What it needs to change them again and to read
// callers stays.
func (r rights) take() error {
	uid, err := strconv.ParseUint(r.uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(r.gid, 10, 32)
	if err != nil {
		return err
	}
	theirs, err := strconv.ParseUint(r.capabilities, 16, 64)
	if err != nil {
		return err
	}
	var groups []uint32
	for g := range strings.FieldsSeq(r.groups) {
		n, err := strconv.ParseUint(g, 10, 32)
		if err != nil {
			return err
		}
		groups = append(groups, uint32(n))
	}
	if err := effective(^uint64(0)); err != nil {
		return err
	}
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	// Of this thread only.
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); e != 0 {
		return fmt.Errorf("setgroups: %w", e)
	}
	for _, c := range []struct{ nr, id uintptr }{{unix.SYS_SETFSGID, uintptr(gid)}, {unix.SYS_SETFSUID, uintptr(uid)}} {
		_, _, _ = unix.RawSyscall(c.nr, c.id, 0, 0) // says what there was
		if is, _, _ := unix.RawSyscall(c.nr, ^uintptr(0), 0, 0); is != c.id {
			return fmt.Errorf("the file system's id is %d, not %d", is, c.id)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // which another user may have changed
		return err
	}
	return effective(theirs | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SYS_PTRACE)
}

// effective makes those of a set of capabilities effective that the thread has.
func effective(set uint64) error {
	have, err := capabilities()
	if err != nil {
		return err
	}
	have[0].Effective, have[1].Effective = have[0].Permitted&uint32(set), have[1].Permitted&uint32(set>>32)
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &have[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// Try tells why no Guard can work here; nil when one should. Other than Supported it loads a
// filter, into a thread that ends with it.
func Try() error {
	if err := Supported(); err != nil {
		return err
	}
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && len(scope) > 0 && scope[0] >= '2' && !capability(unix.CAP_SYS_PTRACE) {
		return fmt.Errorf("%w: kernel.yama.ptrace_scope is %c, so that a supervisor cannot read the paths of what it supervises; set it to 1", ErrUnsupported, scope[0])
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		if unix.Gettid() == unix.Getpid() {
			// The first thread stays as long as the process: another is to be taken.
			other := make(chan error)
			go func() {
				runtime.LockOSThread()
				other <- try()
			}()
			done <- <-other
			runtime.UnlockOSThread()
			return
		}
		done <- try()
	}()
	return <-done
}

func try() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	var p program
	p.ret(unix.SECCOMP_RET_ALLOW)
	listener, err := install(p)
	if err != nil {
		return err
	}
	return unix.Close(listener)
}
