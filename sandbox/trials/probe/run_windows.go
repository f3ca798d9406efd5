package probe

import (
	"context"
	"errors"
)

// Run has nothing to try on Windows, where a sandbox promises none of it.
func Run(context.Context, Options) (*Report, error) {
	return nil, errors.New("there is no sandbox on Windows whose walls could be tried; gander doctor says what there is")
}
