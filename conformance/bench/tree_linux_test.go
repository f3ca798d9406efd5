package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A tree is a shell with ten shells below it, each with two processes that sleep.
type tree struct {
	script string
	sleep  []byte // the arguments of the sleeping processes, which nobody else has
}

const (
	treeShells = 10
	treeSleeps = 2 * treeShells
	treeSize   = 1 + treeShells + treeSleeps
)

func newTree() tree {
	seconds := fmt.Sprintf("600.%09d", rand.IntN(1e9))
	return tree{
		script: fmt.Sprintf(`for i in $(seq %d); do (sleep %s & sleep %[2]s & wait) & done; wait`, treeShells, seconds),
		sleep:  []byte("sleep\x00" + seconds + "\x00"),
	}
}

// sleeping returns the tree's processes that sleep.
func (tr tree) sleeping() []int {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
	var pids []int
	for _, name := range names {
		if args, _ := os.ReadFile(name); bytes.Equal(args, tr.sleep) { // a process may end meanwhile
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// complete waits until all of the tree runs.
func (tr tree) complete() error {
	for begun := time.Now(); len(tr.sleeping()) < treeSleeps; time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience {
			return fmt.Errorf("after %v only %d of %d processes run", patience, len(tr.sleeping()), treeSleeps)
		}
	}
	return nil
}

func (b *bench) await(tr tree) {
	b.t.Helper()
	if err := tr.complete(); err != nil {
		b.t.Fatal(err)
	}
}

// none ends the test when something of the tree is alive. A process that ends
// has no arguments any more.
func (b *bench) none(tr tree) {
	b.t.Helper()
	if left := tr.sleeping(); len(left) > 0 {
		b.clear(tr)
		b.t.Fatalf("%d processes of the tree are left", len(left))
	}
}

// clear kills what is left of a tree and returns how many those were.
func (b *bench) clear(tr tree) int {
	b.t.Helper()
	left := tr.sleeping()
	for _, pid := range left {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			b.t.Fatal(err)
		}
	}
	return len(left)
}
