package enforce

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// secret is what the closed files hold.
const secret = "s3cr3t-canary-0451"

// attack tries to get at the contents of the closed file, or to change it. It
// returns what it read; a change is found out afterwards.
type attack struct {
	name string
	try  func(dir string) ([]byte, error)
}

// shell is an attack by a program.
func shell(name, script string) attack {
	return attack{name, func(dir string) ([]byte, error) {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}}
}

func readFD(fd int, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "f")
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

// openWith opens a path by a raw system call.
func openWith(name string, open func(dir string) (int, error)) attack {
	return attack{name, func(dir string) ([]byte, error) { return readFD(open(dir)) }}
}

func cstring(s string) uintptr {
	p, _ := unix.BytePtrFromString(s)
	return uintptr(unsafe.Pointer(p))
}

// attacks is the catalogue. Each must succeed where nothing is enforced.
func attacks() []attack {
	list := []attack{
		// names
		shell("by name", "cat .env"),
		shell("by absolute name", `cat "$PWD/.env"`),
		shell("by a name with dots", "cat sub/../././.env"),
		shell("by doubled slashes", `cat "$PWD//.//.env"`),
		shell("in a closed directory", "cat private/key"),
		shell("from inside a closed directory", "cd private && cat key"),
		shell("below a closed directory", "cat private/deep/er/key"),
		shell("by another user's tool", "dd if=.env 2>/dev/null"),
		shell("by a glob", "cat .e*"),
		shell("by find", "find . -type f -exec cat {} +"),
		shell("by grep", "grep -r . . --include=.env"),
		shell("by tar", "tar cf - .env 2>/dev/null"),
		shell("by cp", "cp .env copy && cat copy"),
		shell("by a script's interpreter", "sh .env"),
		shell("by mmap through python", `python3 -c 'import mmap,os;f=os.open(".env",0);print(mmap.mmap(f,0,prot=1)[:])'`),
		// links
		shell("by a symbolic link", "ln -s .env l && cat l"),
		shell("by a chain of links", "ln -s .env a; ln -s a b; ln -s b c; cat c"),
		shell("by a link to the directory", "ln -s . d; cat d/.env"),
		shell("by a link to an absolute path", `ln -s "$PWD/.env" l; cat l`),
		shell("by a link outside", `ln -s "$PWD/.env" "$OUT/l"; cat "$OUT/l"`),
		shell("by a link to a closed directory", "ln -s private p; cat p/key"),
		shell("by a hard link", "ln .env h && cat h"),
		shell("by a hard link outside", `ln .env "$OUT/h" && cat "$OUT/h"`),
		shell("by a hard link that was there", "cat hardlink"),
		shell("by a hard link that was there outside", `cat "$OUT/hardlink"`),
		// names that change
		shell("by renaming", "mv .env plain && cat plain"),
		shell("by renaming outside", `mv .env "$OUT/plain" && cat "$OUT/plain"`),
		shell("by renaming the parent", "mv private public && cat public/key"),
		shell("by renaming the parent outside", `mv private "$OUT/public" && cat "$OUT/public/key"`),
		shell("by exchanging", `python3 - <<'E'
import ctypes,os
open("plain","w").close()
libc=ctypes.CDLL(None)
libc.renameat2(-100,b".env",-100,b"plain",2)
print(open("plain").read())
E`),
		// descriptors and proc
		shell("by /proc/self/cwd", "cat /proc/self/cwd/.env"),
		shell("by /proc/self/root", `cat "/proc/self/root$PWD/.env"`),
		shell("by /proc/thread-self", "cat /proc/thread-self/cwd/.env"),
		shell("by /proc of the shell", "cat /proc/$$/cwd/.env"),
		shell("by a detour in /proc", `cat /proc/self/../self/cwd/.env || cat "/proc/self/../../$PWD/.env" || cat "/proc/self/task/../root/$PWD/.env"`),
		shell("by a link to /proc", "ln -s /proc/self/cwd c; cat c/.env"),
		shell("by /dev/fd", "exec 9<. 2>/dev/null; cat /dev/fd/9/.env || cat /proc/self/fd/9/.env"),
		openWith("by openat of a directory", func(dir string) (int, error) {
			fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
			if err != nil {
				return -1, err
			}
			return unix.Openat(fd, ".env", unix.O_RDONLY, 0)
		}),
		openWith("by openat of an O_PATH directory", func(dir string) (int, error) {
			fd, err := unix.Open(dir, unix.O_PATH, 0)
			if err != nil {
				return -1, err
			}
			return unix.Openat(fd, "./private//key", unix.O_RDONLY, 0)
		}),
		openWith("by reopening an O_PATH descriptor", func(dir string) (int, error) {
			fd, err := unix.Open(dir+"/.env", unix.O_PATH, 0)
			if err != nil {
				return -1, err
			}
			return unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY, 0)
		}),
		openWith("by reopening through the thread", func(dir string) (int, error) {
			fd, err := unix.Open(dir+"/.env", unix.O_PATH, 0)
			if err != nil {
				return -1, err
			}
			return unix.Open(fmt.Sprintf("/proc/thread-self/fd/%d", fd), unix.O_RDWR, 0)
		}),
		openWith("by openat2", func(dir string) (int, error) {
			return unix.Openat2(unix.AT_FDCWD, dir+"/.env", &unix.OpenHow{Flags: unix.O_RDONLY})
		}),
		openWith("for reading and writing", func(dir string) (int, error) { return unix.Open(dir+"/.env", unix.O_RDWR, 0) }),
		openWith("with O_CREAT", func(dir string) (int, error) { return unix.Open(dir+"/.env", unix.O_RDWR|unix.O_CREAT, 0o600) }),
		openWith("with unusual flags", func(dir string) (int, error) {
			return unix.Open(dir+"/.env", unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_SYNC|unix.O_CLOEXEC, 0)
		}),
		openWith("with bits that mean nothing", func(dir string) (int, error) {
			fd, _, e := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), cstring(dir+"/.env"), 1<<27, 0, 0, 0)
			if e != 0 {
				return -1, e
			}
			return int(fd), nil
		}),
		openWith("with garbage in the high words", func(dir string) (int, error) {
			fd, _, e := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), cstring(dir+"/.env"), 0xdead<<32, 0, 0, 0)
			if e != 0 {
				return -1, e
			}
			return int(fd), nil
		}),
		openWith("by a dangling link that is created", func(dir string) (int, error) {
			if err := os.Symlink(dir+"/sub/../.env", dir+"/dangling"); err != nil {
				return -1, err
			}
			return unix.Open(dir+"/dangling", unix.O_RDWR|unix.O_CREAT, 0o600)
		}),
		{"by copying descriptors of a child", func(dir string) ([]byte, error) {
			fd, err := unix.Open(dir+"/.env", unix.O_PATH, 0)
			if err != nil {
				return nil, err
			}
			cmd := exec.Command("/bin/cat", "/proc/self/fd/3")
			cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "x")}
			return cmd.CombinedOutput()
		}},
	}
	return append(list, olderAttacks()...)
}

