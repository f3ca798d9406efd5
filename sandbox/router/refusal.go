package router

import (
	"bytes"
	"errors"
	"fmt"

	"gander.dev/gander/acp"
)

// refusal is why the person's policy lets nothing run.
type refusal struct{ reason error }

func (r *refusal) Error() string { return r.reason.Error() }

func (r *refusal) Unwrap() error { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Errorf(format, args...)} }

// byPolicy is the data of the answer to a prompt that was refused.
const byPolicy = `{"refusedBy":"policy"}`

// Refused reports whether an error is a refusal of the person's policy, also when it
// came from a Router over a connection.
func Refused(err error) bool {
	if _, ok := errors.AsType[*refusal](err); ok {
		return true
	}
	e, ok := errors.AsType[*acp.Error](err)
	return ok && bytes.Equal(marshal(e.Data), []byte(byPolicy))
}
