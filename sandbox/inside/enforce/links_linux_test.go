package enforce

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// linkAttacks get at held/.env by the name twin, which it had before.
func linkAttacks() []attack {
	const (
		known = "cat twin; "
		// More events than the kernel keeps.
		flooded = `mkdir a; python3 -c 'import os
for i in range(9000): os.rename("a","b"); os.rename("b","a")'; `
		// A chain of directories is moved to the end of the next, so that no call has a long path.
		deep = `python3 -c 'import os
top=os.getcwd(); below="held"
for j in range(CHAINS):
    os.chdir(top); first=str(j)+"n"*240
    for i in range(15): os.mkdir(first); os.chdir(first)
    os.rename(top+"/"+below,below); below=first'; `
	)
	long, tooDeep := strings.ReplaceAll(deep, "CHAINS", "2"), strings.ReplaceAll(deep, "CHAINS", "6")
	return []attack{
		shell("by a link of what cannot be listed", "chmod 0311 held; cat twin"),
		shell("by a link of what cannot be searched either", "chmod 0 held; cat twin"),
		shell("by a link of what cannot be listed any more", known+"chmod 0311 held; "+flooded+"cat twin"),
		shell("by a link of what is below a long path", long+"cat twin"),
		shell("by a link of what is below a long path by now", known+long+flooded+"cat twin"),
		shell("by a link of what is too deep", tooDeep+"cat twin"),
		shell("for writing, by a link of what cannot be listed", "chmod 0311 held; exec 3<>twin && cat <&3"),
	}
}

// plantTwin makes a closed file with a name that closes nothing, and one that is open with two.
func plantTwin(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, "held"), 0o777))
	must(os.WriteFile(filepath.Join(dir, "held/.env"), []byte(secret), 0o644))
	must(os.Link(filepath.Join(dir, "held/.env"), filepath.Join(dir, "twin")))
	must(os.WriteFile(filepath.Join(dir, "plain"), []byte("plain"), 0o644))
	must(os.Link(filepath.Join(dir, "plain"), filepath.Join(dir, "plain-too")))
}

func closesEnv() func() Policy {
	r := &rules{closed: []string{".env"}}
	return func() Policy { return r }
}

func TestLinksOfWhatIsOutOfSight(t *testing.T) {
	requireSupport(t)
	for _, a := range linkAttacks() {
		t.Run(a.name, func(t *testing.T) {
			dir := tempTree(t)
			plantTwin(t, dir)
			var r report
			start(t, dir, closesEnv(), placement{}, "attack", a.name).run(t, &r)
			if r.Leak {
				t.Errorf("the secret got out: %s", r.Said)
			}
			control := tempTree(t)
			plantTwin(t, control)
			if c := perform(a, control); !c.Leak {
				t.Errorf("it does not work outside either: %s", c.Said)
			}
		})
	}
}

// indexOf is the index of a planted tree, and what is asked of it.
func indexOf(t *testing.T) (x *linkIndex, twin, plain inode) {
	t.Helper()
	dir := tempTree(t)
	plantTwin(t, dir)
	g, err := New(Options{Trees: []Tree{{Path: dir, Policy: closesEnv()}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.release)
	of := func(name string) inode {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &st); err != nil {
			t.Fatal(err)
		}
		return inode{st.Dev, st.Ino}
	}
	return g.trees[0].links, of("twin"), of("plain")
}

func expectAccess(t *testing.T, when string, x *linkIndex, i inode, want Access) {
	t.Helper()
	if got := x.access(i, x.caller); got != want {
		t.Errorf("%s: access %d, want %d", when, got, want)
	}
}

// Without descriptors nothing can be listed, and every file with several links is closed.
func TestLinksWithoutDescriptors(t *testing.T) {
	x, twin, plain := indexOf(t)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
	}
	some := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(some)
	none()
	expectAccess(t, "at first, a closed file", x, twin, None)
	expectAccess(t, "at first, an open file", x, plain, None)
	some()
	time.Sleep(relist)
	expectAccess(t, "with descriptors, a closed file", x, twin, None)
	expectAccess(t, "with descriptors, an open file", x, plain, Full)
	x.mu.Lock()
	x.lost = true
	x.mu.Unlock()
	none()
	expectAccess(t, "once more without, a closed file", x, twin, None)
	expectAccess(t, "once more without, an open file", x, plain, None)
	if x.inodes[twin] != None {
		t.Error("a closed file was forgotten")
	}
}

// Where nothing tells of changes, a directory that moves could pass the look.
func TestLinksWithoutWatches(t *testing.T) {
	was := watches
	watches = func(int) (int, error) { return -1, unix.EMFILE }
	t.Cleanup(func() { watches = was })
	x, twin, plain := indexOf(t)
	expectAccess(t, "a closed file", x, twin, None)
	expectAccess(t, "an open file", x, plain, Full)
	x.renames.begun.Add(1)
	expectAccess(t, "a closed file during a rename", x, twin, None)
	expectAccess(t, "an open file during a rename", x, plain, None)
	x.renames.over.Add(1)
	expectAccess(t, "an open file afterwards", x, plain, Full)
}

// What is in a directory of somebody else's is closed to the caller by its names there.
// Files of the caller's stay open, as node_modules beside a database's directory.
func TestLinksBesideSomebodyElses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is somebody else")
	}
	const caller, other = 1234, 77
	for _, tt := range []struct {
		name    string
		owner   int
		mode    os.FileMode
		foreign bool
	}{
		{"closed to all others", other, 0o700, true},
		{"open to others of a group", other, 0o750, true},
		{"that can be entered", other, 0o711, false},
		{"of the caller's own", caller, 0o700, false},
	} {
		x, twin, plain := indexOf(t)
		expectAccess(t, "at first, an open file", x, plain, Full)
		held := filepath.Join(x.tree.path, "held")
		if err := errors.Join(os.Chown(held, tt.owner, tt.owner), os.Chmod(held, tt.mode)); err != nil {
			t.Fatal(err)
		}
		x.caller = caller
		x.fail("held", unix.EACCES) // as to who has no rights to it
		var open, closed, others Access
		as(t, caller, func() {
			open, closed, others = x.access(plain, caller), x.access(twin, caller), x.access(plain, other)
		})
		want := None
		if tt.foreign {
			want = Full
		}
		if open != want || closed != None || others != None {
			t.Errorf("%s: access to the caller's file %d, to a closed one %d, to somebody else's %d", tt.name, open, closed, others)
		}
	}
}

// as has something done with a user's rights, on a thread that ends with it.
func as(t *testing.T, user uintptr, do func()) {
	t.Helper()
	done := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread()
		_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, user, user, user)
		if e == 0 {
			do()
		}
		done <- e
	}()
	if e := <-done; e != 0 {
		t.Fatal(e)
	}
}

func TestShutsOwner(t *testing.T) {
	list := func(owner uint16) []byte {
		b := []byte{2, 0, 0, 0}
		for _, e := range []struct{ tag, permissions uint16 }{{1, owner}, {4, 0}, {32, 0}} {
			b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, e.tag), e.permissions)
			b = append(b, 0xff, 0xff, 0xff, 0xff)
		}
		return b
	}
	for _, tt := range []struct {
		list []byte
		want bool
	}{{list(7), false}, {list(5), false}, {list(6), true}, {list(1), true}, {list(0), true}, {nil, true}, {list(7)[:6], true}} {
		if got := shutsOwner(tt.list); got != tt.want {
			t.Errorf("%x shuts: %v", tt.list, got)
		}
	}
}
