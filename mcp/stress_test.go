package mcp

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/developer"
)

// stressCalls is how many calls the stress test makes; GANDER_MCP_CALLS asks for more.
func stressCalls(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("GANDER_MCP_CALLS"))
	if err != nil {
		n = 20_000
	}
	if testing.Short() {
		n = min(n, 2000)
	}
	t.Log(n, "calls")
	return n
}

// Thousands of short calls in flight together, a third of them cancelled, leave
// nothing behind: no call is tracked, no goroutine runs, no memory is kept.
func TestStress(t *testing.T) {
	const window = 64
	n := stressCalls(t)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	p, s := connectTracked(ctx, t)
	goroutines, heap := 0, uint64(0)
	for sent, answered := 0, 0; answered < n; answered++ {
		for ; sent < n && sent-answered < window; sent++ {
			p.send(stressMessages(sent)...)
		}
		for p.receive().Method != "" { // lines of the shell
		}
		if answered == n/4 {
			goroutines, heap = runtime.NumGoroutine(), heapInUse()
		}
	}
	if n := s.calls.tracked(); n != 0 {
		t.Errorf("%d calls are tracked", n)
	}
	// Some wait for further calls, and who has answered is about to end.
	for begun := time.Now(); runtime.NumGoroutine() > goroutines+maxIdle; time.Sleep(time.Millisecond) {
		if time.Since(begun) > eternity {
			t.Fatalf("%d goroutines, %d after a quarter", runtime.NumGoroutine(), goroutines)
		}
	}
	if now := heapInUse(); now > heap+8<<20 {
		t.Errorf("%d bytes in use, %d after a quarter", now, heap)
	}
	end()
	_ = p.ended()
}

func stressMessages(i int) []string {
	switch i % 3 {
	case 0:
		return []string{callOf(i, "echo")}
	case 1:
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"shell","arguments":{"command":"a b c"},"_meta":{"progressToken":%d}}}`, i, i)}
	}
	return []string{callOf(i, "wait"), cancelOf(i), cancelOf(i - 2)} // the last has mostly ended
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// The counters tell what happened.
func TestStatsAfterStress(t *testing.T) {
	tools := fakeTools(t)
	p := connect(t, tools, Options{})
	for i := range 300 {
		p.send(stressMessages(i)...)
	}
	for answers := 0; answers < 300; {
		if p.receive().Method == "" {
			answers++
		}
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
	want := map[string]developer.ToolStats{"echo": {Calls: 100}, "shell": {Calls: 100}, "wait": {Calls: 100, Cancels: 100}}
	for name, got := range tools.Stats().Tools() {
		w := want[name]
		if got.Calls != w.Calls || got.Cancels != w.Cancels || got.Errors != 0 || got.Running != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if record, err := tools.Stats().MarshalJSON(); err != nil || !strings.Contains(string(record), `"cancels":100`) {
		t.Errorf("record %s, %v", record, err)
	}
}
