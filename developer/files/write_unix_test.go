//go:build unix

package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gander.dev/gander/developer/files"
)

func TestWriteFile(t *testing.T) {
	y := newYard(t)
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	y.write("project/script", "old")
	if err := os.Chmod(y.path("project/script"), 0o751); err != nil {
		t.Fatal(err)
	}
	y.link("sub/ok", "project/tolink")
	y.link("sub/made", "project/tonew")
	y.link("../other", "project/out")
	s, inRoot := y.space(), y.space(rooted(y.dir))
	for _, tt := range []struct {
		name, at, want string
		s              *files.Space
		mode           fs.FileMode
	}{
		{"new", "project/new", "", s, 0o644},
		{"a/b/c/new", "project/a/b/c/new", "", s, 0o644},
		{"script", "project/script", "", s, 0o751},
		{"tolink", "project/sub/ok", "", s, 0o644},
		{"tonew", "project/sub/made", "", s, 0o644},
		{"out/made", "other/made", "", s, 0o644},
		{"out/no/no", "other/no/no", "outside", inRoot, 0},
		{"../other/no", "other/no", "outside", inRoot, 0},
		{"inside/new", "project/inside/new", "", inRoot, 0o644},
		{"new.key", "project/new.key", "restricted", s, 0},
		{"vault/new", "project/vault/new", "restricted", s, 0},
		{"vault/a/b/new", "project/vault/a/b/new", "restricted", s, 0},
		{"sub", "project/sub", "not regular", s, 0},
	} {
		err := tt.s.WriteFile(tt.name, []byte("text of "+tt.name), 0o666)
		if got := verdict(err); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			continue
		}
		info, err := os.Lstat(y.path(tt.at))
		if tt.want != "" {
			if err == nil && info.Mode().IsRegular() {
				t.Errorf("%s was written all the same", tt.name)
			}
			continue
		}
		if err != nil || info.Mode() != tt.mode || y.read(tt.at) != "text of "+tt.name {
			t.Errorf("%s: %v, %v", tt.name, info, err)
		}
	}
	if info, err := os.Lstat(y.path("project/tolink")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Error("the link became a file")
	}
	if left := y.leftovers(); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

func TestWriteFileKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	y := newYard(t)
	if err := os.Chown(y.path("project/ok"), 12345, 54321); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(y.path("project/ok"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := y.space().WriteFile("ok", []byte("new"), 0o777); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(y.path("project/ok"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 12345 || st.Gid != 54321 || info.Mode() != 0o640 {
		t.Errorf("the owner is %d:%d now, the mode %v", st.Uid, st.Gid, info.Mode())
	}
}

func TestRemove(t *testing.T) {
	y := newYard(t)
	y.link("ok", "project/link")
	y.link(".env", "project/evil")
	y.link("vault", "project/v")
	y.link("missing", "project/dangling")
	s, inRoot := y.space(), y.space(rooted(y.dir))
	for _, tt := range []struct {
		name, want string
		s          *files.Space
	}{
		{"link", "", s},
		{"dangling", "", s},
		{"ok", "", s},
		{".env", "restricted", s},
		{"evil", "restricted", s},
		{"v/a", "restricted", s},
		{"missing", "not there", s},
		{"../other/file", "outside", inRoot},
		{"../other/file", "", s},
		{".gooseignore", "loosens", s},
	} {
		if got := verdict(tt.s.Remove(tt.name)); got != tt.want {
			t.Errorf("Remove(%s): %q, want %q", tt.name, got, tt.want)
		}
		_, err := os.Lstat(filepath.Join(y.dir, tt.name))
		if tt.want == "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", tt.name, err)
		}
	}
	if y.read("project/.env") != "SECRET" || y.read("project/vault/a") != "SECRET" {
		t.Error("a hidden file is gone")
	}
}

func TestRulesFilesBecomeStricterOnly(t *testing.T) {
	y := newYard(t)
	s := y.space()
	for _, tt := range []struct{ name, text, want string }{
		{".gooseignore", ".env\n/vault/\n*.key\n*.more\n", ""},
		{".gooseignore", "", "loosens"},
		{".gooseignore", ".env\n/vault/\n*.key\n*.more\n!x.key\n", "loosens"},
		{"sub/.gooseignore", "!x.key\n", "loosens"},
		{"sub/.gooseignore", "ok\n", ""},
		{"sub/.gooseignore", "", "loosens"},
	} {
		if got := verdict(s.WriteFile(tt.name, []byte(tt.text), 0o644)); got != tt.want {
			t.Errorf("writing %q to %s: %q, want %q", tt.text, tt.name, got, tt.want)
		}
	}
	if err := s.Check("x.more"); verdict(err) != "restricted" {
		t.Errorf("the new rule does not hold: %v", err)
	}
	if err := s.Remove("sub/.gooseignore"); verdict(err) != "loosens" {
		t.Errorf("removing rules: %v", err)
	}
	// Rules behind a link are rules, too.
	y.write("project/mine", ".env\n")
	if err := os.Rename(y.path("project/.gooseignore"), y.path("project/before")); err != nil {
		t.Fatal(err)
	}
	y.link("mine", "project/.gooseignore")
	for _, name := range []string{"mine", ".gooseignore"} {
		if err := s.WriteFile(name, []byte("nothing\n"), 0o644); verdict(err) != "loosens" {
			t.Errorf("loosening a link's target, as %s: %v", name, err)
		}
		if err := s.Remove(name); verdict(err) != "loosens" {
			t.Errorf("removing %s: %v", name, err)
		}
	}
	// Where there are only the built-in rules, a file must repeat them.
	if err := os.Remove(y.path("project/.gooseignore")); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteFile(".gooseignore", []byte("*.pem\n"), 0o644); verdict(err) != "loosens" {
		t.Errorf("switching off the built-in rules: %v", err)
	}
	if err := s.WriteFile(".gooseignore", []byte("**/.env\n**/.env.*\n**/secrets.*\n*.pem\n"), 0o644); err != nil {
		t.Error(err)
	}
}

// A reader sees the old text or the new one, never a part.
func TestWritesAreWhole(t *testing.T) {
	y := newYard(t)
	s := y.space()
	texts := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	y.write("project/f", texts[0])
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for range 30 {
				if err := s.WriteFile("f", []byte(texts[i]), 0o644); err != nil && !strings.Contains(err.Error(), "replaced all the time") {
					t.Error(err)
				}
			}
		})
	}
	for range 300 {
		if got, err := os.ReadFile(y.path("project/f")); err != nil || string(got) != texts[0] && string(got) != texts[1] {
			t.Errorf("%d bytes were read, %v", len(got), err)
		}
	}
	wg.Wait()
	if left := y.leftovers(); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

func TestAFailedWriteLeavesTheOldFile(t *testing.T) {
	y := newYard(t)
	s := y.space()
	if err := s.WriteFile("ok/below", nil, 0o644); err == nil {
		t.Error("a file became a directory")
	}
	if err := s.WriteFile(strings.Repeat("n", 300), nil, 0o644); err == nil {
		t.Error("a name of 300 bytes")
	}
	if got := y.read("project/ok"); got != "fine" {
		t.Errorf("the file says %q", got)
	}
	if left := y.leftovers(); left != nil {
		t.Errorf("left behind: %q", left)
	}
}
