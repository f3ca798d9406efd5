package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/sandbox"
)

// TestDriver tests what every driver promises about processes and doors. owner
// is the user that the projects belong to, -1 for the test's own.
func TestDriver(t *testing.T, newDriver NewDriver, owner int) {
	tests := []struct {
		name string
		test func(*testing.T, sandbox.Sandbox)
	}{
		{"Echo", testEcho},
		{"ExitStatus", testExitStatus},
		{"StartErrors", testStartErrors},
		{"Arguments", testArguments},
		{"Environment", testEnvironment},
		{"Directory", testDirectory},
		{"BinaryData", testBinaryData},
		{"LargeArguments", testLargeArguments},
		{"SlowReader", testSlowReader},
		{"StdinClosed", testStdinClosed},
		{"Signals", testSignals},
		{"Background", testBackground},
		{"Usage", testUsage},
		{"Cancelled", testCancelled},
		{"KillShapes", testKillShapes},
		{"KillSince", testKillSince},
		{"KillSinceShapes", testKillSinceShapes},
		{"KillTogether", testKillTogether},
		{"ManyAtOnce", testManyAtOnce},
	}
	sb := Create(t, newDriver(t), Spec(t, owner))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, sb) })
	}
	t.Run("Close", func(t *testing.T) { testClose(t, newDriver(t), owner) })
	t.Run("SideBySide", func(t *testing.T) { testSideBySide(t, newDriver(t), owner) })
	t.Run("Doors", func(t *testing.T) { testDoors(t, newDriver(t), owner) })
	t.Run("Road", func(t *testing.T) { testRoad(t, newDriver(t), owner) })
	t.Run("Ports", func(t *testing.T) { testPorts(t, newDriver(t), owner) })
}

func testEcho(t *testing.T, sb sandbox.Sandbox) {
	p := Start(t, sb, `while read -r line; do echo "out $line"; echo "err $line" >&2; done; exit 0`)
	for i := range 3 {
		fmt.Fprintf(p.Stdin(), "%d\n", i)
		if got, want := readLine(t, p.Stdout()), fmt.Sprintf("out %d", i); got != want {
			t.Errorf("stdout %q, want %q", got, want)
		}
		if got, want := readLine(t, p.Stderr()), fmt.Sprintf("err %d", i); got != want {
			t.Errorf("stderr %q, want %q", got, want)
		}
	}
	if err := p.Stdin().Close(); err != nil {
		t.Error(err)
	}
	if st := Wait(t, p); st.Code != 0 || st.Signal != "" {
		t.Errorf("status %+v after the end of stdin", st)
	}
	if rest := readAll(t, p.Stdout()) + readAll(t, p.Stderr()); rest != "" {
		t.Errorf("unexpected further output %q", rest)
	}
}

func testExitStatus(t *testing.T, sb sandbox.Sandbox) {
	for _, tt := range []struct {
		script string
		code   int
		signal string
	}{
		{"exit 0", 0, ""},
		{"exit 42", 42, ""},
		{"kill -TERM $$", 128 + 15, "TERM"},
		{"kill -KILL $$", 128 + 9, "KILL"},
	} {
		if _, _, st := Run(t, sb, tt.script); st.Code != tt.code || st.Signal != tt.signal {
			t.Errorf("%s: got %d %q, want %d %q", tt.script, st.Code, st.Signal, tt.code, tt.signal)
		}
	}
}

func testStartErrors(t *testing.T, sb sandbox.Sandbox) {
	for _, tt := range []struct {
		cmd  sandbox.Command
		want string
		is   error
	}{
		{sandbox.Command{Args: []string{"no-such-program"}, Env: Env()}, "no-such-program is not in PATH", fs.ErrNotExist},
		{sandbox.Command{Args: []string{"/no/such/program"}, Env: Env()}, "/no/such/program", fs.ErrNotExist},
		{sandbox.Command{Args: []string{"/etc/passwd"}, Env: Env()}, "/etc/passwd", fs.ErrPermission},
		{sandbox.Command{Args: []string{"true"}, Env: Env(), Dir: "/no/such/dir"}, "/no/such/dir", fs.ErrNotExist},
		{sandbox.Command{}, "no program", nil},
	} {
		_, err := sb.Start(t.Context(), tt.cmd)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want one with %q", tt.cmd.Args, err, tt.want)
		}
		if tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%q: error %v is not %v", tt.cmd.Args, err, tt.is)
		}
	}
	if _, _, st := Run(t, sb, "exit 7"); st.Code != 7 {
		t.Errorf("after failed starts: %+v", st)
	}
}

