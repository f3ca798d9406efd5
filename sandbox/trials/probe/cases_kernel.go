package probe

// kernelCases are about namespaces, mounts, capabilities and calls that no program
// of a project needs.
func kernelCases() []Case {
	var cases []Case
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		unshare, clone := Case{ID: "unshare of the " + kind + " namespace", Do: "unshare " + kind}, Case{ID: "clone into a " + kind + " namespace", Do: "clone " + kind}
		if kind == "user" {
			unshare = sh("unshare of the user namespace", `unshare -U true && echo "$1"`, "unshare")
		}
		unshare.Root, clone.Root = kind != "user", kind != "user"
		if kind == "time" { // clone has a signal number in that place
			cases = append(cases, unshare)
			continue
		}
		cases = append(cases, unshare, clone)
	}
	for _, kind := range []string{"user", "mnt", "pid", "net"} {
		cases = append(cases, rooted(Case{ID: "entering the " + kind + " namespace of a process", Do: "setns " + kind}))
	}
	for _, name := range []string{
		"clone3", "mount tmpfs", "mount proc", "mount sysfs", "mount cgroup", "remount", "umount", "pivot_root", "fsopen", "move_mount", "mount_setattr", "sethostname", "setdomainname",
	} {
		cases = append(cases, namespaced(do(name, name)))
	}
	for _, name := range []string{
		"init_module", "delete_module", "swapon", "swapoff", "acct", "quotactl", "bpf", "fanotify", "reboot", "syslog", "adjtimex",
		"iopl", "ioperm", "open_by_handle_at", "perf_event_open", "setuid", "setgid", "setgroups", "capset", "chown", "mknod", "nice", "rlimit", "chroot",
	} {
		cases = append(cases, rooted(Case{ID: name, Do: "call " + name}))
	}
	for _, name := range []string{"userfaultfd", "add_key", "request_key", "keyctl", "io_uring_setup", "name_to_handle_at", "process_madvise", "modify_ldt", "core-dumps"} {
		cases = append(cases, Case{ID: name, Do: "call " + name})
	}
	return append(cases,
		do("a set-user-id program", "setuid-file"),
		rooted(do("a file with capabilities", "file-capabilities")),
		do("a system call filter of its own listener", "nested-listener"),
	)
}

// processCases look for other processes, or stay.
func processCases() []Case {
	stays := func(id, script string) Case { return Case{ID: "staying: " + id, Sh: script, Stays: true} }
	return []Case{
		do("signalling a process outside", "signal"), do("signalling by pidfd", "pidfd-signal"), do("signalling a thread", "tgkill"),
		do("tracing a process outside", "ptrace-attach"), do("seizing a process outside", "ptrace-seize"),
		do("reading its memory", "vm-read"), do("writing its memory", "vm-write"), do("its memory by /proc", "proc-mem"),
		do("taking its descriptor", "pidfd-getfd"), do("its descriptor by /proc", "proc-fd"),
		do("its environment", "proc-environ"), do("its limits", "prlimit"), do("its scheduling", "sched"), do("its priority", "setpriority"), do("comparing with it", "kcmp"),
		do("its memory by move_pages", "move-pages"), do("its system call by syscall file", "proc-syscall"),
		stays("setsid", `setsid sleep 1000 & setsid sh -c 'setsid sleep 1000 & sleep 1000' & sleep 0.1`),
		stays("nohup", `nohup sleep 1000 >/dev/null 2>&1 & sleep 0.1`),
		stays("double fork", `(setsid sh -c '(sleep 1000 >/dev/null 2>&1 &) ; exit 0' &) ; sleep 0.1`),
		stays("daemon", `(setsid sh -c 'cd /; exec </dev/null >/dev/null 2>&1; (setsid sleep 1000 &) & exit 0' &) & sleep 0.1`),
		stays("deaf", `trap '' TERM HUP INT QUIT; sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' & sleep 0.1`),
		stays("fan-out", `i=0; while [ $i -lt 50 ]; do setsid sleep 1000 & i=$((i+1)); done; sleep 0.1`),
		stays("stopped", `setsid sh -c 'kill -STOP $$; sleep 1000' & sleep 0.1`),
		stays("respawning", `respawn() { while :; do sleep 1000; done; }; respawn & respawn & sleep 0.1`),
		stays("replacing itself", `RUN='sh -c "$RUN" & exit 0'; export RUN; (setsid sh -c "$RUN" </dev/null >/dev/null 2>&1 &); sleep 0.2`),
		stays("ptraced by each other", `setsid sh -c 'setsid sleep 1000 & exec sleep 1000' & sleep 0.1`),
	}
}
