package canary

import (
	"bytes"
	"regexp"
	"strings"
)

// named is an assignment to something that is called a secret.
var named = regexp.MustCompile(`(?i)(?:key|token|secret|passw(?:or)?d|passphrase|pwd|credential|auth|private|cert)[\w.\-]*["']?\s*(?::=|=>|[:=])\s*["']?([^\s"',;]+)`)

// wordy are the runs of characters that random words are made of.
var wordy = regexp.MustCompile(`[A-Za-z0-9_+=\-]{20,}`)

// encoded is a line of nothing but base64, as in a private key.
var encoded = regexp.MustCompile(`^[A-Za-z0-9+/=]{40,}$`)

// Learn adds the tokens of a file's text and returns how many there are: values of
// what is named like a secret, of 12 bytes and more; words of 20 and more that
// have letters, digits and no order; lines of base64. Text that is not text (with a
// zero byte in it) has none.
func (s *Set) Learn(text []byte, file string) int {
	if bytes.IndexByte(text, 0) >= 0 {
		return 0
	}
	n := 0
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		from := Source{file, i + 1}
		for _, token := range tokens(line) {
			if s.Add(token, from) {
				n++
			}
		}
	}
	return n
}

func tokens(line string) []string {
	var out []string
	for _, m := range named.FindAllStringSubmatch(line, -1) {
		if value := m[1]; len(value) >= MinToken && strings.ContainsAny(value, "0123456789") && !placeholder(value) {
			out = append(out, value)
		}
	}
	for _, word := range wordy.FindAllString(line, -1) {
		if _, value, ok := strings.Cut(word, "="); ok && len(strings.TrimRight(value, "=")) >= MinToken {
			word = value // NAME=value in one run
		}
		if len(word) >= 20 && random(word) {
			out = append(out, word)
		}
	}
	if encoded.MatchString(line) && random(line) {
		out = append(out, line)
	}
	return out
}

// placeholder reports whether a value stands for one, or names where it is.
func placeholder(value string) bool {
	return strings.HasPrefix(value, "$") || strings.HasPrefix(value, "<") || strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") ||
		strings.HasPrefix(value, "~/") || strings.Contains(value, "${") || distinct(value) < 6
}

// random reports whether a word looks as if nobody had thought of it.
func random(word string) bool {
	return strings.ContainsAny(word, "0123456789") &&
		strings.ContainsAny(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") && distinct(word) >= 10
}

func distinct(word string) int {
	var seen [256]bool
	n := 0
	for i := range len(word) {
		if !seen[word[i]] {
			seen[word[i]] = true
			n++
		}
	}
	return n
}
