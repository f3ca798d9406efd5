package enforce

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	longFIFOUse    = "by a path of many components"
	crowdedFIFOUse = "more than may wait"
)

// fifoUses are work with FIFOs, more of them than there are workers.
func fifoUses() map[string]func(string) ([]byte, error) {
	return map[string]func(string) ([]byte, error){
		"more fifos than workers": script(`for i in $(seq 560); do mkfifo q$i; cat q$i > /dev/null & done
for i in 1 2 3; do sleep 0.2; cat open > /dev/null; done
for i in $(seq 560); do echo x > q$i; done; wait`),
		"both ways": script(`mkfifo a b
(exec 3> a; exec 4< b; echo there >&3; read -r l <&4; test "$l" = back && echo ok > done) &
exec 3< a; exec 4> b; read -r l <&3; test "$l" = there; echo back >&4; wait; grep -q ok done`),
		"a writer that waits":       script(`mkfifo w; (echo text > w) & sleep 0.2; test "$(cat w)" = text; wait`),
		"not waiting":               script(`mkfifo n; python3 -c 'import os; os.close(os.open("n", os.O_RDONLY|os.O_NONBLOCK))'; timeout 20 python3 -c 'import os; os.open("n", os.O_RDWR)'`),
		"descriptors keep blocking": script(`python3 -c 'import fcntl,os; f=os.open("open",os.O_RDONLY); assert not fcntl.fcntl(f,fcntl.F_GETFL)&os.O_NONBLOCK; g=os.open("open",os.O_WRONLY|os.O_APPEND); assert fcntl.fcntl(g,fcntl.F_GETFL)&os.O_APPEND and not fcntl.fcntl(g,fcntl.F_GETFL)&os.O_NONBLOCK; h=os.open("open",os.O_RDONLY|os.O_NONBLOCK); assert fcntl.fcntl(h,fcntl.F_GETFL)&os.O_NONBLOCK'`),
		longFIFOUse: script(`mkfifo f; p=/proc/self/cwd/$(printf './%.0s' $(seq 1500))f
for i in 1 2 3 4 5; do python3 -c 'import os,sys; os.open(sys.argv[1],os.O_RDONLY)' $p & done
touch begun; while ! test -e stop; do sleep 0.05; done
exec 3<> f; wait`),
		crowdedFIFOUse: script(`mkfifo g; for i in 1 2 3 4 5; do
python3 -c 'import os,errno
try: os.open("g",os.O_RDONLY)
except OSError as e: assert e.errno==errno.ENFILE; open("refused","a").write("x")' & done
while [ "$(cat refused 2>/dev/null | wc -c)" -lt 2 ]; do sleep 0.05; done; cat open >/dev/null
exec 3<> g; wait; [ $(cat refused | wc -c) = 2 ]`),
		"killed while it waits": script(`for i in $(seq 40); do mkfifo k$i; cat k$i & done; sleep 0.5; kill -9 $(jobs -p); wait || true; touch killed; while ! test -e stop; do sleep 0.05; done`),
	}
}

func TestHasPartner(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(flags int) int {
		fd, err := unix.Open(name, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	reader := open(unix.O_RDONLY)
	writer := open(unix.O_WRONLY)
	has := func(when string, fd int, write, want bool) {
		if hasPartner(fd, write) != want {
			t.Errorf("%s: %v, want %v", when, !want, want)
		}
	}
	has("a reader with a writer", reader, false, true)
	has("a writer with a reader", writer, true, true)
	_, _ = unix.Write(writer, []byte("x"))
	_ = unix.Close(writer)
	has("a writer has gone, its text is there", reader, false, true)
	_, _ = unix.Read(reader, make([]byte, 1))
	has("a writer has gone", reader, false, false)
	writer = open(unix.O_WRONLY)
	_ = unix.Close(reader)
	has("a reader has gone", writer, true, false)
	_ = unix.Close(writer)
}

func waitingAtFIFOs(g *Guard) int {
	g.parking.mu.Lock()
	defer g.parking.mu.Unlock()
	return len(g.parking.waiting)
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Who waits for a FIFO keeps few descriptors, however long the path was.
func TestFIFOsKeepFewDescriptors(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	const others = 20 // of workers, and of what the test itself does
	before := descriptors(t)
	s := start(t, dir, testPolicy(), placement{}, "use", longFIFOUse)
	waitFor(t, "five that wait", func() bool { return waitingAtFIFOs(s.guard) == 5 })
	if now := descriptors(t); now > before+5*perParked+others {
		t.Errorf("there are %d descriptors, and were %d", now, before)
	}
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var r report
	s.run(t, &r)
	if !r.Leak {
		t.Errorf("the work fails: %s", r.Said)
	}
}

// Those that wait cannot take all descriptors, and who is one too many is told so.
func TestFIFOsAreBounded(t *testing.T) {
	requireSupport(t)
	was := descriptorLimit
	descriptorLimit = func() uint64 { return 2 * perParked * 3 }
	t.Cleanup(func() { descriptorLimit = was })
	dir, _ := stage(t)
	var r report
	start(t, dir, testPolicy(), placement{}, "use", crowdedFIFOUse).run(t, &r)
	if !r.Leak {
		t.Errorf("the work fails: %s", r.Said)
	}
}

// A caller that dies leaves nobody waiting for it.
func TestFIFOsOfTheDead(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	s := start(t, dir, testPolicy(), placement{}, "use", "killed while it waits")
	waiting := func() int { return waitingAtFIFOs(s.guard) }
	most := 0
	deadline := time.Now().Add(30 * time.Second)
	for ; time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		most = max(most, waiting())
		if _, err := os.Stat(filepath.Join(dir, "killed")); err == nil && waiting() == 0 {
			break
		}
	}
	if n := waiting(); n > 0 || most == 0 {
		t.Errorf("%d opens of killed processes still wait, of at most %d", n, most)
	}
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var r report
	s.run(t, &r)
	if !r.Leak {
		t.Errorf("the script failed: %s", r.Said)
	}
}

// What works with FIFOs outside works inside.
func TestFIFOs(t *testing.T) {
	requireSupport(t)
	for name, use := range fifoUses() {
		if name == "killed while it waits" || name == longFIFOUse || name == crowdedFIFOUse {
			continue // they have tests of their own
		}
		t.Run(name, func(t *testing.T) {
			controlDir, _ := stage(t)
			if c := perform(attack{"", use}, controlDir); !c.Leak {
				t.Fatalf("the work fails outside, too: %s", c.Said)
			}
			dir, _ := stage(t)
			var r report
			start(t, dir, testPolicy(), placement{}, "use", name).run(t, &r)
			if !r.Leak {
				t.Errorf("ordinary work fails inside: %s", r.Said)
			}
		})
	}
}