func testArguments(t *testing.T, sb sandbox.Sandbox) {
	want := []string{"a b", "", "*", "ä\nb", "not UTF-8: \xff\xfe"}
	p := StartCommand(t, sb, sandbox.Command{Args: append([]string{"printf", `%s\0`}, want...), Env: Env()})
	if got := strings.Split(readAll(t, p.Stdout()), "\x00"); !slices.Equal(got, append(want, "")) {
		t.Errorf("arguments %q, want exactly %q", got, want)
	}
}

func testEnvironment(t *testing.T, sb sandbox.Sandbox) {
	want := []string{"A=1", "BYTES=\xff\xfe", "EMPTY=", "PATH=/usr/bin:/bin", "ÜML=ä\nb"}
	p := StartCommand(t, sb, sandbox.Command{Args: []string{"env", "-0"}, Env: want})
	got := strings.Split(strings.TrimSuffix(readAll(t, p.Stdout()), "\x00"), "\x00")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want exactly %q", got, want)
	}
}

func testDirectory(t *testing.T, sb sandbox.Sandbox) {
	p := StartCommand(t, sb, sandbox.Command{Args: []string{"pwd"}, Env: Env(), Dir: "/usr"})
	if got := readAll(t, p.Stdout()); got != "/usr\n" {
		t.Errorf("working directory %q, want /usr", got)
	}
}

// testBinaryData sends every byte value through cat, more than any buffer holds.
func testBinaryData(t *testing.T, sb sandbox.Sandbox) {
	data := make([]byte, 8<<20)
	_, _ = rand.Read(data)
	p := StartCommand(t, sb, sandbox.Command{Args: []string{"cat"}, Env: Env()})
	go func() {
		_, _ = p.Stdin().Write(data)
		_ = p.Stdin().Close()
	}()
	got, err := io.ReadAll(p.Stdout())
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back of %d, or differ: %v", len(got), len(data), err)
	}
}

func testLargeArguments(t *testing.T, sb sandbox.Sandbox) {
	big := strings.Repeat("x", 100<<10)
	args := []string{"/bin/sh", "-c", `echo $# ${#1} ${#BIG}`, "sh"}
	for range 8 {
		args = append(args, big)
	}
	p := StartCommand(t, sb, sandbox.Command{Args: args, Env: Env("BIG=" + big)})
	if got := readAll(t, p.Stdout()); got != "8 102400 102400\n" {
		t.Errorf("got %q, errors %q", got, readAll(t, p.Stderr()))
	}
}

// testSlowReader leaves output unread while other commands run, and then finds it whole.
func testSlowReader(t *testing.T, sb sandbox.Sandbox) {
	const size = 16 << 20
	flood := Start(t, sb, fmt.Sprintf("head -c %d /dev/zero; head -c %d /dev/zero >&2", size, 4<<20))
	for range 5 {
		if out, _, _ := Run(t, sb, "echo hello"); out != "hello\n" {
			t.Errorf("beside an unread command: %q", out)
		}
	}
	errs := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, flood.Stderr())
		errs <- n
	}()
	if n, err := io.Copy(io.Discard, flood.Stdout()); n != size || err != nil {
		t.Errorf("read %d bytes of %d: %v", n, size, err)
	}
	if n := <-errs; n != 4<<20 {
		t.Errorf("read %d bytes of stderr", n)
	}
	Wait(t, flood)
}

// testStdinClosed writes to a command that does not read: it must end in an error.
func testStdinClosed(t *testing.T, sb sandbox.Sandbox) {
	p := Start(t, sb, "exec <&-; echo closed; sleep 60")
	readLine(t, p.Stdout())
	Eventually(t, "writing to a closed stdin fails", patience, func() bool {
		_, err := p.Stdin().Write(make([]byte, 4096))
		return err != nil
	})
	Kill(t, p)
}

