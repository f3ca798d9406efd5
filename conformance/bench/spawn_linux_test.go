package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// settle is how long after its first answer an agent's memory is looked at, for
// what it still does in the background.
const settle = 100 * time.Millisecond

// sameSpawn measures the start and the memory after initialize.
func (b *bench) sameSpawn() {
	var start, mem, theirStart, theirMem samples
	side := func(cmd func() *exec.Cmd, start, mem *samples) func() {
		return func() {
			ms, bytes := b.spawn(cmd())
			start.add(ms)
			mem.add(bytes)
		}
	}
	ours := side(func() *exec.Cmd { return b.ganderACP(b.goose) }, &start, &mem)
	theirs := side(b.gooseACP, &theirStart, &theirMem)
	ours()
	theirs() // both programs are in memory now, and their directories exist
	start, mem, theirStart, theirMem = nil, nil, nil, nil
	alternate(b.runs(41), ours, theirs)
	b.table.atMost(2, pair{"spawn → `initialize` reply, beside `goose acp`", start, theirStart, inMS})
	b.table.atMost(0.6, pair{"resident memory after `initialize`, beside `goose acp`", mem, theirMem, inMB})
}

// spawn starts an agent and returns the milliseconds to its answer to initialize
// and the bytes it then has in memory, with all processes it started.
func (b *bench) spawn(cmd *exec.Cmd) (ms, bytes float64) {
	c := start(b.t, cmd)
	defer c.stop()
	c.initialize()
	ms = milliseconds(time.Since(c.begun))
	time.Sleep(settle)
	bytes = b.resident(cmd.Process.Pid)
	if bytes == 0 {
		c.fail("it has ended")
	}
	for _, p := range below(cmd.Process.Pid) {
		bytes += b.resident(p)
	}
	return ms, bytes
}

// resident is VmRSS of a process, in bytes; 0 when it has ended.
func (b *bench) resident(pid int) float64 {
	b.t.Helper()
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return kb * 1024
		}
	}
	return 0
}

// below returns the processes that descend from one.
func below(pid int) []int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	var all []int
	for _, task := range tasks {
		children, _ := os.ReadFile(task) // a thread may have ended
		for f := range strings.FieldsSeq(string(children)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(append(all, child), below(child)...)
			}
		}
	}
	return all
}
