// Package mountinfo reads lines of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
package mountinfo

import (
	"slices"
	"strconv"
	"strings"
)

// Mount is a line of the table.
type Mount struct {
	ID, Parent int
	// Device is that of the file system, Root the directory of it that is shown, and
	// At where it is shown.
	Device, Root, At string
	Options          []string // of the mount, not of the file system
	FSType           string
}

// Parse reads a line; ok is false when it is none.
func Parse(line string) (m Mount, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 {
		return m, false
	}
	var err1, err2 error
	m.ID, err1 = strconv.Atoi(f[0])
	m.Parent, err2 = strconv.Atoi(f[1])
	m.Device, m.Root, m.At, m.Options = f[2], unescape(f[3]), unescape(f[4]), strings.Split(f[5], ",")
	if i := slices.Index(f, "-"); i > 0 && i+1 < len(f) {
		m.FSType = f[i+1] // behind a varying number of fields
	}
	return m, err1 == nil && err2 == nil
}

// unescape undoes the octal escapes of blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
