package probe

// machineCases read or change what is not the project's. $BESIDE is a directory of
// the host's with the secret in files such as a home has.
func machineCases() []Case {
	cases := []Case{
		sh("beside the project", `cat "$BESIDE/secret"`),
		sh("beside, by dots", `cat ../../../beside/secret`),
		sh("by a link to beside", `ln -s "$BESIDE/secret" l; cat l`),
		sh("by a hard link from beside", `ln "$BESIDE/secret" h && cat h`),
		sh("by moving it in", `cp "$BESIDE/secret" in && cat in`),
		sh("writing beside", `echo x > "$BESIDE/new" && echo "$1"`),
		sh("by find from the root", `find / -xdev -maxdepth 4 -name 'probe-*' -path '*beside*' -exec cat {} + 2>/dev/null; cat "$BESIDE"/probe-*`, "find"),
		rooted(sh("the root's top", `d="/gander-probe-$$"; mkdir "$d" && rmdir "$d" && echo "$1"`)),
		sh("a private temporary file of the host", `cat "$HOSTTMP"`),
		sh("a shared memory file of the host", `cat "$HOSTSHM"`, "/dev/shm"),
		rooted(sh("/etc/shadow", `test "$(stat -c %i:%s /etc/shadow)" = "$SHADOW" && test -n "$(head -c 1 /etc/shadow)" && echo "$1"`, "/etc/shadow", "stat")),
		rooted(sh("/usr is written", `f="/usr/gander-probe-$$"; : > "$f" && rm "$f" && echo "$1"`)),
		rooted(sh("/etc is written", `f="/etc/gander-probe-$$"; : > "$f" && rm "$f" && echo "$1"`)),
		rooted(sh("a home is written", `f="/root/gander-probe-$$"; : > "$f" && rm "$f" && echo "$1"`)),
		sh("the log of the machine", `test "$(stat -c %i:%s /var/log/dpkg.log)" = "$LOG" && test -n "$(head -c 1 /var/log/dpkg.log)" && echo "$1"`, "/var/log/dpkg.log", "stat"),
		rooted(do("a device node of a disk", "disk-node")),
		rooted(do("a device node of memory", "memory-node")),
		rooted(Case{ID: "/dev/mem", Do: "dev-mem", Needs: []string{"/dev/mem"}}),
		rooted(Case{ID: "/dev/kmsg", Do: "dev-kmsg", Needs: []string{"/dev/kmsg"}}),
		do("gander's own program is written", "write-executable"),
	}
	for _, path := range []string{".ssh/id_ed25519", ".netrc", ".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".bash_history", ".gnupg/key"} {
		cases = append(cases, sh("the person's ~/"+path, `cat "$HOSTHOME/`+path+`" ~/`+path+` 2>/dev/null`))
	}
	for _, socket := range []string{"docker.sock", "ssh-agent", "dbus", "X11"} {
		cases = append(cases, Case{ID: "the socket of " + socket, Do: "bait-socket " + socket})
	}
	return cases
}

// procCases are about /proc and /sys.
func procCases() []Case {
	read := func(path string) Case {
		return rooted(Case{ID: "reading " + path, Do: "read-system " + path, Needs: []string{path}})
	}
	write := func(path string) Case {
		return rooted(Case{ID: "writing " + path, Do: "open-to-write " + path, Needs: []string{path}})
	}
	return []Case{
		sh("the root of PID 1", `cat "/proc/1/root$BESIDE/secret" "/proc/$VICTIM/root$BESIDE/secret"`),
		sh("the parent's root", `cat "/proc/$PPID/root$BESIDE/secret"`),
		sh("the roots of all", `for d in /proc/[0-9]*; do cat "$d/root$BESIDE/secret" 2>/dev/null; done`),
		sh("the directories of all", `for d in /proc/[0-9]*; do cat "$d/cwd/secret" "$d/cwd/.env" 2>/dev/null; done`),
		sh("the descriptors of all", `find /proc/[0-9]*/fd -lname "*/secret" -exec cat {} + 2>/dev/null`, "find"),
		sh("the environments of all", `cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ 2>/dev/null | tr '\0' '\n'`),
		sh("the arguments of all", `grep -l "$VICTIMNAME" /proc/[0-9]*/cmdline 2>/dev/null | grep -v "/proc/$$/" | grep -q "/proc/$VICTIM/" && echo "$1"`),
		do("the memory of all", "memory-of-all"),
		sh("mapped files of all", `find /proc/[0-9]*/map_files -lname "*/secret" -exec cat {} + 2>/dev/null; cat /proc/$VICTIM/root$BESIDE/secret`, "find"),
		read("/proc/kcore"), read("/proc/kallsyms"), read("/proc/keys"), read("/proc/key-users"), read("/proc/timer_list"), read("/proc/sched_debug"),
		read("/proc/slabinfo"), read("/proc/vmallocinfo"), read("/proc/pagetypeinfo"), read("/proc/iomem"), read("/proc/ioports"), read("/proc/kpagecount"), read("/proc/kpageflags"), read("/proc/interrupts"),
		read("/sys/firmware"), read("/sys/kernel/debug"), read("/sys/kernel/security"), read("/sys/block"), read("/sys/module"), read("/sys/devices/virtual/dmi"),
		write("/proc/sysrq-trigger"), write("/proc/sys/kernel/core_pattern"), write("/proc/sys/kernel/modprobe"), write("/proc/sys/vm/drop_caches"),
		write("/proc/sys/kernel/hostname"), write("/proc/sys/net/ipv4/ip_forward"), write("/proc/sys/fs/protected_symlinks"), write("/proc/irq/default_smp_affinity"),
		write("/sys/kernel/uevent_helper"), write("/sys/power/state"), write("/sys/kernel/mm/transparent_hugepage/enabled"), write("/sys/fs/cgroup/memory/release_agent"), write("/sys/module/printk/parameters/time"),
		rooted(do("a lower chance of being killed for memory", "oom-score")),
	}
}
