package main

import (
	"errors"
	"os"
	"strings"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/router"
)

// setupOffer is how editors offer gander setup: their terminal runs the command
// that they start gander with, with --setup.
func (w *wiring) setupOffer() router.Setup {
	s := router.Setup{Args: []string{"--setup"}, Mends: mendedBySetup}
	if self, err := os.Executable(); err == nil {
		s.Command = []string{self, "setup", "--home", w.config().Home}
	}
	return s
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
