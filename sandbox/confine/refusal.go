package confine

import (
	"errors"
	"fmt"
)

// refusal says why the person's policy lets nothing run.
type refusal struct{ reason error }

func (r *refusal) Error() string { return r.reason.Error() }

func (r *refusal) Unwrap() error { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Errorf(format, args...)} }

// Refused reports whether an error is a refusal of the person's policy.
func Refused(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}
