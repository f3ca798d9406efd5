package enforce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// opening is one call of openat.
type opening struct {
	Dir   int // a descriptor
	Name  string
	Flags int
	Mode  uint32
}

// outcome is what came of it.
type outcome struct {
	Op     string
	Flags  int
	Got    string // an error, or what the descriptor is
	Object string // the path of what is there, or would be
	Inode  uint64 // of what is there
}

// Descriptors of the process that opens.
const (
	topFD     = 100 + iota // O_PATH, the tree
	subFD                  // a directory that is open for reading
	fileFD                 // a regular file
	closedFD               // O_PATH, a closed file
	linkFD                 // O_PATH, a symbolic link
	removedFD              // a file that has no name any more
	pipeFD
	noFD
)

// manyLinks are as many as the kernel always follows: it counts anew those of a look-up
// that it begins again, up to three times.
const manyLinks = maxLinks / 3

// The names in a tree. None is in a directory above it.
var (
	dirNames  = []string{"d-a", "d-b", "d-c"}
	fileNames = []string{"f-a", "f-b", ".env", ".rules"}
	linkNames = []string{"l-a", "l-b", "l-c", "l-d"}
	newNames  = []string{"n-a", "n-b"}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// grow fills a directory by chance: with directories, files of three bytes, links of both
// kinds, a socket, and now and then with what its owner may not open.
func grow(r *rand.Rand, top, dir string, depth int) error {
	var errs []error
	add := func(err error) {
		if !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	for _, name := range fileNames {
		if r.IntN(3) > 0 {
			add(os.WriteFile(filepath.Join(dir, name), []byte("abc"), 0o644))
			if dir != top && r.IntN(8) == 0 {
				add(os.Chmod(filepath.Join(dir, name), pick(r, []os.FileMode{0, 0o400, 0o200})))
			}
		}
	}
	for _, name := range dirNames {
		if depth > 0 && r.IntN(3) > 0 {
			add(os.Mkdir(filepath.Join(dir, name), 0o755))
			add(grow(r, top, filepath.Join(dir, name), depth-1))
		}
	}
	for _, name := range linkNames {
		target := somePath(r)
		switch r.IntN(6) {
		case 0:
			target = top + "/" + target
		case 1:
			target = pick(r, []string{name, "l-a", "l-b", "/proc/self/cwd/" + target, "/proc/thread-self/fd/100/" + target, "/proc/self/fd/102", "/", "."})
		}
		add(os.Symlink(target, filepath.Join(dir, name)))
	}
	if source := filepath.Join(top, pick(r, fileNames)); r.IntN(2) == 0 {
		if _, err := os.Lstat(source); err == nil {
			add(os.Link(source, filepath.Join(dir, "h-a")))
		}
	}
	add(unix.Mknod(filepath.Join(dir, "s-a"), unix.S_IFSOCK|0o666, 0))
	// A Guard without rights closes files of several names where it cannot list all.
	if dir != top && filepath.Dir(dir) != top && r.IntN(6) == 0 && os.Geteuid() == 0 {
		add(os.Chmod(dir, pick(r, []os.FileMode{0o300, 0o400, 0o500})))
	}
	return errors.Join(errs...)
}

// growTree makes a tree, and what every tree has.
func growTree(t *testing.T, r *rand.Rand, where placement) string {
	t.Helper()
	top := tempTree(t)
	t.Cleanup(func() { // so that it can be removed
		_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(p, 0o700)
			}
			return err
		})
	})
	errs := []error{
		os.Mkdir(filepath.Join(top, "private"), 0o755), os.WriteFile(filepath.Join(top, "private", "key"), []byte("abc"), 0o644),
		os.WriteFile(filepath.Join(top, "f-a"), []byte("abc"), 0o644), os.WriteFile(filepath.Join(top, ".env"), []byte("abc"), 0o644),
		os.Mkdir(filepath.Join(top, "d-a"), 0o755), os.Symlink("f-a", filepath.Join(top, "c-0")),
		grow(r, top, top, 2),
	}
	for i := range maxLinks + 2 {
		errs = append(errs, os.Symlink(fmt.Sprint("c-", i), filepath.Join(top, fmt.Sprint("c-", i+1))))
	}
	if id := where.id; id != nil {
		errs = append(errs, filepath.WalkDir(top, func(p string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(p, id.UID, id.GID))
		}))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return top
}

