package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// signalTaker takes signals until its stdin ends.
const signalTaker = "signal taker"

func takeSignalsUntilEOF() error {
	takeSignals()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(os.Stderr, "nobody reads this")
	fmt.Println("alive")
	return nil
}

func TestTakeSignals(t *testing.T) {
	cmd := helper(signalTaker)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	unread, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = stderr
	if err := errors.Join(cmd.Start(), unread.Close(), stderr.Close()); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() }).Stop() // one that is stopped says nothing
	says := bufio.NewReader(stdout)
	if line, err := says.ReadString('\n'); line != "ready\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	for s := unix.Signal(1); s <= 64; s++ {
		if s == unix.SIGKILL || s == unix.SIGSTOP || s >= 32 && s <= 34 { // the C library's own, which Go leaves to it
			continue
		}
		if err := unix.Kill(cmd.Process.Pid, s); err != nil {
			t.Fatalf("%d: %v", s, err)
		}
	}
	_ = stdin.Close()
	line, _ := says.ReadString('\n')
	if err := cmd.Wait(); err != nil || line != "alive\n" {
		t.Fatalf("it said %q and ended with %v", line, err)
	}
}
