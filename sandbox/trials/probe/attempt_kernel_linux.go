package probe

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAttempts are about namespaces, mounts, privileges and unusual calls.
func kernelAttempts() map[string]attempt {
	all := map[string]attempt{
		"unshare": unshare, "clone": cloneInto, "setns": enter, "call": callKernel,
		"read-system": readSystem, "open-to-write": openToWrite,
		"oom-score":   through(func(Facts) error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-999"), 0) }),
		"disk-node":   through(func(f Facts) error { return node(f.Dir+"/disk", unix.S_IFBLK, diskNumber()) }),
		"memory-node": through(func(f Facts) error { return node(f.Dir+"/memory", unix.S_IFCHR, int(unix.Mkdev(1, 1))) }),
		"dev-mem":     through(func(Facts) error { return openFile("/dev/mem", unix.O_RDONLY) }),
		"dev-kmsg":    through(func(Facts) error { return openFile("/dev/kmsg", unix.O_RDONLY) }),
		"setuid-file": setUserID, "file-capabilities": through(fileCapabilities), "nested-listener": through(nestedListener),
	}
	for _, more := range []map[string]attempt{
		apart("clone3", cloneThree), apart("mount tmpfs", mountOf("tmpfs")), apart("mount proc", mountOf("proc")), apart("mount sysfs", mountOf("sysfs")),
		apart("mount cgroup", func(f Facts) ([]byte, error) {
			if _, err := mountOf("cgroup2")(f); err == nil {
				return nil, nil
			}
			return mountOf("cgroup")(f)
		}),
		apart("remount", func(f Facts) ([]byte, error) {
			return nil, unix.Mount("", "/proc", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID, "")
		}),
		apart("umount", func(f Facts) ([]byte, error) {
			if f.Outside { // something of its own to unmount
				if _, err := mountOf("tmpfs")(f); err != nil {
					return nil, err
				}
				return nil, unix.Unmount(f.Dir+"/sub", unix.MNT_DETACH)
			}
			return nil, errors.Join(unix.Unmount("/proc/sys", unix.MNT_DETACH), unix.Unmount("/tmp", unix.MNT_DETACH))
		}),
		apart("pivot_root", pivot), apart("fsopen", fileSystem), apart("move_mount", moveMount), apart("mount_setattr", mountAttributes),
		apart("sethostname", func(Facts) ([]byte, error) { return nil, unix.Sethostname([]byte("probe")) }),
		apart("setdomainname", func(Facts) ([]byte, error) { return nil, unix.Setdomainname([]byte("probe")) }),
	} {
		maps.Copy(all, more)
	}
	return all
}

func namespaceFlag(kind string) int {
	return map[string]int{
		"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
	}[kind]
}

func unshare(_ Facts, args []string) ([]byte, error) {
	return nil, locked(func() error { return unix.Unshare(namespaceFlag(args[0])) })
}

func cloneInto(f Facts, args []string) ([]byte, error) {
	cmd := exec.Command("/proc/self/exe", Verb, "victim", "{}")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(namespaceFlag(args[0]))}
	return nil, cmd.Run()
}

func enter(_ Facts, args []string) ([]byte, error) {
	err := errors.New("no process's namespace could be opened")
	for _, pid := range []string{"1", "self"} {
		fd, openErr := unix.Open("/proc/"+pid+"/ns/"+args[0], unix.O_RDONLY, 0)
		if openErr != nil {
			err = openErr
			continue
		}
		if args[0] == "user" { // nobody enters a user namespace with threads; that it is permitted is seen by the error
			if err = unix.Setns(fd, unix.CLONE_NEWUSER); errors.Is(err, unix.EINVAL) {
				return nil, nil
			}
			continue
		}
		if args[0] == "mnt" {
			err = locked(func() error { return errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(fd, unix.CLONE_NEWNS)) })
		} else {
			err = locked(func() error { return unix.Setns(fd, namespaceFlag(args[0])) })
		}
		if err == nil {
			return nil, nil
		}
	}
	return nil, err
}

func cloneThree(f Facts) ([]byte, error) {
	var args [11]uint64 // struct clone_args; all zero but the flags and the signal
	args[0], args[4] = unix.CLONE_NEWUTS, uint64(unix.SIGCHLD)
	args[0] |= unix.CLONE_VFORK
	// A set_tid that is too large: judged after the flags, so nothing is started.
	args[9] = 1 << 20
	_, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args[0])), unsafe.Sizeof(args), 0)
	return nil, reached(e)
}

// reached says whether a call got further than to whoever forbids it. Its other
// arguments are such that nothing happens then.
func reached(e syscall.Errno) error {
	switch e {
	case unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT:
		return e
	}
	return nil
}

