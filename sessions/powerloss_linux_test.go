package sessions_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/sessions"
)

// A loss of power takes what no flush was for. The store is on an ext4 file system
// in a file; what is in that file while the writer stands still is what a disk
// would have: a copy of it is mounted, replays its journal and must have every
// acknowledged entry. That the copy does lack what was not flushed, so that the
// test can fail, is seen with a store that does not flush.
func TestPowerLoss(t *testing.T) {
	lacking := func(why string) {
		if os.Getenv("GANDER_CHECK") == "1" && os.Getuid() == 0 {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	if os.Getuid() != 0 {
		lacking("only root can mount a file system")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		lacking("the kernel has no loop devices here: " + err.Error())
	}
	n := rounds(t, "GANDER_POWER_LOSSES", 2)
	for round := range n {
		if problems := losePower(t, sessions.SyncAlways); len(problems) > 0 {
			t.Fatalf("round %d: %d problems, the first: %s", round, len(problems), problems[0])
		}
	}
	if problems := losePower(t, sessions.SyncNever); len(problems) == 0 {
		t.Error("a store that does not flush lost nothing: this file system does not drop what was not flushed")
	}
	t.Logf("%d losses of power, all acknowledged entries there; without flushes they are lost", n)
}

// losePower runs writers on a file system of their own, takes its power and says
// what is wrong with what is left.
func losePower(t *testing.T, policy sessions.SyncPolicy) []string {
	t.Helper()
	base := t.TempDir()
	disk, after, mount := filepath.Join(base, "disk"), filepath.Join(base, "after"), filepath.Join(base, "mnt")
	if err := os.Mkdir(mount, 0o700); err != nil {
		t.Fatal(err)
	}
	command(t, "truncate", "-s", "24M", disk)
	command(t, "mkfs.ext4", "-q", "-O", "^64bit", disk)
	command(t, "mount", "-o", "loop,commit=300", disk, mount) // nothing is flushed by the way
	mounted := true
	defer func() {
		if mounted {
			command(t, "umount", mount)
		}
	}()
	p := startChaos(t, filepath.Join(mount, "sessions"), policy)
	defer p.out.Close()
	for range 150 {
		if err := p.note(t); err != nil {
			t.Fatalf("waiting for an acknowledgement: %v", err)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, p.cmd.Process.Pid)
	if err := p.out.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil { // what is in the pipe
		t.Fatal(err)
	}
	p.drain(t)
	copyFile(t, disk, after)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
	command(t, "umount", mount)
	mounted = false
	command(t, "mount", "-o", "loop", after, mount)
	mounted = true
	return p.missing(t, filepath.Join(mount, "sessions"))
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// awaitStopped waits until no thread of a process runs.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("waiting for the writer to stop: %v, %v", status, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
