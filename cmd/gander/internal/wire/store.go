package wire

import (
	"errors"
	"fmt"
	"strings"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sessions"
)

// SessionError is an error about a session with what to do about it, and the exit
// code that is for it.
func SessionError(ref string, err error) error {
	switch {
	case errors.Is(err, sessions.ErrNotFound) && strings.EqualFold(strings.TrimSpace(ref), sessions.LastRef):
		return &cli.ExitError{Code: cli.ExitNoSession, Err: errors.New("there is no session of this directory yet; gander session list shows all")}
	case errors.Is(err, sessions.ErrAmbiguous):
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	case errors.Is(err, sessions.ErrNotFound):
		return &cli.ExitError{Code: cli.ExitNoSession, Err: fmt.Errorf("there is no session %q; gander session list shows those that there are", ref)}
	case errors.Is(err, sessions.ErrDamaged):
		return &cli.ExitError{Code: cli.ExitNoSession, Err: err}
	case errors.Is(err, sessions.ErrInUse):
		return fmt.Errorf("session %s cannot be changed while it is in use: %w", ref, err)
	}
	return err
}

// KeyFileName is the file of the key in gander's home.
const KeyFileName = "model.key"
