package install

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/drivers/docker"
)

// A project may have files like those of gander's own checkout, and settings of npm that run
// something: no image is built from it.
func TestNoImageOfTheProject(t *testing.T) {
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		if strings.HasSuffix(r.URL.Path, "/info") {
			_, _ = io.WriteString(w, `{"Architecture": "x86_64"}`)
		}
	}))
	t.Cleanup(daemon.Close)
	home, project := t.TempDir(), t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc", "goose/Dockerfile", "opencode/Dockerfile"} {
		path := filepath.Join(project, "sandbox", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(project)
	t.Setenv("PATH", t.TempDir()) // without npm
	cfg, err := config.Load(config.Options{Environ: []string{"HOME=" + home, "GANDER_HOME=" + home}})
	if err != nil {
		t.Fatal(err)
	}
	a := &cli.App{
		Stdio: cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, Config: cfg, Log: slog.New(slog.DiscardHandler),
		Environ: []string{"DOCKER_HOST=" + strings.Replace(daemon.URL, "http", "tcp", 1)},
	}
	if err := BuildImages(t.Context(), a, docker.BuildOptions{}); err == nil {
		t.Fatal("an image was built without npm")
	}
	if _, err := os.Stat(filepath.Join(home, "images", "goose", "Dockerfile")); err != nil {
		t.Errorf("gander's own files: %v", err)
	}
	if made, _ := filepath.Glob(filepath.Join(project, "sandbox", ".image", "*")); len(made) > 0 {
		t.Errorf("in the project there are %q now", made)
	}
}
