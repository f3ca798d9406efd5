package files

import (
	"os"
	"strconv"
	"strings"
)

// isAt asks the kernel where an open file is, which cannot be played with as a walk
// along its path can. known is false where the kernel does not tell. A file system
// that knows names in any case may have another spelling.
func isAt(f *os.File, real string) (same, known bool) {
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return false, false
	}
	return strings.EqualFold(at, real), true
}