// changes try to write; whether they did is seen in the files.
func changeAttacks() []attack {
	return []attack{
		shell("overwriting", "echo x > .env"),
		shell("appending", "echo x >> .env"),
		shell("truncating", "truncate -s 0 .env"),
		shell("removing", "rm -f .env"),
		shell("replacing by rename", "echo x > n && mv -f n .env"),
		shell("replacing by a link", "ln -sf sub .env"),
		shell("replacing by a hard link", "echo x > n && ln -f n .env"),
		shell("sed -i", "sed -i s/s3/xx/ .env"),
		shell("overwriting by a link", "ln -s .env l && echo x > l"),
		shell("overwriting by a hard link", "echo x > hardlink"),
		shell("overwriting in a closed directory", "echo x > private/key"),
		shell("removing a closed directory", "rm -rf private"),
		shell("O_TRUNC for reading", `python3 -c 'import os; os.open(".env", os.O_RDONLY|os.O_TRUNC)'`),
		shell("by /proc", "echo x > /proc/self/cwd/.env"),
		shell("changing a read-only file", "echo x > .rules"),
		shell("replacing a read-only file", "echo x > n && mv -f n .rules"),
		shell("removing a read-only file", "rm -f .rules"),
		shell("linking a read-only file", "ln .rules r && echo x > r"),
		shell("creating a closed name", "echo x > sub/.env"),
		shell("making a directory of a closed name", "mkdir sub/.env"),
		shell("making a link of a closed name", "ln -s nothing sub/.env"),
		shell("making a fifo of a closed name", "mkfifo sub/.env"),
		shell("renaming to a closed name", "echo x > sub/n; mv sub/n sub/.env"),
	}
}

// populate makes a project and a directory beside it with the same owner.
func populate(dir, out string) error {
	for name, text := range map[string]string{
		".env": secret, "private/key": secret, "private/deep/er/key": secret, "sub/plain": "plain", ".rules": "closed: .env\n", "open": "open",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return errors.Join(
		os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "hardlink")),
		os.Link(filepath.Join(dir, ".env"), filepath.Join(out, "hardlink")),
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if d.IsDir() {
				return os.Chmod(p, 0o777)
			}
			return os.Chmod(p, 0o666)
		}))
}

// report is what an attack did: whether it got the secret, and what it said.
type report struct {
	Leak bool
	Said string
}

// perform runs one attack in a directory.
func perform(a attack, dir string) report {
	out, err := a.try(dir)
	return report{bytes.Contains(out, []byte(secret)), fmt.Sprintf("%.300q %v", out, err)}
}

