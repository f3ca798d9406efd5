package changes

import (
	"os"
	"path/filepath"
	"testing"
)

// A directory gets no mode by a link, neither as the last part of its path nor on the way.
func TestModesAreGivenThroughNoLink(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	r, err := openRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := filepath.Join(outside, "d")
	for _, err := range []error{os.Mkdir(dir, 0o750), os.Symlink(outside, filepath.Join(inside, "way")), os.Symlink(dir, filepath.Join(inside, "last"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, rel := range []string{"way/d", "last"} {
		if err := r.chmodDir(rel, 0o700); err == nil {
			t.Errorf("%s: no error", rel)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("outside it is %v, %v", info.Mode(), err)
	}
}
