package sandboxtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"gander.dev/gander/sandbox"
)

// TestIsolation tests what a sandbox hides and forbids. owner is as for TestDriver.
// A sandbox that has an image's files (Info.Image) may show what every image has;
// of the machine's it must hide as much.
func TestIsolation(t *testing.T, newDriver NewDriver, owner int) {
	spec := Spec(t, owner)
	canaries := plantCanaries(t, filepath.Dir(spec.WorkingDir))
	shown := filepath.Join(t.TempDir(), "shown")
	if err := os.WriteFile(shown, []byte("mounted\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec.Mounts = []sandbox.Mount{{Path: shown}}
	sb := Create(t, newDriver(t), spec)

	// A probe first: a sandbox in which nothing works would pass the rest.
	if out, errs, st := Run(t, sb, "echo alive > here; cat here"); out != "alive\n" || st.Code != 0 {
		t.Fatalf("a command does not work: %q %q %+v", out, errs, st)
	}
	t.Run("Project", func(t *testing.T) { testProject(t, sb, spec) })
	t.Run("Home", func(t *testing.T) { testHome(t, sb, spec) })
	t.Run("Hidden", func(t *testing.T) { testHidden(t, sb, hidden(sb.Info(), canaries)) })
	t.Run("Mounts", func(t *testing.T) { testMounts(t, sb, shown) })
	t.Run("ReadOnly", func(t *testing.T) { testReadOnly(t, sb) })
	t.Run("Privileges", func(t *testing.T) { testPrivileges(t, sb) })
	t.Run("Processes", func(t *testing.T) { testProcesses(t, sb) })
	t.Run("Supervisor", func(t *testing.T) { testSupervisor(t, sb) })
	t.Run("Network", func(t *testing.T) { testNetwork(t, sb) })
	t.Run("Devices", func(t *testing.T) { testDevices(t, sb) })
	t.Run("Stopped", func(t *testing.T) { testStopped(t, sb) })
	t.Run("GoesOn", func(t *testing.T) { testGoesOn(t, sb, spec.WorkingDir) })
	if info := sb.Info(); !info.Isolated {
		t.Errorf("it does not say that it isolates: %+v", info)
	}
}

// plantCanaries puts files where a sandbox must not see them.
func plantCanaries(t *testing.T, beside string) []string {
	t.Helper()
	dirs := []string{beside, os.TempDir(), "/var/tmp", "/dev/shm"}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, home)
	}
	var planted []string
	for _, dir := range dirs {
		f, err := os.CreateTemp(dir, "gander-canary-*")
		if err != nil {
			continue // not ours to write to
		}
		t.Cleanup(func() { _ = os.Remove(f.Name()) })
		_, _ = f.WriteString("canary\n")
		_ = f.Close()
		planted = append(planted, f.Name())
	}
	if len(planted) < 3 {
		t.Fatalf("only %q could be planted", planted)
	}
	return planted
}

