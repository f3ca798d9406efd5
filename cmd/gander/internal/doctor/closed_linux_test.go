package doctor

import (
	"os"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
)

// liar is a sandbox that says of itself that the kernel keeps closed files.
type liar struct {
	sandbox.Sandbox
	sandbox.RuleKeeper
}

func (l liar) Info() sandbox.Info {
	info := l.Sandbox.Info()
	info.Enforcement = sandbox.Enforcement{Closed: sandbox.ByKernel, Protected: sandbox.ByKernel}
	return info
}

// TestDoctorClosed: doctor finds that closed files are open, by each way to one, and it is a
// failure where the sandbox says that they are not.
func TestDoctorClosed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules *sandbox.Rules
		lies  bool
		state string
		said  []string
	}{
		{"kept", &sandbox.Rules{}, false, CheckOK, []string{"cannot be read", "nor a protected one"}},
		{"open", nil, false, checkWarn, []string{"read by its name", "read by a hard link", "read by /proc/self/root", "(.git/config) was written"}},
		{"said to be kept", nil, true, checkFail, []string{"read by its name"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			project := t.TempDir()
			if err := baitProject(project); err != nil {
				t.Fatal(err)
			}
			sb, err := local.New(local.Options{}).Create(t.Context(), sandbox.Spec{ID: "closed", WorkingDir: project, Home: t.TempDir(), Rules: tt.rules})
			if err != nil && os.Getenv("GANDER_CHECK") == "1" {
				t.Fatal(err)
			}
			if err != nil {
				t.Skip("there are no sandboxes here: ", err)
			}
			t.Cleanup(func() { _ = sb.Close() })
			if tt.lies {
				sb = liar{sb, sb.(sandbox.RuleKeeper)}
			}
			c := sandboxTrial{app: &cli.App{Config: &config.Config{}}, sb: sb}.closed(t.Context(), checkClosed, project)
			if c.State != tt.state {
				t.Errorf("it is %+v", c)
			}
			for _, want := range tt.said {
				if !strings.Contains(c.What, want) {
					t.Errorf("it says %q, not %q", c.What, want)
				}
			}
		})
	}
}
