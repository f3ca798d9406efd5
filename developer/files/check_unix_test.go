//go:build unix

package files_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
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
		read := tt.rooted // a name that begins outside may be read there
		if filepath.IsAbs(tt.name) || strings.HasPrefix(tt.name, "~") {
			read = tt.want
		}
		for _, c := range []struct {
			what string
			err  error
			want string
		}{
			{"Check without roots", free.Check(tt.name), tt.want},
			{"CheckChange without roots", free.CheckChange(tt.name), tt.want},
			{"CheckChange", inRoot.CheckChange(tt.name), tt.rooted},
			{"Check", inRoot.Check(tt.name), read},
		} {
			if got := verdict(c.err); got != c.want && (c.want != "too many" || !strings.Contains(got, c.want)) {
				t.Errorf("%s(%s) = %q, want %q", c.what, tt.name, got, c.want)
			}
		}
	}
	for _, name := range []string{y.dir + "/../other/file", y.path("project/out/file"), y.top + "/home/../project/sub/../../other"} {
		if got := verdict(inRoot.Check(name)); got != "outside" {
			t.Errorf("reading %s, which comes through the root: %q", name, got)
		}
	}
	nowhere := y.space(rooted([]string{}...))
	if got := verdict(nowhere.CheckChange("ok")); got != "outside" {
		t.Errorf("a change where there are no roots: %q", got)
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

func TestNames(t *testing.T) {
	y := newYard(t)
	s := y.space()
	for name, want := range map[string]string{
		"ok":                             y.path("project/ok"),
		"~":                              y.path("home"),
		"~/notes":                        y.path("home/notes"),
		"~other/x":                       y.path("project/~other/x"),
		"file://" + y.path("other/file"): y.path("other/file"),
		"FILE://localhost/a/../b%20c":    "/b c",
		"file:/a":                        "/a",
		"file:///a%zz":                   "/a%zz",
		"C:\\x":                          y.path("project/C:\\x"),
		"a:b":                            y.path("project/a:b"),
	} {
		if got := s.Abs(name); got != want {
			t.Errorf("Abs(%s) = %s, want %s", name, got, want)
		}
		if err := s.Check(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"file://server/share/x", "https://example.com/x", "s3://a/b"} {
		if _, _, err := s.ReadFile(name, 100); !errors.Is(err, files.ErrURL) {
			t.Errorf("reading %s: %v", name, err)
		}
		if err := s.WriteFile(name, nil, 0o644); !errors.Is(err, files.ErrURL) {
			t.Errorf("writing %s: %v", name, err)
		}
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	y := newYard(t)
	_, err := y.space().Open("missing")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), y.path("project/missing")) {
		t.Error(err)
	}
	y.link("../other/file", "project/link")
	s := y.space(rooted(y.dir))
	for name, errs := range map[string][]error{
		"../other/file": {s.Check("../other/file"), s.CheckChange("../other/file"), s.WriteFile("../other/file", nil, 0o644), s.Remove("../other/file")},
		"link":          {s.Check("link"), s.CheckChange("link"), s.WriteFile("link", nil, 0o644)},
	} {
		for _, err := range errs {
			if err == nil {
				t.Errorf("%s was accepted", name)
				continue
			}
			for _, want := range []string{s.Abs(name), y.path("other/file"), "'" + y.dir + "'", "--root"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %q lacks %s", name, err, want)
				}
			}
		}
	}
}
