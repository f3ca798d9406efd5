//go:build unix

package files_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/developer/files"
)

func TestAbs(t *testing.T) {
	s, err := files.New(files.Options{WorkingDir: "/srv/dir", HomeDir: "/home/me"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"": "/srv/dir", ".": "/srv/dir", "a": "/srv/dir/a", "../a": "/srv/a", "/a//b/./../c": "/a/c", "~": "/home/me", "~/a": "/home/me/a",
		"~other/a": "/srv/dir/~other/a", "a/~/b": "/srv/dir/a/~/b", "%APPDATA%/x": "/srv/dir/%APPDATA%/x", `C:\x`: `/srv/dir/C:\x`,
	} {
		if got := s.Abs(name); got != want {
			t.Errorf("Abs(%q) = %q, want %q", name, got, want)
		}
	}
	for _, o := range []files.Options{{}, {WorkingDir: "rel"}, {WorkingDir: "/a", Roots: []string{"b"}}} {
		if _, err := files.New(o); err == nil || !strings.Contains(err.Error(), "absolute") {
			t.Errorf("New(%+v): %v", o, err)
		}
	}
}

func TestCheck(t *testing.T) {
	y := newYard(t)
	y.link(".env", "project/link")
	y.link("link", "project/linklink")
	y.link(y.path("project/vault"), "project/sub/vlink")
	y.link(".env.key", "project/dangling")
	y.link("vault/new", "project/dangling2")
	y.link("../other", "project/out")
	y.link("ok", "project/z.key")
	y.link("loop", "project/loop")
	y.link(y.dir, "alias")
	for from, to := range map[string]string{"project/.env": "project/hard", "project/ok": "project/okhard"} {
		if err := os.Link(y.path(from), y.path(to)); err != nil {
			t.Fatal(err)
		}
	}
	free, inRoot := y.space(), y.space(rooted(y.dir))
	for _, tt := range []struct{ name, want, rooted string }{
		{"ok", "", ""},
		{"sub/../ok", "", ""},
		{"missing/file", "", ""},
		{".env", "restricted", "restricted"},
		{"sub/x.key", "restricted", "restricted"},
		{"vault", "restricted", "restricted"},
		{"vault/a", "restricted", "restricted"},
		{"vault/missing/deep", "restricted", "restricted"},
		{"missing.key", "restricted", "restricted"},
		{"link", "restricted", "restricted"},
		{"linklink", "restricted", "restricted"},
		{"sub/vlink/a", "restricted", "restricted"},
		{"sub/vlink/new", "restricted", "restricted"},
		{"dangling", "restricted", "restricted"},
		{"dangling2", "restricted", "restricted"},
		{"z.key", "restricted", "restricted"}, // its own name is hidden
		{"hard", "restricted", "restricted"},
		{"okhard", "", ""},
		{"sub/../.env", "restricted", "restricted"},
		{y.path("alias/.env"), "restricted", "restricted"},
		{y.path("alias/vault/a"), "restricted", "restricted"},
		{y.path("alias/ok"), "", ""},
		{"out/file", "", "outside"},
		{"out/new", "", "outside"},
		{"../other/file", "", "outside"},
		{"~/notes", "", "outside"},
		{"~/.env", "restricted", "restricted"},
		{y.path("project-2"), "", "outside"},
		{"/", "", "outside"},
		{"loop", "too many", "too many"},
	} {
		for s, want := range map[*files.Space]string{free: tt.want, inRoot: tt.rooted} {
			if got := verdict(s.Check(tt.name)); got != want && (want != "too many" || !strings.Contains(got, want)) {
				t.Errorf("Check(%s) = %q, want %q", tt.name, got, want)
			}
		}
	}
	err := free.Check("link")
	if want := "Access to '" + y.path("project/link") + "' is restricted by .gooseignore"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestOpenTakesFilesAndDirectoriesOnly(t *testing.T) {
	y := newYard(t)
	if err := syscall.Mkfifo(y.path("project/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(y.dir) // a socket's path is short
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := y.space()
	for name, want := range map[string]string{
		"ok": "", "sub": "", ".": "", "pipe": "not regular", "socket": "not regular", "/dev/zero": "not regular", "/dev/null": "not regular", "missing": "not there", ".env": "restricted",
	} {
		f, err := s.Open(name)
		if got := verdict(err); got != want {
			t.Errorf("Open(%s): %q, want %q", name, got, want)
		}
		f.Close()
		if err == nil {
			continue
		}
		if got := verdict(s.WriteFile(name, nil, 0o644)); want != "not there" && got != want {
			t.Errorf("WriteFile(%s): %q, want %q", name, got, want)
		}
	}
	if _, _, err := s.ReadFile("sub", 10); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("reading a directory: %v", err)
	}
}

func TestReadFileLimit(t *testing.T) {
	y := newYard(t)
	s := y.space()
	y.write("project/ten", "0123456789")
	for limit, large := range map[int64]bool{0: true, 9: true, 10: false, 11: false, 1 << 40: false} {
		data, _, err := s.ReadFile("ten", limit)
		e, ok := errors.AsType[*files.TooLargeError](err)
		if ok != large || ok && e.Size != 10 || !ok && string(data) != "0123456789" {
			t.Errorf("limit %d: %q, %v", limit, data, err)
		}
	}
}

// Files of /proc say that they are empty.
func TestReadFileOfUnknownSize(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("there is no /proc here")
	}
	s := newYard(t).space()
	if data, _, err := s.ReadFile("/proc/self/status", 1<<20); err != nil || !strings.Contains(string(data), "Pid:") {
		t.Errorf("%q, %v", data, err)
	}
	if _, _, err := s.ReadFile("/proc/self/status", 10); err == nil {
		t.Error("more than the limit was read")
	}
}

// A hidden file stays hidden behind names that it gets later.
func TestHardLinksMadeLater(t *testing.T) {
	y := newYard(t)
	s := y.space()
	for i, from := range []string{".env", "vault/a", "sub/x.key"} {
		name := "hard" + string(rune('0'+i))
		if err := os.Link(y.path("project/"+from), y.path("project/"+name)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.ReadFile(name, 100); verdict(err) != "restricted" {
			t.Errorf("%s, another name of %s: %v", name, from, err)
		}
		if got := verdict(s.WriteFile(name, nil, 0o644)); got != "restricted" {
			t.Errorf("writing %s: %q", name, got)
		}
	}
	if err := os.Link(y.path("project/ok"), y.path("project/ok2")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.ReadFile("ok2", 100); err != nil {
		t.Error(err)
	}
	y.write("project/.gooseignore", ".env\n/vault/\n*.key\nok2\n")
	if _, _, err := s.ReadFile("ok", 100); verdict(err) != "restricted" {
		t.Errorf("after the rules changed: %v", err)
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	y := newYard(t)
	_, err := y.space().Open("missing")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), y.path("project/missing")) {
		t.Error(err)
	}
	err = y.space(rooted(y.dir)).Check("../other/file")
	if _, ok := errors.AsType[*files.OutsideError](err); !ok || !strings.Contains(err.Error(), "--root") {
		t.Error(err)
	}
}
