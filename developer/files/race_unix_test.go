//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// swap replaces a name by one thing and another until the test ends or the
// returned function is called.
func (y yard) swap(name string, things ...func(tmp string) error) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tmp, old := filepath.Join(y.top, "swapping"), filepath.Join(y.top, "swapped")
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := things[i%len(things)](tmp); err != nil {
				y.Error(err)
				return
			}
			_ = os.Rename(y.path(name), old)
			_ = os.Rename(tmp, y.path(name))
			_ = os.RemoveAll(old)
			_ = os.RemoveAll(tmp) // still there when somebody made the name anew
		}
	})
	stop = sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
	y.Cleanup(stop)
	return stop
}

func file(text string) func(string) error {
	return func(tmp string) error { return os.WriteFile(tmp, []byte(text), 0o644) }
}

func linkTo(target string) func(string) error {
	return func(tmp string) error { return os.Symlink(target, tmp) }
}

func dirWith(name, text string) func(string) error {
	return func(tmp string) error {
		return errors.Join(os.Mkdir(tmp, 0o755), os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o644))
	}
}

func TestSwappedNamesShowNothingHidden(t *testing.T) {
	for _, tt := range []struct {
		name, read string
		things     func(y yard) []func(string) error
	}{
		{"project/x", "x", func(y yard) []func(string) error {
			return []func(string) error{file("fine"), linkTo(".env"), linkTo(y.path("project/vault/a"))}
		}},
		{"project/d", "d/a", func(y yard) []func(string) error {
			return []func(string) error{dirWith("a", "fine"), linkTo("vault"), linkTo(y.path("project/vault"))}
		}},
		{"project/d", "d/file", func(y yard) []func(string) error {
			return []func(string) error{dirWith("file", "fine"), linkTo("../other")} // outside of the root
		}},
	} {
		y := newYard(t)
		s := y.space(rooted(y.dir))
		stop := y.swap(tt.name, tt.things(y)...)
		read := 0
		for n := 0; n < 2000 || read == 0 && n < 100_000; n++ {
			data, _, err := s.ReadFile(tt.read, 100)
			if err != nil {
				continue
			}
			if read++; string(data) != "fine" && len(data) > 0 {
				t.Fatalf("%s: read %q", tt.read, data)
			}
		}
		stop()
		if read == 0 {
			t.Errorf("%s was never read, so nothing was tried", tt.read)
		}
	}
}

func TestSwappedNamesAreNotWrittenThrough(t *testing.T) {
	y := newYard(t)
	s := y.space(rooted(y.dir))
	stop := y.swap("project/d", dirWith("a", "fine"), linkTo("vault"), linkTo(y.path("other")))
	written := 0
	for n := 0; n < 500 || written == 0 && n < 20_000; n++ {
		for _, name := range []string{"d/a", "d/new/file"} {
			if s.WriteFile(name, []byte("WRITTEN"), 0o644) == nil {
				written++
			}
		}
		_ = s.Remove("d/file") // the one outside
	}
	stop()
	if written == 0 {
		t.Error("nothing was ever written, so nothing was tried")
	}
	for name, want := range map[string]string{"project/vault": "a", "other": "file"} {
		entries, err := os.ReadDir(y.path(name))
		if err != nil || len(entries) != 1 || entries[0].Name() != want {
			t.Errorf("%s has %v, %v", name, entries, err)
		}
	}
	if got := y.read("project/vault/a"); got != "SECRET" {
		t.Errorf("the hidden file says %q", got)
	}
}
