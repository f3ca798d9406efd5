package enforce

import "testing"

// traceUses trace a child up to its end that traces one of its own, and the other way
// round. Each says which of the two was permitted.
func traceUses() map[string]func(string) ([]byte, error) {
	const common = `python3 -c '
import ctypes, os, signal
libc = ctypes.CDLL(None)
def trace(pid):
    return libc.ptrace(0x4206, pid, None, ctypes.c_void_p(0x40))
(begin, start), (answer, tell) = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.read(begin, 1)
    own = os.fork()
    if own:
        os.write(tell, b"%d %d" % (trace(own), own))
    while True:
        signal.pause()
def go():
    os.write(start, b"x")
    done, own = os.read(answer, 20).split()
    os.kill(int(own), 9)
    return int(done)
`
	const end = `
os.kill(pid, 9)' | grep -qxe `
	return map[string]func(string) ([]byte, error){
		"traced":         script(common + "print(trace(pid), go())" + end + "'0 -1'"),
		"traces":         script(common + "done = go(); print(trace(pid), done)" + end + "'-1 0'"),
		"outside traced": script(common + "print(trace(pid), go())" + end + "'0 0'"),
		"outside traces": script(common + "done = go(); print(trace(pid), done)" + end + "'0 0'"),
	}
}

// Two never wait for each other at their ends.
func TestTraceOneWay(t *testing.T) {
	requireSupport(t)
	for _, use := range []string{"traced", "traces"} {
		t.Run(use, func(t *testing.T) {
			dir, _ := stage(t)
			if c := perform(attack{"", work("outside " + use)}, dir); !c.Leak {
				t.Fatalf("it is refused outside, too: %s", c.Said)
			}
			var r report
			start(t, dir, testPolicy(), placement{}, "use", use).run(t, &r)
			if !r.Leak {
				t.Errorf("both may be traced, or neither: %s", r.Said)
			}
		})
	}
}
