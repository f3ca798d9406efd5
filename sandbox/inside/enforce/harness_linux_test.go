package enforce

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test program is its own supervised process: it is started again with a role.
const roleVariable = "ENFORCE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "launch":
		launch(true)
	case "bare":
		launch(false)
	case "inside":
		inside()
	default:
		os.Exit(m.Run())
	}
}

// launch becomes the inside. A supervised one has the filter, whose listener it hands over
// before.
func launch(supervised bool) {
	runtime.LockOSThread()
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	must(unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &make([]unix.CapUserData, 2)[0]))
	must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	env := append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, roleVariable) }), roleVariable+"=inside")
	args := append([]string{"/proc/self/exe"}, os.Args[1:]...)
	if supervised {
		fd, err := Filter{Connect: true}.Install()
		must(err)
		must(unix.Sendmsg(3, []byte{0}, unix.UnixRights(fd), nil, 0))
		must(unix.Close(fd))
		must(unix.Close(3))
	}
	must(unix.Exec("/proc/self/exe", args, env))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "inside:", err)
		os.Exit(125)
	}
}

// rules are a policy of base names and directories, for tests.
type rules struct {
	closed, readOnly []string // base names, or paths that begin with /
}

func (r *rules) Access(rel string, dir bool) Access {
	for p := rel; p != "."; p = path.Dir(p) {
		for _, pattern := range r.closed {
			if ok, _ := path.Match(strings.TrimPrefix(pattern, "/"), name(pattern, p)); ok {
				return None
			}
		}
	}
	for _, pattern := range r.readOnly {
		if ok, _ := path.Match(strings.TrimPrefix(pattern, "/"), name(pattern, rel)); ok {
			return ReadOnly
		}
	}
	return Full
}

func (r *rules) Closed(rel string, dir bool) bool { return r.Access(rel, dir) == None }

func name(pattern, rel string) string {
	if strings.HasPrefix(pattern, "/") {
		return rel
	}
	return path.Base(rel)
}

func (r *rules) ByName() bool {
	return !slices.ContainsFunc(r.closed, func(p string) bool { return p[0] == '/' })
}

func (r *rules) MayMove(string, string) bool { return true }

func (r *rules) Moving() (over func()) { return func() {} }

func (r *rules) MayLink(string) bool { return true }

// supervised is a process that runs the test program inside.
type supervised struct {
	cmd    *exec.Cmd
	guard  *Guard
	stdout bytes.Buffer
	stderr bytes.Buffer

	mu      sync.Mutex
	denials []Denial
}

// start runs the inside with arguments.
func start(t *testing.T, tree string, policy func() Policy, where placement, args ...string) *supervised {
	t.Helper()
	s := &supervised{}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	var child atomic.Int64
	s.guard, err = New(Options{
		Trees: []Tree{{Path: tree, Policy: policy}}, Identity: where.id, StaticMounts: where.staticMounts, OwnNetwork: where.ownNetwork, Public: where.public,
		Inside: func(pid int) bool { return descends(pid, int(child.Load())) },
		Denied: func(d Denial) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.denials = append(s.denials, d)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command("/proc/self/exe", args...)
	s.cmd.Dir, s.cmd.Env = tree, append(os.Environ(), roleVariable+"=launch")
	s.cmd.ExtraFiles, s.cmd.Stdout, s.cmd.Stderr = []*os.File{theirs}, &s.stdout, &s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if id := where.id; id != nil {
		s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(id.UID), Gid: uint32(id.GID)}
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child.Store(int64(s.cmd.Process.Pid))
	_ = theirs.Close()
	s.guard.Serve(receiveListener(t, pair[0]))
	t.Cleanup(func() {
		_ = unix.Kill(-s.cmd.Process.Pid, unix.SIGKILL)
		_ = s.cmd.Wait()
		s.guard.Close()
		_ = unix.Close(pair[0])
	})
	return s
}

// denied is how many denials there were.
func (s *supervised) denied() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.denials)
}

// waitDenied waits until there were n denials.
func (s *supervised) waitDenied(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); s.denied() < n; time.Sleep(20 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d opens were denied, not %d", s.denied(), n)
		}
	}
}

func receiveListener(t *testing.T, socket int) int {
	t.Helper()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		t.Fatalf("the supervised process did not install its filter: %v", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	return fds[0]
}

// descends reports whether a process is from, or one below it.
func descends(pid, from int) bool {
	for pid > 1 && pid != from {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		_, _ = fmt.Sscan(f[1], &pid)
	}
	return pid == from
}

// run starts the inside, waits for it and decodes its answer.
func (s *supervised) run(t *testing.T, answer any) {
	t.Helper()
	if err := s.cmd.Wait(); err != nil {
		t.Fatalf("inside: %v\n%s%s", err, s.stdout.String(), s.stderr.String())
	}
	if err := json.Unmarshal(s.stdout.Bytes(), answer); err != nil {
		t.Fatalf("inside said %q: %v\n%s", s.stdout.String(), err, s.stderr.String())
	}
}

// tempTree is a directory that everybody can use, by its real name.
func tempTree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			break
		}
	}
	return dir
}
