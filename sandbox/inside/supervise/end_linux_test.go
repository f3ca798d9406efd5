package supervise

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// TestLongCommandLine: a process may say of any part of its memory that this is its command
// line, and the supervisor has no bound of memory.
func TestLongCommandLine(t *testing.T) {
	const long, bound = 100_000, 100_000
	args := []string{"-c", "echo started; read line"}
	for range 10 {
		args = append(args, strings.Repeat("x", long))
	}
	cmd := exec.Command("sh", args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}()
	// Start returns before the kernel has set the new program's command line.
	if _, err := stdout.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	name := processName(cmd.Process.Pid)
	runtime.ReadMemStats(&after)
	if len(name) > maxMemberName || !strings.HasPrefix(name, "sh -c echo started; read line xxx") {
		t.Errorf("its name is %.100q and has %d bytes", name, len(name))
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > bound {
		t.Errorf("%d bytes were needed for a name of %d", used, maxMemberName)
	}
}
