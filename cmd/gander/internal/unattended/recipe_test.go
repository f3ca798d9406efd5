package unattended

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// TestRecipe checks that what the recipe names is there: variables, flags, commands, the image.
func TestRecipe(t *testing.T) {
	example, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "sandbox", ".env.example"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`-e ([A-Z_]+)`).FindAllStringSubmatch(dockerRecipe, -1)
	if len(names) < 7 {
		t.Errorf("it sets %d variables", len(names))
	}
	for _, name := range names {
		if !strings.Contains(string(example), "\n"+name[1]+"=") {
			t.Errorf("%s is not in .env.example", name[1])
		}
	}
	a := &cli.App{}
	serve, family := ServeCommand(a), LoopCommand(a)
	for _, flag := range []string{"listen", "allow-host"} {
		if serve.Flags().Lookup(flag) == nil || !strings.Contains(dockerRecipe, "--"+flag+" ") {
			t.Errorf("gander serve --%s", flag)
		}
	}
	for _, name := range []string{"start", "dismiss", "delete"} {
		if found, _, err := family.Find([]string{name}); err != nil || found.Name() != name || !strings.Contains(dockerRecipe, "gander loop "+name) {
			t.Errorf("gander loop %s: %v", name, err)
		}
	}
	if id := regexp.MustCompile(`CONTROL_PLANE_RUN=(\S+)`).FindStringSubmatch(dockerRecipe); id == nil || len(id[1]) < 8 {
		t.Errorf("the run's id %q is too short", id)
	}
}
