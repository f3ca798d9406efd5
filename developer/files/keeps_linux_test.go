package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gander.dev/gander/developer/files"
	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// acl is an access list of Linux that gives a user besides the owner the right to read and
// write: mode 0660 with a mask.
var acl = "\x02\x00\x00\x00" +
	"\x01\x00\x06\x00\xff\xff\xff\xff" + // the owner
	"\x02\x00\x06\x00\x31\xd4\x00\x00" + // the user 54321
	"\x04\x00\x04\x00\xff\xff\xff\xff" + // the group
	"\x10\x00\x06\x00\xff\xff\xff\xff" + // the mask
	"\x20\x00\x00\x00\xff\xff\xff\xff" // others

func TestWriteFileKeepsAttributes(t *testing.T) {
	y := newYard(t)
	s := y.space()
	for _, name := range []string{"kept", "plain"} {
		y.write("project/"+name, "old")
	}
	want := map[string]string{"user.origin": "https://example.org", "system.posix_acl_access": acl}
	for name, value := range want {
		if err := unix.Setxattr(y.path("project/kept"), name, []byte(value), 0); err != nil {
			t.Skip("the file system has no attributes: ", err)
		}
	}
	mode := fs.FileMode(0o751) | fs.ModeSetgid
	if err := os.Chmod(y.path("project/plain"), mode); err != nil {
		t.Fatal(err)
	}
	// New files in here get a list, which a file that had none must not get by an edit.
	if err := unix.Setxattr(y.dir, "system.posix_acl_default", []byte(acl), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept", "plain"} {
		if err := s.WriteFile(name, []byte("new"), 0o644); err != nil {
			t.Fatal(err)
		}
		for attribute, value := range want {
			buf := make([]byte, 100)
			n, err := unix.Getxattr(y.path("project/"+name), attribute, buf)
			if has := err == nil && string(buf[:max(n, 0)]) == value; has != (name == "kept") {
				t.Errorf("%s has %s: %v, %v", name, attribute, has, err)
			}
		}
	}
	if info, err := os.Stat(y.path("project/plain")); err != nil || info.Mode() != mode {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left := y.leftovers(); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

func TestWriteFileKeepsHardLinks(t *testing.T) {
	y := newYard(t)
	var notes []string
	s := y.space().Noting(func(note string) { notes = append(notes, note) })
	for _, tt := range []struct {
		dir       string
		owner     int
		mode      fs.FileMode
		content   string
		both      bool
		note      string
		keepsMode fs.FileMode
	}{
		{"a", -1, 0o640, "longer than it was", true, "", 0o640},
		{"b", -1, 0o755, "", true, "", 0o755},
		{"web/node_modules/x", -1, 0o644, "new", false, "node_modules", 0o644},
		{"lib/site-packages/x", -1, 0o644, "new", false, "site-packages", 0o644},
		{"theirs", 12345, 0o644, "new", false, "another user", 0o644},
	} {
		if tt.owner >= 0 && os.Geteuid() != 0 {
			continue
		}
		notes = nil
		one, two := filepath.Join("project", tt.dir, "one"), filepath.Join("project", tt.dir, "two")
		y.write(one, "old")
		if err := errors.Join(os.Link(y.path(one), y.path(two)), os.Chown(y.path(one), tt.owner, -1), os.Chmod(y.path(one), tt.mode)); err != nil {
			t.Fatal(err)
		}
		if err := s.WriteFile(filepath.Join(tt.dir, "one"), []byte(tt.content), 0o600); err != nil {
			t.Errorf("%s: %v", tt.dir, err)
			continue
		}
		want := map[bool]string{true: tt.content, false: "old"}[tt.both]
		if y.read(one) != tt.content || y.read(two) != want {
			t.Errorf("%s: %q and %q", tt.dir, y.read(one), y.read(two))
		}
		a, errA := os.Stat(y.path(one))
		b, errB := os.Stat(y.path(two))
		if errA != nil || errB != nil || os.SameFile(a, b) != tt.both || a.Mode() != tt.keepsMode {
			t.Errorf("%s: %v, %v, %v %v", tt.dir, a, b, errA, errB)
		}
		if tt.owner >= 0 && int(a.Sys().(*syscall.Stat_t).Uid) != tt.owner {
			t.Errorf("%s belongs to %d", tt.dir, a.Sys().(*syscall.Stat_t).Uid)
		}
		if said := strings.Join(notes, "\n"); (said == "") != (tt.note == "") || !strings.Contains(said, tt.note) {
			t.Errorf("%s: it is said that %q", tt.dir, said)
		}
	}
	// A program that runs cannot be written to.
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(y.path("project/run"), sleep, 0o755), os.Link(y.path("project/run"), y.path("project/run2"))); err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(y.path("project/run"), []string{"run", "100"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = p.Wait() }()
	defer func() { _ = p.Kill() }()
	notes = nil
	if err := s.WriteFile("run", []byte("#!/bin/sh\n"), 0); err != nil || y.read("project/run") != "#!/bin/sh\n" || !strings.Contains(strings.Join(notes, ""), "text file busy") {
		t.Errorf("%v, %q", err, notes)
	}
	if left := y.leftovers(); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

// TestCrashInPlace kills a process in the middle of a writing in place: the old content is in
// the copy, or the file has the old or the new.
func TestCrashInPlace(t *testing.T) {
	before, after := strings.Repeat("before\n", 1<<18), strings.Repeat("after.\n", 1<<19)
	if dir := os.Getenv("GANDER_TEST_CRASH"); dir != "" {
		s, err := files.New(files.Options{WorkingDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for {
			if err := errors.Join(s.WriteFile("one", []byte(after), 0), s.WriteFile("one", []byte(before), 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 5 {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "one"), []byte(before), 0o644), os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "two"))); err != nil {
			t.Fatal(err)
		}
		p, err := os.StartProcess("/proc/self/exe", []string{"crash", "-test.run=^TestCrashInPlace$"}, &os.ProcAttr{Env: append(os.Environ(), "GANDER_TEST_CRASH="+dir)})
		if err != nil {
			t.Fatal(err)
		}
		for changed, n := before, 0; n <= i; { // at another moment each time
			now, err := os.ReadFile(filepath.Join(dir, "two"))
			if err != nil {
				t.Fatal(err)
			}
			if string(now) != changed {
				changed = string(now)
				n++
			}
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = p.Wait()
		whole := func(path string) bool {
			data, err := os.ReadFile(path)
			return err == nil && slices.Contains([]string{before, after}, string(data))
		}
		copies, err := filepath.Glob(filepath.Join(dir, "one.gander-*.before"))
		if err != nil || !whole(filepath.Join(dir, "two")) && !slices.ContainsFunc(copies, whole) {
			t.Errorf("neither the file nor a copy is whole: %q, %v", copies, err)
		}
	}
}

func TestKeepsAsOrdinaryUser(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^TestWriteFileKeeps(Attributes|HardLinks)$"})
}