// somePath is a relative path of names that may be there.
func somePath(r *rand.Rand) string {
	var parts []string
	for range r.IntN(4) {
		parts = append(parts, pick(r, [][]string{dirNames, dirNames, linkNames, {"..", ".", "", "private"}, fileNames})...)
		parts = parts[:len(parts)-r.IntN(len(parts))]
	}
	if len(parts) > 5 {
		parts = parts[:5]
	}
	last := pick(r, [][]string{fileNames, fileNames, linkNames, dirNames, newNames, {"h-a", "s-a", "key", "..", "."}})
	return strings.Join(append(parts, pick(r, last)), "/")
}

// someOpening is a call that a program could make. pid and tid are its own.
func someOpening(r *rand.Rand, top string, pid, tid int) opening {
	o := opening{Dir: unix.AT_FDCWD, Name: somePath(r), Flags: pick(r, []int{unix.O_RDONLY, unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR}), Mode: uint32(r.IntN(0o1000))}
	task := pick(r, []string{"self", "thread-self", strconv.Itoa(pid), strconv.Itoa(tid), "self/task/" + strconv.Itoa(tid), "self/../thread-self", "self/task/../../self", "./self"})
	fd := topFD + r.IntN(noFD-topFD+1)
	reads := false
	switch r.IntN(12) {
	case 0, 1:
		o.Dir = pick(r, []int{topFD, subFD, subFD, fileFD, linkFD, closedFD, noFD, -1})
	case 2, 3:
		o.Name = top + "/" + o.Name
	case 4:
		o.Name = "/proc/" + task + "/cwd/" + o.Name
	case 5:
		o.Name = "/proc/" + task + "/root" + top + "/" + o.Name
	case 6:
		o.Name = "/proc/" + task + "/fd/" + strconv.Itoa(fd) + pick(r, []string{"", "", "/", "/" + o.Name, "/../" + o.Name})
	case 7:
		o.Name = pick(r, []string{"/dev/fd/" + strconv.Itoa(fd), "/dev/null", "/dev/zero", "/dev/null/", "/dev/stdin", "/dev/./null"})
	case 8:
		reads = true
		o.Name = "/proc/" + pick(r, []string{task, "1", "absent", "sys/kernel", "."}) + "/" + pick(r, []string{
			"status", "stat", "environ", "maps", "exe", "ns/mnt", "fd", "fdinfo/100", "attr/current", "cwd", "root", "task", "ostype", "meminfo", "", "status/", "absent", "self", "../version", "fd/999",
		})
	case 9:
		o.Name = pick(r, []string{
			"", "/", ".", "..", "./", "//", strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("./", 2000) + "f-a", strings.Repeat("./", 2046) + "f-a",
			strings.Repeat("./", 2047) + "f-a", strings.Repeat("d-a/../", 500) + "f-a", top + strings.Repeat("/", 3000) + "f-a", strings.Repeat("x", 5000),
			"c-" + strconv.Itoa(r.IntN(manyLinks)), "c-" + strconv.Itoa(maxLinks+r.IntN(2)), "c-3/", "d-a/../c-5", "c-40/", "d-a/../c-41",
		})
	case 10:
		o.Name += pick(r, []string{"/", "/.", "//", "/..", "/./"})
	}
	for _, flag := range []int{
		unix.O_CREAT, unix.O_CREAT, unix.O_EXCL, unix.O_TRUNC, unix.O_APPEND, unix.O_NOFOLLOW, unix.O_DIRECTORY, unix.O_PATH,
		unix.O_NONBLOCK, unix.O_CLOEXEC, unix.O_CLOEXEC, unix.O_NOCTTY, unix.O_SYNC, unix.O_DSYNC, unix.O_NOATIME, unix.O_TMPFILE, unix.O_ACCMODE,
	} {
		if r.IntN(12) == 0 {
			o.Flags |= flag
		}
	}
	if reads { // of a process: as it is not in the tree, it stays what it is
		o.Flags &^= unix.O_ACCMODE | unix.O_TRUNC | unix.O_CREAT
	}
	return o
}

