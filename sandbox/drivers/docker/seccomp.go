package docker

import (
	"encoding/json"
	"strings"
)

// seccompProfile is the filter of system calls that a container gets, for the
// daemon, instead of the daemon's own. Compared with that one it is the same for
// every version and gives the supervisor what it looks into its sandbox with
// (pidfd_getfd, process_vm_readv), which daemons before version 23 refuse: without
// these nobody is asked about connections to sockets of the host. It gives nothing
// else to commands, which have the supervisor's filter as well, and takes away what
// nobody in a sandbox needs: io_uring, keys, file handles, the calls about mounts, and all
// but a few families of sockets.
func seccompProfile() (string, error) {
	const refused, permitted = "SCMP_ACT_ERRNO", "SCMP_ACT_ALLOW"
	type argument struct {
		Index    uint   `json:"index"`
		Value    uint64 `json:"value"`
		ValueTwo uint64 `json:"valueTwo"`
		Op       string `json:"op"`
	}
	type architecture struct {
		Architecture     string   `json:"architecture"`
		SubArchitectures []string `json:"subArchitectures"`
	}
	type rule struct {
		Names    []string   `json:"names"`
		Action   string     `json:"action"`
		Args     []argument `json:"args,omitempty"`
		ErrnoRet *uint      `json:"errnoRet,omitempty"`
	}
	const namespaces = 0x7e020000 // CLONE_NEW*
	const noCall = 38             // ENOSYS: glibc takes clone then, whose flags can be seen
	enosys := uint(noCall)
	profile := struct {
		DefaultAction string         `json:"defaultAction"`
		ArchMap       []architecture `json:"archMap"`
		Syscalls      []rule         `json:"syscalls"`
	}{
		DefaultAction: refused,
		// Calls of the others would kill a thread otherwise; the supervisor answers them.
		ArchMap: []architecture{{"SCMP_ARCH_X86_64", []string{"SCMP_ARCH_X86", "SCMP_ARCH_X32"}}, {"SCMP_ARCH_AARCH64", []string{"SCMP_ARCH_ARM"}}},
		Syscalls: []rule{
			{Names: strings.Fields(permittedCalls), Action: permitted},
			{Names: []string{"clone"}, Action: permitted, Args: []argument{{0, namespaces, 0, "SCMP_CMP_MASKED_EQ"}}},
			{Names: []string{"clone3"}, Action: refused, ErrnoRet: &enosys},
		},
	}
	const family = 0xffffffff // the half of the argument that the kernel takes
	for _, f := range socketFamilies() {
		profile.Syscalls = append(profile.Syscalls, rule{Names: []string{"socket"}, Action: permitted, Args: []argument{{0, family, f, "SCMP_CMP_MASKED_EQ"}}})
	}
	for _, p := range []uint64{0, 8, 0x20000, 0x20008, 0xffffffff} { // Linux, Linux on 32 bit, UNAME26, both; asking
		profile.Syscalls = append(profile.Syscalls, rule{Names: []string{"personality"}, Action: permitted, Args: []argument{{0, p, 0, "SCMP_CMP_EQ"}}})
	}
	text, err := json.Marshal(profile)
	return string(text), err
}

// socketFamilies are UNIX, both of IP, and netlink. Others lead past the network namespace, as
// vsocks to the machine or to what runs a virtual one, or deep into the kernel.
func socketFamilies() []uint64 { return []uint64{1, 2, 10, 16} }

// permittedCalls are those of Linux on amd64 and arm64 without what
// seccompProfile says; a daemon ignores names that it does not know.
const permittedCalls = `
accept accept4 access alarm arch_prctl arch_specific_syscall bind brk cachestat capget capset chdir chmod chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait
eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl
fdatasync fgetxattr file_getattr file_setattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue
futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups
getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt
gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
io_pgetevents io_setup io_submit ioctl ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr
link linkat listen listns listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lsm_get_self_attr lsm_list_modules lstat madvise map_shadow_stack membarrier
memfd_create mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend
mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat openat2 pause pidfd_getfd
pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_vm_readv
process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages
removexattr removexattrat rename renameat renameat2 restart_syscall rmdir rseq rseq_slice_yield rt_sigaction rt_sigpending rt_sigprocmask
rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity
sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsuid
setgid setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr setxattrat shmat
shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair splice stat statfs statx symlink symlinkat sync sync_file_range syncfs
sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times
tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid write writev
`