func testSignals(t *testing.T, sb sandbox.Sandbox) {
	for _, name := range []string{"TERM", "INT", "HUP", "USR1"} {
		p := Start(t, sb, "trap 'echo got; exit 9' "+name+"; echo ready; while :; do sleep 0.05; done")
		readLine(t, p.Stdout())
		if err := p.Signal(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if got := readLine(t, p.Stdout()); got != "got" {
			t.Errorf("%s: %q", name, got)
		}
		if st := Wait(t, p); st.Code != 9 {
			t.Errorf("%s: %+v", name, st)
		}
	}
	p := Start(t, sb, "sleep 60")
	if err := p.Signal(t.Context(), "NONSENSE"); err == nil {
		t.Error("an unknown signal was sent")
	}
	if err := p.Signal(t.Context(), "KILL"); err != nil {
		t.Error(err)
	}
	if st := Wait(t, p); st.Signal != "KILL" {
		t.Errorf("after SIGKILL: %+v", st)
	}
}

// testBackground leaves a process behind that goes on until Kill.
func testBackground(t *testing.T, sb sandbox.Sandbox) {
	mark := Mark()
	p := Start(t, sb, "(while :; do echo tick; sleep 0.02; done) & exit 3", mark)
	if st := Wait(t, p); st.Code != 3 {
		t.Errorf("status %+v", st)
	}
	for range 3 {
		readLine(t, p.Stdout())
	}
	Kill(t, p)
	if left := Survivors(mark); len(left) > 0 {
		t.Errorf("after Kill: %q", left)
	}
	_ = readAll(t, p.Stdout()) // must end
	Kill(t, p)                 // again is no error
}

func testUsage(t *testing.T, sb sandbox.Sandbox) {
	_, _, st := Run(t, sb, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if st.Usage.User <= 0 || st.Usage.MaxRSS < 100<<10 || st.Usage.MaxRSS > 1<<30 {
		t.Errorf("usage %+v", st.Usage)
	}
}

// testCancelled starts with a context that ends: the command must not be left running.
func testCancelled(t *testing.T, sb sandbox.Sandbox) {
	mark := Mark()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sleep", "60"}, Env: Env(mark)})
		if err == nil {
			Kill(t, p)
		}
	}
	Eventually(t, "cancelled starts leave nothing", patience, func() bool { return len(Survivors(mark)) == 0 })
}

func testManyAtOnce(t *testing.T, sb sandbox.Sandbox) {
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"/bin/sh", "-c", "read x; echo $x"}, Env: Env()})
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprintln(p.Stdin(), i)
			if got, want := readAll(t, p.Stdout()), fmt.Sprintln(i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	wg.Wait()
}

func testClose(t *testing.T, d sandbox.Driver, owner int) {
	mark := Mark()
	sb := Create(t, d, Spec(t, owner))
	p := Start(t, sb, "trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000 & echo ready; wait", mark)
	readLine(t, p.Stdout())
	if err := sb.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	if left := Survivors(mark); len(left) > 0 {
		t.Errorf("when Close has returned: %q", left)
	}
	select {
	case <-sb.Done():
	default:
		t.Error("Done is not closed after Close")
	}
	if _, err := p.Wait(t.Context()); err != nil && !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("waiting in a closed sandbox: %v", err)
	}
	if _, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"true"}, Env: Env()}); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("starting in a closed sandbox: %v, want ErrGone", err)
	}
	if err := sb.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// testSideBySide runs eight sandboxes that must not see each other's processes.
func testSideBySide(t *testing.T, d sandbox.Driver, owner int) {
	var wg sync.WaitGroup
	for i := range 8 {
		sb := Create(t, d, Spec(t, owner))
		wg.Go(func() {
			mark := Mark()
			p, err := sb.Start(t.Context(), sandbox.Command{
				Args: []string{"/bin/sh", "-c", "echo $NUMBER > file; cat file; sleep 1000"}, Env: Env(mark, fmt.Sprint("NUMBER=", i)),
			})
			if err != nil {
				t.Error(err)
				return
			}
			if got := readLine(t, p.Stdout()); got != fmt.Sprint(i) {
				t.Errorf("sandbox %d read %q", i, got)
			}
			_ = sb.Close()
			if left := Survivors(mark); len(left) > 0 {
				t.Errorf("sandbox %d left %q", i, left)
			}
		})
	}
	wg.Wait()
}
