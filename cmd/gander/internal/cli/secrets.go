package cli

import (
	"slices"
	"strings"
	"sync"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/redact"
)

// Secrets takes secret values out of what is written. It learns new ones when the
// configuration changes and forgets none: an old key may still be in use.
type Secrets struct {
	// mu guards the fields below.
	mu     sync.RWMutex
	values []string
	redact *redact.Redactor
}

func NewSecrets(environ []string) *Secrets {
	s := &Secrets{}
	s.Learn(redact.Secrets(environ))
	return s
}

func (s *Secrets) Learn(values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(s.values, v) })
	if len(values) == 0 {
		return
	}
	s.values = append(s.values, values...)
	s.redact = redact.New(s.values)
}

// LearnAmong learns those of an MCP server's variables and headers that are secret.
func (s *Secrets) LearnAmong(values []acp.EnvVariable) {
	environ := make([]string, len(values))
	for i, v := range values {
		if strings.EqualFold(v.Name, "Authorization") { // a scheme, and a token behind it
			v.Name, v.Value = "TOKEN", v.Value[strings.LastIndexByte(v.Value, ' ')+1:]
		}
		environ[i] = v.Name + "=" + v.Value
	}
	s.Learn(redact.Secrets(environ))
}

// Hide returns b without the secrets; it does not change b.
func (s *Secrets) Hide(b []byte) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.redact.Redact(b)
}

func (s *Secrets) HideIn(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.redact.String(text)
}
