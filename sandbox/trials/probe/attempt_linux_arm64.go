package probe

import "errors"

// olderAttempts: this architecture never had them.
func olderAttempts() map[string]attempt { return nil }

func ports(name string) error { return errors.New("there is no " + name + " on this architecture") }

func localTable() error { return errors.New("there is no such table on this architecture") }
