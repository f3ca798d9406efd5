package config

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInsideEnvironment: a sandbox gets what programs need to find each other there, and
// nothing that tells about the person.
func TestInsideEnvironment(t *testing.T) {
	environ := func(pairs ...string) environment {
		env := environment{"API_KEY": "secret", "USERPROFILE": `C:\Users\me`, "APPDATA": `C:\Users\me\AppData`, "SSH_AUTH_SOCK": "/run/agent", "LANG": "de_DE.UTF-8"}
		for _, p := range pairs {
			name, value, _ := strings.Cut(p, "=")
			env[name] = value
		}
		return env
	}
	for system, tt := range map[string]struct {
		env  environment
		want []string
	}{
		"linux": {
			environ("PATH=/home/me/bin:/opt/x/bin:/usr/bin"),
			[]string{"LANG=de_DE.UTF-8", "LOGNAME=agent", "PATH=/opt/x/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin", "SHELL=" + shellInside(), "TERM=dumb", "USER=agent", "UV_LINK_MODE=copy", npmSettings[0], npmSettings[1], npmSettings[2]},
		},
		"windows": {
			environ(`PATH=C:\Windows\system32;D:\tools`, "PATHEXT=.EXE;.CMD", `SYSTEMROOT=C:\Windows`, `COMSPEC=C:\Windows\system32\cmd.exe`),
			[]string{`COMSPEC=C:\Windows\system32\cmd.exe`, "LANG=de_DE.UTF-8", "PATHEXT=.EXE;.CMD", `PATH=C:\Windows\system32;D:\tools`, `SYSTEMROOT=C:\Windows`, "TERM=dumb"},
		},
	} {
		if system == "linux" && runtime.GOOS == "windows" {
			continue // its lists of directories are others
		}
		c := &Config{env: tt.env}
		got := c.insideEnvironment(system)
		slices.Sort(got)
		slices.Sort(tt.want)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", system, diff)
		}
	}
}
