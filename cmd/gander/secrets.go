package main

import (
	"sync"

	"gander.dev/gander/cmd/gander/internal/redact"
)

// secrets takes secret values out of what is written. It learns new ones when the
// configuration changes and forgets none: an old key may still be in use.
type secrets struct {
	// mu guards the fields below.
	mu     sync.RWMutex
	values []string
	redact *redact.Redactor
}

func newSecrets(environ []string) *secrets {
	s := &secrets{}
	s.learn(redact.Secrets(environ))
	return s
}

func (s *secrets) learn(values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = append(s.values, values...)
	s.redact = redact.New(s.values)
}

// hide returns b without the secrets; it does not change b.
func (s *secrets) hide(b []byte) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.redact.Redact(b)
}

func (s *secrets) hideIn(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.redact.String(text)
}
