package enforce

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// touchedUses change files in every way that there is; what is only looked at is none.
func touchedUses() map[string]func(string) ([]byte, error) {
	return map[string]func(string) ([]byte, error){
		"changes": script(`echo x > new; echo x >> appended; rm removed; mv from to; mkdir dir; ln -s x link; chmod 600 mode; : > cut
			python3 -c 'f = open("rw", "r+")'; mv olddir newdir; cat read > /dev/null; ls listed > /dev/null; test -e there`),
	}
}

// A Guard notes what a supervised process changes, by each name, and with what is below a
// directory that is renamed; not what it reads.
func TestTouched(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	for _, name := range []string{"appended", "removed", "from", "mode", "cut", "rw", "olddir/below", "read", "listed/below", "there"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, dir, testPolicy(), placement{}, "use", "changes")
	var r report
	s.run(t, &r)
	want := []string{"new", "appended", "removed", "from", "to", "dir", "link", "mode", "cut", "rw", "olddir/below", "newdir/below"}
	not := []string{"read", "listed/below", "there", "dir/below", "other"}
	var paths []string
	for _, name := range slices.Concat(want, not) {
		paths = append(paths, filepath.Join(dir, name))
	}
	touched, known := s.guard.Touched(paths)
	if !known {
		t.Fatal("it is not known")
	}
	for i, path := range paths {
		if touched[i] != (i < len(want)) {
			t.Errorf("%s: touched is %v; %s", path, touched[i], r.Said)
		}
	}
	for i := range maxTouched + 1 {
		s.guard.touched.add(fmt.Sprintf("%s/%d", dir, i), false)
	}
	if _, known := s.guard.Touched(paths); known {
		t.Error("of more files than are kept it is known")
	}
}
