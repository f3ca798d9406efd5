package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// imageLimits bound the images' sizes in MB, a tenth above what they were. Of goose's
// 538 MB its program takes 301, Debian with git 179 and gander 58.
var imageLimits = map[string]int{"goose": 590, "opencode": 475}

// leavings finds what package managers and first starts leave behind.
const leavings = `find / -xdev -path '/var/lib/apt/lists/*' -o -path '/var/cache/apt/*' -o -path '/var/log/apt/*' -o -path '/tmp/*' \
  -o -name .npm -o -name .cache -o -name .local -o -name node_modules -o -name '*.deb'`

// TestImages: the agents' images start as an ordinary user, are small, and have nothing
// of what made them.
func TestImages(t *testing.T) {
	needDocker(t)
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			image := "goku-sandbox-" + a.name + ":latest"
			user, size, _ := strings.Cut(strings.TrimSpace(docker(t, "image", "inspect", "--format", "{{.Config.User}} {{.Size}}", image)), " ")
			if user != "agent" {
				t.Errorf("it starts as %q", user)
			}
			if n, err := strconv.Atoi(size); err != nil || n > imageLimits[a.name]*1_000_000 {
				t.Errorf("it has %s bytes, %v, want at most %d MB", size, err, imageLimits[a.name])
			}
			asRoot := func(script string) string {
				return docker(t, "run", "--rm", "--network", "none", "--user", "0", "--entrypoint", "sh", image, "-c", script)
			}
			if left := asRoot(leavings); left != "" {
				t.Errorf("left in it are:\n%s", left)
			}
			if got := asRoot("mkdir -p /root/.npm /var/cache/apt && touch /var/cache/apt/x && " + leavings); !strings.Contains(got, "/root/.npm\n") || !strings.Contains(got, "/var/cache/apt/x\n") {
				t.Errorf("what is left is not found: %q", got)
			}
		})
	}
}
