package devices

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFind(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"kvm", "is no device; want a path below /dev"},
		{"/dev/../etc/passwd", "is no device; want a path below /dev"},
		{"/etc/passwd", "is no device; want a path below /dev"},
		{"/dev/fd", "is no device"},
		{"/dev/no-such-device", "cannot be looked at"},
		{"/dev/ptmx", "is a terminal"},
		{"/dev/tty", "is a terminal"},
	} {
		if got, err := Find([]string{tt.name}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	got, err := Find([]string{"/dev/zero", "/dev/full", "/dev/zero"})
	if err != nil || !slices.Equal(got, []string{"/dev/full", "/dev/zero"}) {
		t.Errorf("found %v, %v", got, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	dir := t.TempDir()
	for name, dev := range map[string][3]int{
		"disk": {unix.S_IFBLK, 7, 0}, "mem": {unix.S_IFCHR, 1, 1}, "kmem": {unix.S_IFCHR, 1, 2}, "port": {unix.S_IFCHR, 1, 4}, "kmsg": {unix.S_IFCHR, 1, 11}, "pty": {unix.S_IFCHR, 136, 0},
	} {
		path := filepath.Join(dir, name)
		if err := unix.Mknod(path, uint32(dev[0])|0o600, int(unix.Mkdev(uint32(dev[1]), uint32(dev[2])))); err != nil {
			t.Skip("no devices can be made here:", err)
		}
		if refusal(path) == "" {
			t.Errorf("%s is given to sandboxes", name)
		}
	}
	fuse := filepath.Join(dir, "fuse")
	if err := unix.Mknod(fuse, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))); err != nil {
		t.Fatal(err)
	}
	if why := refusal(fuse); why != "" {
		t.Errorf("fuse %s", why)
	}
}