func mountOf(kind string) func(Facts) ([]byte, error) {
	return func(f Facts) ([]byte, error) { return nil, unix.Mount("none", f.Dir+"/sub", kind, 0, "") }
}

func pivot(f Facts) ([]byte, error) {
	if err := unix.Mount("none", f.Dir+"/sub", "tmpfs", 0, ""); err != nil {
		return nil, err
	}
	if err := os.Mkdir(f.Dir+"/sub/old", 0o700); err != nil {
		return nil, err
	}
	return nil, unix.PivotRoot(f.Dir+"/sub", f.Dir+"/sub/old")
}

func fileSystem(Facts) ([]byte, error) {
	fd, err := unix.Fsopen("tmpfs", 0)
	if err != nil {
		return nil, err
	}
	const create = 6 // FSCONFIG_CMD_CREATE
	if _, _, e := unix.Syscall6(unix.SYS_FSCONFIG, uintptr(fd), create, 0, 0, 0, 0); e != 0 {
		return nil, e
	}
	_, err = unix.Fsmount(fd, 0, 0)
	return nil, err
}

func moveMount(f Facts) ([]byte, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, f.Dir+"/private", unix.OPEN_TREE_CLONE)
	if err != nil {
		return nil, err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, f.Dir+"/sub", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, err
	}
	return os.ReadFile(f.Dir + "/sub/key")
}

func mountAttributes(f Facts) ([]byte, error) {
	return nil, unix.MountSetattr(unix.AT_FDCWD, "/proc", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOEXEC})
}

// callKernel makes calls with arguments that do no harm where they are permitted.
func callKernel(f Facts, args []string) ([]byte, error) {
	raw := func(nr uintptr, a ...uintptr) error {
		var p [6]uintptr
		copy(p[:], a)
		_, _, e := unix.Syscall6(nr, p[0], p[1], p[2], p[3], p[4], p[5])
		return reached(e)
	}
	absent := pointer("/gander-probe-absent")
	switch args[0] {
	case "init_module":
		return nil, raw(unix.SYS_INIT_MODULE, 0, 0, 0)
	case "delete_module":
		return nil, raw(unix.SYS_DELETE_MODULE, pointer("gander_probe_absent"), 0)
	case "swapon":
		return nil, raw(unix.SYS_SWAPON, absent, 0)
	case "swapoff":
		return nil, raw(unix.SYS_SWAPOFF, absent)
	case "acct":
		return nil, raw(unix.SYS_ACCT, absent)
	case "quotactl":
		const getInfo = 0x800005 << 8
		return nil, raw(unix.SYS_QUOTACTL, getInfo, absent, 0, 0)
	case "bpf":
		return nil, raw(unix.SYS_BPF, unix.BPF_MAP_CREATE, 0, 0)
	case "fanotify":
		_, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT, unix.O_RDONLY)
		return nil, err
	case "reboot":
		return nil, raw(unix.SYS_REBOOT, 0, 0, 0) // no magic numbers
	case "syslog":
		const size = 10
		_, err := unix.Klogctl(size, nil)
		return nil, err
	case "adjtimex":
		_, err := unix.Adjtimex(&unix.Timex{Modes: 0x4000, Tick: 1}) // a tick that is refused
		return nil, errnoReached(err)
	case "iopl", "ioperm":
		return nil, ports(args[0])
	case "open_by_handle_at":
		return nil, raw(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), 0, 0)
	case "perf_event_open":
		_, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: unix.PERF_COUNT_SW_CPU_CLOCK}, -1, 0, -1, 0)
		return nil, err
	case "userfaultfd":
		return nil, raw(unix.SYS_USERFAULTFD, 1) // user mode only
	case "add_key":
		return nil, raw(unix.SYS_ADD_KEY, pointer("user"), pointer("gander-probe"), pointer("x"), 1, uintptr(0xfffffffe))
	case "request_key":
		return nil, raw(unix.SYS_REQUEST_KEY, pointer("user"), pointer("gander-probe-absent"), 0, 0)
	case "keyctl":
		return nil, raw(unix.SYS_KEYCTL, 0, uintptr(0xfffffffe), 0) // the number of a thread's own keyring
	case "io_uring_setup":
		var params [120]byte
		return nil, raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])))
	case "name_to_handle_at":
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, f.Dir, 0)
		return nil, err
	case "process_madvise":
		return nil, raw(unix.SYS_PROCESS_MADVISE, ^uintptr(0), 0, 0, 0, 0)
	case "modify_ldt":
		return nil, localTable()
	}
	return privileges(f, args[0])
}

func errnoReached(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) {
		return reached(e)
	}
	return err
}

