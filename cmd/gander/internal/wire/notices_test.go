package wire

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
)

// TestWordsOfNotices checks that words with content of closed files, or with a secret of the
// person's, are left out of a notice.
func TestWordsOfNotices(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	environ := []string{"HOME=" + home, "PATH=/usr/bin:/bin", "LLM_API_KEY=sk-test-4711-4711-4711"}
	cfg, err := config.Load(config.Options{Environ: environ, Home: filepath.Join(home, "gander")})
	if err != nil {
		t.Fatal(err)
	}
	secrets := &cli.Secrets{}
	secrets.Learn(cfg.Secrets())
	w := New(&cli.App{Config: cfg, Environ: environ, Secrets: secrets, Log: slog.New(slog.DiscardHandler)})
	if n, err := w.Notices(); n != nil || err != nil {
		t.Errorf("without an address there is %v, %v", n, err)
	}
	for name, text := range map[string]string{".gooseignore": "*.pem\n", "key.pem": "token = Zk3Qx9Lw2Vb7Tn5Rm8Yc4Hd6Jf1Gs0Pa\n"} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for words, want := range map[string]string{
		"the tests fail": "",
		"it is Zk3Qx9Lw2Vb7Tn5Rm8Yc4Hd6Jf1Gs0Pa there": "closed file key.pem",
		"the key is sk-test-4711-4711-4711":            "a secret of yours",
	} {
		err := w.lookAtWords(t.Context(), project, words)
		if got := ""; err != nil && want == "" || err == nil && want != got || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", words, err, want)
		}
	}
}
