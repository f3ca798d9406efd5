package local_test

import (
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// TestMemoryThatIsUsed runs, under the default limits and with and without control groups, what
// asks for much more memory than it uses; and what uses too much.
func TestMemoryThatIsUsed(t *testing.T) {
	needFull(t)
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("groups refused %v", refused), func(t *testing.T) {
			spec := sandboxtest.Spec(t, -1)
			driver := local.New(local.Options{StateDir: t.TempDir(), RefuseGroups: refused})
			sb := sandboxtest.Create(t, driver, spec)
			for name, script := range map[string]string{
				"threads": `python3 -c '
import threading
stop = threading.Event(); all = [threading.Thread(target=stop.wait) for i in range(2500)]
for x in all: x.start()
stop.set()
for x in all: x.join()'`,
				"a reservation": `python3 -c '
import ctypes
libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_void_p; libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
assert libc.mmap(None, 1 << 44, 3, 0x4022, -1, 0) != ctypes.c_void_p(-1).value, ctypes.get_errno()'`,
				"forks of a large process": `python3 -c '
import os
big = bytearray(200 << 20)
for i in range(8):
    if os.fork() == 0: os._exit(0)
for i in range(8): assert os.wait()[1] == 0'`,
				"sanitizers": `printf '#include <stdlib.h>\nint main(void) { char *p = malloc(9); p[1] = 1; free(p); return 0; }' > a.c && for s in address undefined thread; do gcc -fsanitize=$s a.c -o $s && ./$s || exit 1; done`,
			} {
				if out, errs, st := sandboxtest.Run(t, sb, script); st.Code != 0 {
					t.Errorf("%s: %+v %q %q", name, st, out, errs)
				}
			}
			if says := sb.(sandbox.Limited).Exceeded(t.Context()); len(says) > 0 {
				t.Errorf("bounds were met: %q", says)
			}
			spec = sandboxtest.Spec(t, -1)
			spec.Limits.Memory = 300 << 20
			sb = sandboxtest.Create(t, driver, spec)
			shared := `python3 -c '
import os, time
big = bytearray(200 << 20)
for i in range(3):
    if os.fork() == 0: time.sleep(1); os._exit(0)
for i in range(3): assert os.wait()[1] == 0'; echo "status $?"`
			if out, errs, _ := sandboxtest.Run(t, sb, shared); out != "status 0\n" {
				t.Errorf("what is shared counted for each: %q %q", out, errs)
			}
			together := `for i in 1 2 3 4; do (python3 -c 'import time; big = bytearray(100 << 20); time.sleep(5)'; echo "status $?") & done; wait`
			out, errs, _ := sandboxtest.Run(t, sb, together)
			if says := strings.Join(sb.(sandbox.Limited).Exceeded(t.Context()), " "); !strings.Contains(out, "status 137") || !strings.Contains(out, "status 0") || !strings.Contains(says, "300 MiB; policy.limits.memory") {
				t.Errorf("processes that use too much together: %q %q, and is said %q", out, errs, says)
			}
			if out, _, _ := sandboxtest.Run(t, sb, `cat /proc/self/oom_score_adj`); out != "1000\n" {
				t.Errorf("oom_score_adj is %q", out)
			}
		})
	}
}
