package main

import (
	"slices"
	"strings"
	"sync"

	"gander.dev/gander/acp"
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
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(s.values, v) })
	if len(values) == 0 {
		return
	}
	s.values = append(s.values, values...)
	s.redact = redact.New(s.values)
}

// learnAmong learns those of an MCP server's variables and headers that are secret.
func (s *secrets) learnAmong(values []acp.EnvVariable) {
	environ := make([]string, len(values))
	for i, v := range values {
		if strings.EqualFold(v.Name, "Authorization") { // a scheme, and a token behind it
			v.Name, v.Value = "TOKEN", v.Value[strings.LastIndexByte(v.Value, ' ')+1:]
		}
		environ[i] = v.Name + "=" + v.Value
	}
	s.learn(redact.Secrets(environ))
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
