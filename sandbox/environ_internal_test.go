package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Programs of Windows look for their home under other names, and do not start without
// the system's own.
func TestPlainEnvironment(t *testing.T) {
	host := func(name string) string { return "of " + name }
	for system, want := range map[string][]string{
		"linux": {"HOME=/h", "PATH=/usr/local/bin:/usr/bin:/bin"},
		"windows": {
			"HOME=/h", "USERPROFILE=/h", "APPDATA=/h/AppData/Roaming", "LOCALAPPDATA=/h/AppData/Local",
			"PATH=of PATH", "PATHEXT=of PATHEXT", "SystemRoot=of SystemRoot", "ComSpec=of ComSpec",
		},
	} {
		if diff := cmp.Diff(want, plainEnvironment(system, "/h", host)); diff != "" {
			t.Errorf("%s: %s", system, diff)
		}
	}
}
