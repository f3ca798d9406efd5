package enforce

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRefused: who cannot have a filter is told why, and can tell it from a defect.
func TestRefused(t *testing.T) {
	for err, want := range map[unix.Errno]string{
		unix.EBUSY:  "another supervisor already watches this process",
		unix.EPERM:  "what this process runs in forbids it",
		unix.ENOSYS: "this kernel does not have it",
		unix.EINVAL: "this kernel does not have it",
	} {
		if got := refused(err); !errors.Is(got, ErrUnsupported) || !errors.Is(got, err) || !strings.Contains(got.Error(), want) {
			t.Errorf("%s: %v, want %q", unix.ErrnoName(err), got, want)
		}
	}
	if got := refused(unix.EFAULT); errors.Is(got, ErrUnsupported) {
		t.Errorf("a defect counts as a lack: %v", got)
	}
}