func testProject(t *testing.T, sb sandbox.Sandbox, spec sandbox.Spec) {
	out, errs, _ := Run(t, sb, "pwd; echo inside > new; mkdir sub; cat from-host 2>/dev/null")
	if out != spec.WorkingDir+"\n" {
		t.Errorf("commands start in %q, want %s (%s)", out, spec.WorkingDir, errs)
	}
	want, err := os.Stat(spec.WorkingDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new", "sub"} {
		got, err := os.Stat(filepath.Join(spec.WorkingDir, name))
		if err != nil {
			t.Errorf("what was made inside is not there: %v", err)
		} else if ownerOf(got) != ownerOf(want) {
			t.Errorf("%s belongs to %s, the project to %s", name, ownerOf(got), ownerOf(want))
		}
	}
	if err := os.WriteFile(filepath.Join(spec.WorkingDir, "from-host"), []byte("host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := Run(t, sb, "cat from-host"); out != "host\n" {
		t.Errorf("what the host writes reads as %q", out)
	}
}

func testHome(t *testing.T, sb sandbox.Sandbox, spec sandbox.Spec) {
	if _, errs, _ := Run(t, sb, "echo kept > "+sb.Info().Home+"/file"); errs != "" {
		t.Errorf("writing to the home: %s", errs)
	}
	if b, _ := os.ReadFile(filepath.Join(spec.Home, "file")); string(b) != "kept\n" {
		t.Errorf("the home holds %q", b)
	}
}

// hidden are paths that must not be there: those of the machine, and where they are
// not an image's own, the directories that hold private things.
func hidden(info sandbox.Info, canaries []string) []string {
	paths := append(slices.Clone(canaries), "/home/tester", "/run/docker.sock", "/var/run/docker.sock", "/run/dbus", "/tmp/.X11-unix")
	if info.Image == "" {
		paths = append(paths, "/root", "/mnt", "/media", "/srv", "/var/log", "/var/lib")
	}
	return paths
}

func testHidden(t *testing.T, sb sandbox.Sandbox, paths []string) {
	for _, path := range paths {
		if out, _, _ := Run(t, sb, "ls -d "+path+" 2>/dev/null"); out != "" {
			t.Errorf("%s is visible", path)
		}
	}
	if out, _, _ := Run(t, sb, "cat /etc/shadow /etc/gshadow 2>/dev/null"); out != "" && sb.Info().Image == "" {
		t.Error("/etc/shadow can be read")
	}
}

func testMounts(t *testing.T, sb sandbox.Sandbox, path string) {
	if out, errs, _ := Run(t, sb, "cat "+path); out != "mounted\n" {
		t.Errorf("the mount reads as %q: %s", out, errs)
	}
	if _, _, st := Run(t, sb, "echo changed > "+path); st.Code == 0 {
		t.Error("a read-only mount was written to")
	}
}

func testReadOnly(t *testing.T, sb sandbox.Sandbox) {
	closed := []string{"/usr/x", "/etc/x", "/bin/x", "/x", "/home/x", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches"}
	if sb.Info().Image == "" { // a container's is in memory and belongs to its root
		closed = append(closed, "/dev/x")
	}
	for _, path := range closed {
		if _, _, st := Run(t, sb, "echo x > "+path); st.Code == 0 {
			t.Errorf("%s could be written", path)
		}
	}
	for _, path := range []string{"/tmp/x", "/var/tmp/x", "/dev/shm/x"} {
		if _, errs, st := Run(t, sb, "echo x > "+path); st.Code != 0 {
			t.Errorf("%s could not be written: %s", path, errs)
		}
	}
}

func testPrivileges(t *testing.T, sb sandbox.Sandbox) {
	out, _, _ := Run(t, sb, "cat /proc/self/status")
	want := map[string]string{"CapEff": "0", "CapPrm": "0", "CapBnd": "0", "CapInh": "0", "CapAmb": "0", "NoNewPrivs": "1"}
	for line := range strings.Lines(out) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		w, ok := want[k]
		delete(want, k)
		if v = strings.TrimLeft(strings.TrimSpace(v), "0"); ok && v != strings.TrimLeft(w, "0") {
			t.Errorf("%s is %q, want %s", k, v, w)
		}
	}
	if len(want) > 0 {
		t.Errorf("not in /proc/self/status: %v", want)
	}
	for _, script := range []string{
		"umount /etc", "umount -l /usr", "mount -t tmpfs none /etc", "mount -o remount,rw /usr", "mount -o remount,rw,bind /usr",
		"chroot / true", "mknod /tmp/disk b 254 0", "chown 1 here", "hostname evil", "ip link set lo down 2>/dev/null || exit 1",
		"nsenter -t 1 -m true",
	} {
		if _, _, st := Run(t, sb, script); st.Code == 0 {
			t.Errorf("%s is permitted", script)
		}
	}
}

// testProcesses: only processes of the sandbox are to be seen, and few of them.
func testProcesses(t *testing.T, sb sandbox.Sandbox) {
	mark := Mark()
	outside := fmt.Sprint(os.Getpid())
	p := Start(t, sb, "sleep 1000", mark)
	out, _, _ := Run(t, sb, `for d in /proc/[0-9]*; do tr '\0' ' ' < $d/cmdline; echo; done`)
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "supervise") && !strings.Contains(line, "sh -c") && !strings.Contains(line, "sleep 1000") && !strings.HasPrefix(line, "tr ") {
			t.Errorf("a process is to be seen: %q", line)
		}
	}
	if _, _, st := Run(t, sb, "kill -0 "+outside); st.Code == 0 {
		t.Errorf("process %s of the host could be signalled", outside)
	}
	Kill(t, p)
}

