package redact

import (
	"slices"
	"strconv"
	"strings"
)

// IsSecretName reports whether a variable of that name holds a secret: it ends
// in KEY, TOKEN, SECRET or PASSWORD, in any case.
func IsSecretName(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASSWORD"}, func(end string) bool {
		return strings.HasSuffix(name, end)
	})
}

// Secrets returns the values of the variables ("NAME=value") that hold secrets,
// each once. Values that say nothing are left out: very short ones, booleans and
// small numbers.
func Secrets(environ []string) []string {
	var secrets []string
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		value = strings.TrimSpace(value)
		if IsSecretName(name) && telling(value) && !slices.Contains(secrets, value) {
			secrets = append(secrets, value)
		}
	}
	return secrets
}

// telling reports whether a value is one that nobody would write by chance.
func telling(value string) bool {
	if len(value) < MinLength {
		return false
	}
	if _, err := strconv.ParseBool(strings.ToLower(value)); err == nil {
		return false
	}
	_, err := strconv.ParseFloat(value, 64)
	return err != nil || len(value) >= minDigits
}