// differ is the inside: it opens by chance, in two threads in turns, and says what came of it.
func differ(top string, seed uint64, times int) []outcome {
	syscall.Umask(0o027)
	for fd, open := range map[int]opening{
		topFD: {Name: ".", Flags: unix.O_PATH}, subFD: {Name: "d-a", Flags: unix.O_DIRECTORY}, fileFD: {Name: "f-a"}, closedFD: {Name: ".env", Flags: unix.O_PATH},
		linkFD: {Name: "c-0", Flags: unix.O_PATH | unix.O_NOFOLLOW}, removedFD: {Name: "removed", Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0o600},
	} {
		got, err := unix.Open(open.Name, open.Flags, open.Mode)
		must(err)
		must(unix.Dup3(got, fd, 0))
		must(unix.Close(got))
	}
	must(os.Remove("removed"))
	var pipe [2]int
	must(unix.Pipe(pipe[:]))
	must(unix.Dup3(pipe[0], pipeFD, 0))
	r := rand.New(rand.NewPCG(seed, 1))
	var all []outcome
	turns := []chan struct{}{make(chan struct{}), make(chan struct{})}
	ended := make(chan struct{})
	for i, mine := range turns {
		next := turns[1-i]
		go func() {
			runtime.LockOSThread() // so that one of them is not the process's first
			for range mine {
				if len(all) == times {
					close(ended)
					return
				}
				all = append(all, carryOut(top, someOpening(r, top, unix.Getpid(), unix.Gettid())))
				next <- struct{}{}
			}
		}()
	}
	turns[0] <- struct{}{}
	<-ended
	return all
}

// carryOut opens, and leaves the tree as it was.
func carryOut(top string, o opening) outcome {
	task := regexp.MustCompile(fmt.Sprintf(`(/proc|/task)/(%d|%d)\b`, unix.Getpid(), unix.Gettid()))
	tidy := func(s string) string { return task.ReplaceAllString(s, "$1/TASK") }
	done := outcome{Op: tidy(fmt.Sprintf("openat(%d, %.200q (%d), %#o, %#o)", o.Dir, o.Name, len(tidy(o.Name)), o.Flags, o.Mode)), Flags: o.Flags}
	var was unix.Stat_t
	done.Object = tidy(reached(o, &was))
	existed := was.Mode != 0
	done.Inode = was.Ino
	fd, err := unix.Openat(o.Dir, o.Name, o.Flags, o.Mode)
	if err != nil {
		done.Got = unix.ErrnoName(number(err))
		return done
	}
	defer func() { _ = unix.Close(fd) }()
	path := pathOf(fd)
	var st unix.Stat_t
	must(unix.Fstat(fd, &st))
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	must(err)
	inherits, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	must(err)
	flags &= unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK | unix.O_SYNC | unix.O_DSYNC | unix.O_NOATIME | unix.O_PATH
	is := fmt.Sprintf("mode %#o flags %#o %d", st.Mode, flags, inherits)
	switch {
	case o.Flags&tmpfile != 0 && o.Flags&unix.O_PATH == 0:
		done.Object = filepath.Dir(path)
		done.Got = fmt.Sprintf("nameless in %s, %s", done.Object, is)
	case !existed:
		done.Object = path
		done.Got = fmt.Sprintf("new %s, %s size %d", path, is, st.Size)
		must(os.Remove(path))
	case strings.HasPrefix(path, top) && !strings.HasSuffix(path, deleted):
		done.Got = fmt.Sprintf("%s, %s size %d inode %d", path, is, st.Size, st.Ino)
		if o.Flags&unix.O_TRUNC != 0 {
			_ = unix.Truncate(path, 3)
		}
	default:
		done.Got = tidy(path) + ", " + is
	}
	return done
}