// testSupervisor attacks what runs the sandbox: it must not be readable, and
// killing it ends the sandbox at worst.
func testSupervisor(t *testing.T, sb sandbox.Sandbox) {
	script := `for d in /proc/[0-9]*; do
		case "$(tr '\0' ' ' < $d/cmdline)" in "gander supervise"*)
			for f in environ mem maps; do head -c 1 $d/$f >/dev/null 2>&1 && echo "$d/$f"; done
			for f in root cwd; do ls $d/$f/ 2>/dev/null | head -1; done; readlink $d/fd/* $d/exe
		esac
	done; kill -KILL 1; kill -TERM 1; kill -SEGV 1; kill -QUIT 1; sleep 0.1; echo done`
	out, _, _ := Run(t, sb, script)
	if out != "done\n" {
		t.Errorf("of the supervisor can be read: %q", out)
	}
	if out, _, _ := Run(t, sb, "echo alive"); out != "alive\n" {
		t.Errorf("after signals to PID 1: %q", out)
	}
}

// testNetwork: a listener on the host's loopback device hears nothing.
func testNetwork(t *testing.T, sb sandbox.Sandbox) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var heard atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			heard.Add(1)
			_ = c.Close()
		}
	}()
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	script := `import socket, sys
for host in ("127.0.0.1", "localhost", "10.0.0.1", "1.1.1.1"):
    try:
        socket.create_connection((host, ` + port + `), timeout=2)
        print("reached", host)
    except OSError as e: pass
`
	p := StartCommand(t, sb, sandbox.Command{Args: []string{"python3", "-c", script}, Env: Env()})
	if out := readAll(t, p.Stdout()); out != "" {
		t.Errorf("from inside: %s", out)
	}
	if st := Wait(t, p); st.Code != 0 {
		t.Errorf("the probe did not run: %+v %s", st, readAll(t, p.Stderr()))
	}
	if n := heard.Load(); n != 0 {
		t.Errorf("the host heard %d connections", n)
	}
	if out, _, _ := Run(t, sb, "grep -c : /proc/net/dev; cat /proc/net/route | wc -l"); out != "1\n1\n" {
		t.Errorf("devices and routes: %q", out)
	}
}

func testDevices(t *testing.T, sb sandbox.Sandbox) {
	script := `echo x > /dev/null && head -c 4 /dev/urandom | wc -c && head -c 1 /dev/zero | wc -c && echo via > /dev/stdout && ls /dev | sort | tr '\n' ' '`
	out, errs, _ := Run(t, sb, script)
	fields := strings.Fields(out)
	if len(fields) < 3 || fields[0] != "4" || fields[1] != "1" || fields[2] != "via" {
		t.Errorf("devices: %q %q", out, errs)
	}
	want := "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
	got := strings.Join(fields[min(3, len(fields)):], " ")
	if sb.Info().Image != "" { // a daemon adds these, of which neither is the machine's
		got = strings.NewReplacer("console ", "", "core ", "", "mqueue ", "").Replace(got)
	}
	if got != want {
		t.Errorf("/dev holds %q, want %q", got, want)
	}
}

// ownerOf renders who owns a file.
func ownerOf(info os.FileInfo) string {
	uid, gid := fileOwner(info)
	return strconv.Itoa(uid) + ":" + strconv.Itoa(gid)
}
