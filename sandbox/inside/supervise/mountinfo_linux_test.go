package supervise

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMount(t *testing.T) {
	for _, tt := range []struct {
		line  string
		at    string
		flags uintptr
	}{
		{`25 27 0:21 / /new/with\040blank\134 ro,nosuid,relatime shared:1 - ext4 /dev/x rw`, `/new/with blank\`, unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_RELATIME},
		{`25 27 0:21 / /a rw,nodev,noexec,noatime,nodiratime - ext4 x rw`, "/a", unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME},
		{`25 27 0:21 / /b rw - ext4 x rw`, "/b", unix.MS_STRICTATIME},
	} {
		m, ok := parseMount(tt.line)
		if !ok || m.at != tt.at || m.flags != tt.flags {
			t.Errorf("%s: %q %#x %v", tt.line, m.at, m.flags, ok)
		}
	}
	if _, ok := parseMount("garbage"); ok {
		t.Error("garbage was parsed")
	}
}

func TestMountTreeLeavesOutWhatIsHidden(t *testing.T) {
	table := []byte(`1 0 0:1 / /new rw - tmpfs x rw
2 1 0:2 / /new/p/bin/tool ro - ext4 x rw
3 1 0:3 / /new/p ro - ext4 x rw
4 1 0:3 / /new/p rw - ext4 x rw
5 4 0:4 / /new/p/data rw - ext4 x rw
6 5 0:5 / /new/p/data/more rw - ext4 x rw
7 1 0:6 / /new/place rw - ext4 x rw
`)
	var ids []int
	for _, m := range mountTree(table, "/new/p") {
		ids = append(ids, m.id)
	}
	if !slices.Equal(ids, []int{4, 5, 6}) {
		t.Errorf("mounts %v", ids)
	}
	if found := mountTree(table, "/elsewhere"); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}
