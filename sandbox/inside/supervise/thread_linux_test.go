package supervise

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// threadTaker takes threads while the first one has nothing to do.
const threadTaker = "taker of threads"

func takeThreads() error {
	runtime.GOMAXPROCS(1)
	seen := map[int]bool{}
	for range 1000 {
		tid := make(chan int)
		onThread(func() { tid <- unix.Gettid() })
		seen[<-tid] = true
	}
	if seen[os.Getpid()] {
		return fmt.Errorf("it ran on the first of %d threads", len(seen))
	}
	return nil
}

// What a thread gives up, the process does not: the first thread stands for it.
func TestOnThread(t *testing.T) {
	if out, err := helper(threadTaker).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