// reached is the path of what is at a path, or of what would be.
func reached(o opening, st *unix.Stat_t) string {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if o.Flags&unix.O_NOFOLLOW != 0 || o.Flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Openat(o.Dir, o.Name, flags, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		must(unix.Fstat(fd, st))
		return pathOf(fd)
	}
	dir, last := filepath.Split(strings.TrimRight(o.Name, "/"))
	if dir == "" {
		dir = "."
	}
	if fd, err = unix.Openat(o.Dir, dir, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	return filepath.Join(pathOf(fd), last)
}

func pathOf(fd int) string {
	path, err := os.Readlink("/proc/thread-self/fd/" + strconv.Itoa(fd))
	must(err)
	if kind, _, ok := strings.Cut(path, ":["); ok && path[0] != '/' {
		return kind
	}
	return path
}

// changes reports whether a call asks for more than to read.
func (o outcome) changes() bool {
	makes := o.Flags&tmpfile != 0 || o.Flags&unix.O_CREAT != 0 && (o.Inode == 0 || o.Flags&unix.O_EXCL != 0)
	return makes || o.Flags&unix.O_TRUNC != 0 || o.Flags&unix.O_ACCMODE != unix.O_RDONLY
}

// opens reports whether it gave contents, or an entry.
func (o outcome) opens() bool {
	return strings.Contains(o.Got, " ") && o.Flags&unix.O_PATH == 0 && (o.Flags&unix.O_DIRECTORY == 0 || o.Flags&tmpfile != 0)
}

// closed reports whether an object in the tree may not be had that way. links are the access
// to files that have other names, too.
func (o outcome) closed(top string, p Policy, links map[uint64]Access) bool {
	rel, ok := below(strings.TrimSuffix(o.Object, deleted), top)
	if !ok {
		return false
	}
	access := links[o.Inode]
	if rel != "" {
		access = max(access, p.Access(rel, false))
	}
	return forbids(access, o.changes())
}

// ofOthers reports whether it is in /proc and not the process's own.
func (o outcome) ofOthers() bool {
	return strings.HasPrefix(o.Object, "/proc/") && !strings.HasPrefix(o.Object, "/proc/TASK") && (o.changes() || strings.HasPrefix(o.Object, "/proc/1/"))
}

// What the Guard opens is what the kernel opens, or the error is the kernel's, by whatever
// path, but for what is closed.
func TestSameAsKernel(t *testing.T) {
	requireSupport(t)
	const trees, times = 4, 1500
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GANDER_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	p := &rules{closed: []string{".env", "/private"}, readOnly: []string{".rules"}}
	for who, where := range placements(t) {
		for i := range uint64(trees) {
			t.Run(fmt.Sprintf("%s, GANDER_SEED=%d", who, seed+i), func(t *testing.T) {
				top := growTree(t, rand.New(rand.NewPCG(seed+i, 0)), where)
				links := map[uint64]Access{inodeOf(t, top, ".env"): None}
				if _, err := os.Stat(filepath.Join(top, ".rules")); err == nil {
					links[inodeOf(t, top, ".rules")] = ReadOnly
				}
				args := []string{"differ", fmt.Sprint(seed + i), fmt.Sprint(times)}
				var want, got []outcome
				direct(t, top, where, args, &want)
				start(t, top, func() Policy { return p }, where, args...).run(t, &got)
				refused, same := 0, 0
				for i, w := range want {
					closed := w.closed(top, p, links)
					switch g := got[i]; {
					case w.Op != g.Op:
						t.Fatalf("%s is another call: %s", w.Op, g.Op)
					case g.opens() && closed:
						t.Errorf("%s opened what is closed: %s", g.Op, g.Got)
					case g.Got == w.Got:
						same++
					case g.Got == "EACCES" && (closed || w.ofOthers()):
						refused++
					default:
						t.Errorf("%s, which is %q: the kernel gives %s, the Guard %s", w.Op, w.Object, w.Got, g.Got)
					}
				}
				t.Logf("of %d openings %d were the same, and %d refused", times, same, refused)
				if same < times/2 || refused == 0 {
					t.Error("that shows nothing")
				}
			})
		}
	}
}

func inodeOf(t *testing.T, top, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(top, name), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// direct runs the inside as start does, without a Guard.
func direct(t *testing.T, dir string, where placement, args []string, answer any) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), roleVariable+"=bare"), os.Stderr
	if id := where.id; id != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id.UID), Gid: uint32(id.GID)}}
	}
	said, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(said, answer)
	}
	if err != nil {
		t.Fatalf("%q: %v", said, err)
	}
}
