package project

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// User is the name of the sandbox's user, and Host that of the sandbox.
const (
	User = "agent"
	Host = "gander"
)

// lastSystemID is the last number of a user or a group of the system's; nobody's is beyond it.
const (
	lastSystemID = 999
	nobody       = 65534
)

// Names returns the files by which programs look up their user, their group and the host, by
// their paths: the system's own users and groups, as read has them, and the owner with a home
// and a shell. Where read knows no file, the names of every Debian system are in it.
func (o Owner) Names(home, shell string, read func(path string) string) map[string][]byte {
	if home == "" {
		home = "/"
	}
	passwd, group := read("/etc/passwd"), read("/etc/group")
	if passwd == "" {
		passwd = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	}
	if group == "" {
		group = "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n"
	}
	user := fmt.Sprintf("%s:x:%d:%d:%s:%s:%s\n", User, o.UID, o.GID, User, home, shell)
	if o.UID == 0 { // files of the system's are root's by that name
		user = fmt.Sprintf("root:x:0:%d:root:%s:%s\n", o.GID, home, shell) + user
	}
	return map[string][]byte{
		"/etc/passwd": []byte(user + systems(passwd, o.UID, "root", User)),
		"/etc/group":  []byte(o.group(group)),
		"/etc/hosts":  []byte("127.0.0.1 localhost " + Host + "\n::1 localhost ip6-localhost ip6-loopback\n" + read("/etc/hosts")),
		// A machine may ask services for names, which are not inside.
		"/etc/nsswitch.conf": []byte("passwd: files\ngroup: files\nshadow: files\ngshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n"),
	}
}

// group returns the lines of groups: the owner's has its own name where the system gives one.
func (o Owner) group(text string) string {
	for line := range strings.Lines(text) {
		if id, ok := systemID(line); ok && id == o.GID {
			return systems(text, -1)
		}
	}
	return fmt.Sprintf("%s:x:%d:\n", User, o.GID) + systems(text, o.GID, User)
}

// systems returns the lines of the system's own users or groups, but for a number and names;
// root has number 0 at least once.
func systems(text string, but int, names ...string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		id, ok := systemID(line)
		name, _, _ := strings.Cut(line, ":")
		if ok && id != but && (!slices.Contains(names, name) || name == "root") {
			b.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	return b.String()
}

// systemID returns the number in a line about a user or a group of the system's.
func systemID(line string) (int, bool) {
	fields := strings.Split(strings.TrimSpace(line), ":")
	if len(fields) < 3 {
		return 0, false
	}
	id, err := strconv.Atoi(fields[2])
	return id, err == nil && id >= 0 && (id <= lastSystemID || id == nobody)
}