// work is a use by its name.
func work(name string) func(string) ([]byte, error) {
	for _, some := range []map[string]func(string) ([]byte, error){uses(), stuckUses(), streakUses(), fifoUses(), renameUses(), traceUses(), publicUses(), programUses(), exchangeUses(), touchedUses()} {
		if use := some[name]; use != nil {
			return use
		}
	}
	return nil
}

// inside is what the supervised process does.
func inside() {
	syscall.Umask(0)
	dir, _ := os.Getwd()
	switch os.Args[1] {
	case "attack":
		list := slices.Concat(attacks(), changeAttacks(), linkAttacks())
		i := slices.IndexFunc(list, func(a attack) bool { return a.name == os.Args[2] })
		must(json.NewEncoder(os.Stdout).Encode(perform(list[i], dir)))
	case "use":
		must(json.NewEncoder(os.Stdout).Encode(perform(attack{"", work(os.Args[2])}, dir)))
	case "spy":
		must(json.NewEncoder(os.Stdout).Encode(perform(attack{"", spies()[os.Args[2]]}, dir)))
	case "race":
		must(json.NewEncoder(os.Stdout).Encode(race(dir)))
	case "climb":
		must(json.NewEncoder(os.Stdout).Encode(climb(dir)))
	case "differ":
		seed, err := strconv.ParseUint(os.Args[2], 10, 64)
		must(err)
		times, err := strconv.Atoi(os.Args[3])
		must(err)
		must(json.NewEncoder(os.Stdout).Encode(differ(dir, seed, times)))
	}
}

// files are the contents of all that matters, to see changes.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{".env", "private/key", "hardlink", ".rules", "sub/.env"} {
		path := filepath.Join(dir, name)
		if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
			all[name] = "no file"
			if err == nil {
				all[name] = st.Mode().String()
			}
			continue
		}
		b, err := os.ReadFile(path)
		all[name] = fmt.Sprint(string(b), err)
	}
	return all
}

// placement is what a Guard is told about where it is. Not every pair is tried: with the
// race detector each placement takes minutes, and the probe has the rest.
type placement struct {
	id           *Identity
	staticMounts bool
	ownNetwork   bool
	public       []string
}

func placements(t *testing.T) map[string]placement {
	t.Helper()
	if os.Geteuid() != 0 {
		return map[string]placement{"ordinary user": {}, "ordinary user, static mounts": {staticMounts: true}}
	}
	return map[string]placement{
		"root": {}, "root for another user, static mounts": {id: &Identity{UID: 1234, GID: 1234}, staticMounts: true},
	}
}

func stage(t *testing.T) (dir, out string) {
	t.Helper()
	dir, out = tempTree(t), tempTree(t)
	t.Setenv("OUT", out)
	if err := populate(dir, out); err != nil {
		t.Fatal(err)
	}
	return dir, out
}

func testPolicy() func() Policy {
	p := &rules{closed: []string{".env", "/private"}, readOnly: []string{".rules"}}
	return func() Policy { return p }
}

func TestAttacks(t *testing.T) {
	requireSupport(t)
	for who, where := range placements(t) {
		for _, a := range attacks() {
			t.Run(who+"/"+a.name, func(t *testing.T) {
				dir, _ := stage(t)
				var r report
				s := start(t, dir, testPolicy(), where, "attack", a.name)
				s.run(t, &r)
				if r.Leak {
					t.Errorf("the secret got out: %s", r.Said)
				}
				if s.denied() == 0 && !strings.Contains(a.name, "openat2") {
					t.Errorf("nobody was told of a denial; inside said %s", r.Said)
				}
				controlDir, _ := stage(t)
				if c := perform(a, controlDir); !c.Leak {
					t.Errorf("the attack is none: without enforcement it got %s", c.Said)
				}
			})
		}
	}
}

func TestChanges(t *testing.T) {
	requireSupport(t)
	for who, where := range placements(t) {
		for _, a := range changeAttacks() {
			t.Run(who+"/"+a.name, func(t *testing.T) {
				dir, _ := stage(t)
				before := files(t, dir)
				var r report
				start(t, dir, testPolicy(), where, "attack", a.name).run(t, &r)
				for name, was := range before {
					if now := files(t, dir)[name]; now != was {
						t.Errorf("%s was %q and is %q; inside said %s", name, was, now, r.Said)
					}
				}
				controlDir, _ := stage(t)
				perform(a, controlDir)
				if fmt.Sprint(files(t, controlDir)) == fmt.Sprint(before) {
					t.Error("the attack is none: without enforcement it changed nothing")
				}
			})
		}
	}
}

func requireSupport(t *testing.T) {
	t.Helper()
	if err := Supported(); err != nil {
		if os.Getenv("GANDER_CHECK") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}