// privileges are calls that take a capability or a higher limit.
func privileges(f Facts, name string) ([]byte, error) {
	const other = 54321
	switch name {
	case "setuid":
		return nil, locked(func() error {
			_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, other, other, other)
			return failed(e)
		})
	case "setgid":
		return nil, locked(func() error {
			_, _, e := unix.RawSyscall(unix.SYS_SETRESGID, other, other, other)
			return failed(e)
		})
	case "setgroups":
		groups := []uint32{other}
		return nil, locked(func() error {
			_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&groups[0])), 0)
			return failed(e)
		})
	case "capset":
		all := [2]unix.CapUserData{{Effective: 1 << unix.CAP_DAC_READ_SEARCH, Permitted: 1 << unix.CAP_DAC_READ_SEARCH, Inheritable: 1 << unix.CAP_DAC_READ_SEARCH}}
		return nil, locked(func() error {
			return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &all[0])
		})
	case "chown":
		return nil, os.Chown(f.Dir+"/open", other, other)
	case "mknod":
		return nil, node(f.Dir+"/node", unix.S_IFCHR, int(unix.Mkdev(10, 235)))
	case "nice":
		return nil, unix.Setpriority(unix.PRIO_PROCESS, 0, -10)
	case "rlimit":
		var now unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
			return nil, err
		}
		return nil, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: now.Cur, Max: now.Max + 1})
	case "chroot":
		return nil, unix.Chroot("/")
	case "core-dumps":
		return nil, coreDumps()
	}
	return nil, fmt.Errorf("there is no call %q here", name)
}

// coreDumps fails where none would be made of this process, in a file or for a program.
func coreDumps() error {
	const none = 1 // also for programs, other than 0 (core(5))
	var now unix.Rlimit
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_CORE, &now)
	}
	if err == nil && now.Max <= none && bytes.HasPrefix(pattern, []byte("|")) {
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		if err = unix.Getrlimit(unix.RLIMIT_CORE, &now); now.Max == 0 {
			return err
		}
	}
	if err == nil && now.Max <= none {
		err = fmt.Errorf("the limit of core files is %d", now.Max)
	}
	return err
}

// node makes a device node and tries whether it can be opened.
func node(path string, kind uint32, dev int) error {
	if err := unix.Mknod(path, kind|0o600, dev); err != nil {
		return err
	}
	return os.Remove(path)
}

// diskNumber is the device that the root is on, or else one that exists.
func diskNumber() int {
	var st unix.Stat_t
	if unix.Stat("/", &st) == nil && unix.Major(st.Dev) != 0 {
		return int(st.Dev)
	}
	return int(unix.Mkdev(7, 0))
}

func openFile(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// readSystem reads something of a file, or finds something in a directory.
func readSystem(_ Facts, args []string) ([]byte, error) {
	st, err := os.Stat(args[0])
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		list, err := os.ReadDir(args[0])
		if err == nil && len(list) == 0 {
			err = errors.New("it is empty")
		}
		return nil, err
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	b := make([]byte, 512)
	n, err := file.Read(b)
	if n > 0 && len(bytes.TrimSpace(b[:n])) > 0 {
		return nil, nil
	}
	return nil, fmt.Errorf("nothing was read: %w", err)
}

// openToWrite opens a setting of the machine, and writes nothing.
func openToWrite(_ Facts, args []string) ([]byte, error) {
	return nil, openFile(args[0], unix.O_WRONLY)
}

// setUserID makes a program that runs as its owner, and looks whether that has
// become possible: whoever has no_new_privs gains nothing by one.
func setUserID(f Facts, _ []string) ([]byte, error) {
	if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || v == 1 {
		return nil, fmt.Errorf("no_new_privs is set: %w", err)
	}
	raw, err := os.ReadFile("/bin/sh")
	if err != nil {
		return nil, err
	}
	path := f.Dir + "/setuid"
	return nil, errors.Join(os.WriteFile(path, raw, 0o600), os.Chmod(path, os.ModeSetuid|0o700), os.Remove(path))
}

// fileCapabilities gives a program capabilities of its own.
func fileCapabilities(f Facts) error {
	const version2, effective = 0x02000000, 1
	data := make([]byte, 20)
	*(*uint32)(unsafe.Pointer(&data[0])) = version2 | effective
	*(*uint32)(unsafe.Pointer(&data[4])) = 1 << unix.CAP_DAC_READ_SEARCH
	return unix.Setxattr(f.Dir+"/open", "security.capability", data, 0)
}

// nestedListener takes over the supervision of its own calls.
func nestedListener(Facts) error {
	const newListener = 1 << 3
	code := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	program := unix.SockFprog{Len: 1, Filter: &code[0]}
	return locked(func() error {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, newListener, uintptr(unsafe.Pointer(&program)))
		return failed(e)
	})
}
