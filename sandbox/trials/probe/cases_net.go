package probe

// networkCases try to reach somebody outside. A listener that is told anything
// counts; the answers carry the secret.
func networkCases() []Case {
	var cases []Case
	for _, to := range []string{
		"tcp4 loopback", "tcp4 address", "tcp4 any", "tcp6 loopback", "tcp6 mapped", "udp4 loopback", "udp4 address", "udp6 loopback",
		"unix stream", "unix stream by proc", "unix datagram", "unix datagram connected", "unix datagram by sendmsg", "unix abstract", "unix in out", "http proxy",
	} {
		cases = append(cases, Case{ID: to, Do: "reach " + to})
	}
	cases = append(cases,
		sh("by the shell", `exec 3<>/dev/tcp/127.0.0.1/$PORT && cat <&3`, "bash"),
		sh("a datagram by the shell", `echo "$1" > /dev/udp/127.0.0.1/$UDPPORT`, "bash"),
		rooted(do("a raw socket", "socket raw")), rooted(do("a packet socket", "socket packet")), rooted(do("an ICMP socket", "socket icmp")),
		do("a vsock", "socket vsock"), do("a socket of the kernel's crypto", "socket alg"), do("a netlink socket of the kernel's log", "socket audit"),
		namespaced(do("a device of its own", "new-device")),
	)
	for _, kind := range []string{"interfaces", "routes", "counters", "sockets"} {
		cases = append(cases, Case{ID: "seeing the machine's " + kind, Do: "see " + kind})
	}
	return cases
}

// environmentCases look for what was inherited.
func environmentCases() []Case {
	return []Case{
		sh("variables", "env"),
		sh("exported by the shell", "export -p; set"),
		sh("/proc/self/environ", `cat /proc/self/environ`),
		sh("of the parent", `cat /proc/$PPID/environ; sh -c 'cat /proc/$PPID/environ; :'; :`),
		sh("of the first process", `tr '\0' '\n' < "/proc/1/environ"; tr '\0' '\n' < "/proc/$VICTIM/environ"`),
		do("an inherited descriptor", "inherited"),
		sh("an inherited working directory", `cat "$OLDPWD/secret" ../secret "$(readlink /proc/$PPID/cwd)/secret" "$BESIDE/secret" 2>/dev/null`),
		sh("a higher limit of core files", `ulimit -c unlimited && test "$(ulimit -c)" = unlimited && echo "$1"`),
		sh("the host's name", `test "$(cat /proc/sys/kernel/hostname)" = "$HOSTNAMEMARK" && echo "$1"`, "/proc/sys/kernel/hostname"),
	}
}

// raceCases try many times. Those with a Host run against what the host does.
func raceCases() []Case {
	host := func(id, act, reader string) Case { return Case{ID: id, Do: "race " + reader, Host: act} }
	var cases []Case
	for _, r := range []string{"name", "absolute", "dots", "proc", "link", "descriptor", "openat2", "chain"} {
		cases = append(cases, host("the host replaces it, read by "+r, "replace", r))
	}
	return append(cases,
		host("the host creates it", "create", "name"),
		host("the host writes it in place", "rewrite", "name"),
		host("the host renames its directory", "rename parent", "below"),
		host("the host links it", "hard link", "linked"),
		host("the host moves a closed directory in", "move in", "moved"),
		host("the host swaps a directory for a link", "swap", "swapped"),
		do("the path changes while it is read", "flip-path"),
		do("the descriptor changes while it is used", "flip-descriptor"),
		do("the working directory changes", "flip-directory"),
		do("a link changes", "flip-link"),
		do("a directory is exchanged", "flip-exchange"),
		do("two renames at once", "flip-rename"),
		do("a directory moves for a file", "flip-kind"),
	)
}

// protocolCases attack what carries the sandbox.
func protocolCases() []Case {
	return []Case{
		do("the stream of who runs it", "owner-stream"),
		do("the sockets of who runs it", "owner-sockets"),
		do("the memory of who runs it", "owner-memory"),
		do("killing who runs it", "owner-kill"),
		do("tracing who runs it", "owner-trace"),
		do("the limits of who runs it", "owner-limits"),
		do("when who runs it runs", "owner-scheduling"),
	}
}
