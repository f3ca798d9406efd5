//go:build unix

package clients

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Root, who edits a person's file, does not take it away from them.
func TestTheOwnerStays(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	file := filepath.Join(t.TempDir(), "settings.json")
	mustWrite(t, file, "{}")
	if err := os.Chown(file, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	if _, err := Put(Find("zed"), file, entryOf(Find("zed"))); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, file + backupSuffix} {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); s.Uid != 4711 || s.Gid != 4712 {
			t.Errorf("%s belongs to %d:%d", filepath.Base(f), s.Uid, s.Gid)
		}
	}
}
