package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// They take the supervisor's signals, and a shepherd's, until their stdin ends.
const (
	signalTaker      = "signal taker"
	usualSignalTaker = "taker of the usual signals"
)

func takeSignalsUntilEOF(signals []os.Signal) error {
	takeSignals(signals...)
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(os.Stderr, "nobody reads this")
	fmt.Println("alive")
	return nil
}

func TestTakeSignals(t *testing.T) {
	var all, few []unix.Signal
	for s := unix.Signal(1); s <= 64; s++ {
		if s == unix.SIGKILL || s == unix.SIGSTOP || s >= 32 && s <= 34 { // the C library's own, which Go leaves to it
			continue
		}
		all = append(all, s)
		if slices.Contains(usual(), os.Signal(s)) || !slices.Contains(harmful(), os.Signal(s)) {
			few = append(few, s)
		}
	}
	for taker, signals := range map[string][]unix.Signal{signalTaker: all, usualSignalTaker: few} {
		t.Run(taker, func(t *testing.T) { survives(t, taker, signals) })
	}
}

// survives sends a taker signals, one after the other.
func survives(t *testing.T, taker string, signals []unix.Signal) {
	t.Helper()
	cmd := helper(taker)
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
	for _, s := range signals {
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
