package e2e

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// imageLimits bound the images' sizes in MB, a tenth above what they were at first. Of goose's
// 586 MB its program takes 301, Debian with git 210 and gander 75.
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

// TestBareImage runs opencode in its image as docker run starts it, without gander: its configuration
// finds the model by OPENCODE_LLM_HOST, and lets tools work outside of the workspace, as in a
// sandbox of gander's.
func TestBareImage(t *testing.T) {
	w := newWorld(t, cell{agents[1], drivers[1]}, 0)
	w.cell.driver.need(t)
	prompt := script(t, step{"tool": "read", "args": map[string]any{"filePath": "/etc/debian_version"}},
		step{"tool": "bash", "args": map[string]any{"command": "pwd && cat debian_version", "workdir": "/etc", "description": "look"}}, says("Looked."))
	said := docker(t, "run", "--rm", "--network", "host", "--env", "OPENCODE_LLM_HOST="+w.host+"/v1", "--env", "LLM_API_KEY="+canary, "--env", "OPENCODE_MODEL=custom/scripted",
		"--env", "OPENCODE_PURE=1", "--env", "OPENCODE_DISABLE_MODELS_FETCH=1", // or it would ask the network for half a minute
		"--env", "PROMPT="+prompt, "goku-sandbox-opencode:latest", "sh", "-c", `printf %s "$PROMPT" | opencode run --format json`)
	type event struct {
		Part struct {
			Tool, Text string
			State      struct{ Status, Output, Error string }
		}
	}
	results := map[string]string{}
	var text strings.Builder
	for line := range strings.Lines(said) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		text.WriteString(e.Part.Text)
		if e.Part.Tool != "" {
			results[e.Part.Tool] = e.Part.State.Status + " " + e.Part.State.Error + e.Part.State.Output
		}
	}
	if !strings.Contains(results["read"], "completed") || !strings.Contains(results["read"], "12.") || !strings.Contains(results["bash"], "completed /etc\n12.") || !strings.Contains(text.String(), "Looked.") {
		t.Errorf("opencode says %q after %q", text.String(), results)
	}
}
