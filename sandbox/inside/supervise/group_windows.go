package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"gander.dev/gander/sandbox"
)

// killedCode is the exit code of what is killed.
const killedCode = 128 + 9

// job is a command's job object. Nothing leaves a job, and closing its last
// handle, which the end of S does in any case, kills what is in it.
type job struct {
	handle windows.Handle
	leader *os.Process
}

func startGroup(cmd *exec.Cmd) (group, error) {
	line, err := commandLine(cmd)
	if err != nil {
		return nil, err
	}
	handle, err := newJob()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW,
		CmdLine:       line,
	}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(handle)
		return nil, err
	}
	if err := adopt(handle, uint32(cmd.Process.Pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = windows.CloseHandle(handle)
		return nil, err
	}
	return &job{handle, cmd.Process}, nil
}

// commandLine is for cmd.exe, which takes its command line as it is and knows nothing
// of the usual quoting; empty leaves the usual. Of a batch file, which Windows would have
// cmd.exe run with that usual quoting, the command becomes one of cmd.exe's.
func commandLine(cmd *exec.Cmd) (string, error) {
	cmd.Path = withExtension(cmd.Path, cmd.Dir)
	switch {
	case len(cmd.Args) == 0:
		return "", nil
	case strings.EqualFold(filepath.Base(cmd.Path), "cmd.exe"):
		return syscall.EscapeArg(cmd.Path) + " " + strings.Join(cmd.Args[1:], " "), nil
	case !isBatch(cmd.Path):
		return "", nil
	}
	system, err := windows.GetSystemDirectory()
	if err != nil {
		return "", fmt.Errorf("looking for cmd.exe: %w", err)
	}
	line, err := batchLine(cmd.Path, cmd.Args[1:])
	cmd.Path = filepath.Join(system, "cmd.exe")
	return line, err
}

// withExtension is the file that os/exec would find at a path that may lack its extension:
// it may be a batch file.
func withExtension(path, dir string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if found, err := exec.LookPath(path); err == nil {
		return found
	}
	return path
}

func newJob() (windows.Handle, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("making a job object: %w", err)
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		_ = windows.CloseHandle(handle)
		return 0, fmt.Errorf("configuring a job object: %w", err)
	}
	return handle, nil
}

// adopt puts a suspended process into a job and lets it run.
func adopt(handle windows.Handle, pid uint32) error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return fmt.Errorf("opening the new process: %w", err)
	}
	defer func() { _ = windows.CloseHandle(p) }()
	if err := windows.AssignProcessToJobObject(handle, p); err != nil {
		return fmt.Errorf("putting the new process into its job: %w", err)
	}
	return resume(pid)
}

// resume lets the only thread of a process run.
func resume(pid uint32) error {
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("listing threads: %w", err)
	}
	defer func() { _ = windows.CloseHandle(list) }()
	var e windows.ThreadEntry32
	e.Size = uint32(unsafe.Sizeof(e))
	for err = windows.Thread32First(list, &e); err == nil; err = windows.Thread32Next(list, &e) {
		if e.OwnerProcessID != pid {
			continue
		}
		t, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, e.ThreadID)
		if err != nil {
			return fmt.Errorf("opening the new process's thread: %w", err)
		}
		defer func() { _ = windows.CloseHandle(t) }()
		if _, err := windows.ResumeThread(t); err != nil {
			return fmt.Errorf("resuming the new process: %w", err)
		}
		return nil
	}
	return fmt.Errorf("finding the new process's thread: %w", err)
}

// signal knows INT, as a Ctrl-Break that the program may handle, and the ends.
func (j *job) signal(name string) error {
	switch name {
	case "INT":
		return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(j.leader.Pid))
	case "TERM", "KILL", "HUP":
		return windows.TerminateJobObject(j.handle, killedCode)
	}
	return fmt.Errorf("there is no signal %q on this system", name)
}

// processIDs is JOBOBJECT_BASIC_PROCESS_ID_LIST with room.
type processIDs struct {
	assigned, listed uint32
	ids              [4096]uintptr
}

func (j *job) members() (found []proc) {
	var list processIDs
	err := windows.QueryInformationJobObject(j.handle, windows.JobObjectBasicProcessIdList,
		uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil && !errors.Is(err, windows.ERROR_MORE_DATA) {
		return nil
	}
	for _, id := range list.ids[:min(int(list.listed), len(list.ids))] {
		if start, err := ProcessStart(int(id)); err == nil {
			found = append(found, proc{procID: procID{int(id), start}})
		}
	}
	return found
}

func (j *job) terminate() { _ = windows.TerminateJobObject(j.handle, killedCode) }

func (j *job) cull(spare func(proc) bool) (killed []proc) {
	for _, p := range j.members() {
		if !spare(p) {
			killProc(p.procID)
			killed = append(killed, p)
		}
	}
	return killed
}

func (j *job) close() { _ = windows.CloseHandle(j.handle) }

func killProc(p procID) {
	h, err := windows.OpenProcess(windows.PROCESS_TERMINATE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(p.pid))
	if err != nil {
		return
	}
	defer func() { _ = windows.CloseHandle(h) }()
	if start, err := startOf(h); err == nil && start == p.start {
		_ = windows.TerminateProcess(h, killedCode)
	}
}

// ProcessStart says when a process began, in units of the operating system. With
// the process id it names a process for all time. An error means that there is
// no such process.
func ProcessStart(pid int) (uint64, error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return 0, fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	if event, err := windows.WaitForSingleObject(h, 0); err == nil && event == windows.WAIT_OBJECT_0 {
		return 0, errNoProcess
	}
	return startOf(h)
}

func startOf(h windows.Handle) (uint64, error) {
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return 0, fmt.Errorf("reading a process's times: %w", err)
	}
	return uint64(created.Nanoseconds()), nil
}

func mayExecute(string) bool { return true }

func exitStatus(s *os.ProcessState) sandbox.ExitStatus {
	st := sandbox.ExitStatus{Code: s.ExitCode(), Usage: sandbox.Usage{User: s.UserTime(), System: s.SystemTime()}}
	if st.Code == killedCode {
		st.Signal = "KILL"
	}
	return st
}
