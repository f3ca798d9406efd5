package editor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/router"
)

// setupOffer is how editors offer gander setup: their terminal runs the command
// that they start gander with, with --setup.
func setupOffer(w *wire.Wiring) router.Setup {
	s := router.Setup{Args: []string{"--setup"}, Mends: mendedBySetup}
	if self, err := os.Executable(); err == nil {
		s.Command = []string{self, "setup", "--home", w.Config().Home}
	}
	if key, err := w.Config().Key(); err == nil && key.Source == storedKey(w) {
		s.Logout = func() error { return logout(w) }
	}
	return s
}

// storedKey is the file in which gander setup keeps a key.
func storedKey(w *wire.Wiring) string { return filepath.Join(w.Config().Home, wire.KeyFileName) }

// logout forgets the key that gander setup has kept. A key of the person's, in a
// variable or a file, is not gander's to forget.
func logout(w *wire.Wiring) error {
	if err := os.Remove(storedKey(w)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forgetting the model's key: %w; remove the file yourself", err)
	}
	cfg, err := w.Config().Reload()
	if err == nil {
		w.SetConfig(cfg)
	}
	return err
}

// mendedBySetup reports whether gander setup asks for what is missing.
func mendedBySetup(err error) bool {
	for _, missing := range []error{config.ErrNoHost, config.ErrNoModel, config.ErrNoAgent} {
		if errors.Is(err, missing) {
			return true
		}
	}
	wrong, ok := errors.AsType[*config.Error](err)
	return ok && strings.HasPrefix(wrong.Path, "model.")
}
