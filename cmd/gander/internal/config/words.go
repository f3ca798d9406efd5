package config

import (
	"errors"
	"runtime"
	"strings"
)

// splitWords splits a command into words as a shell does, without expanding
// anything: words end at white space outside of quotes; '…' is literal; in "…" a
// backslash makes ", \, $ and ` ordinary; elsewhere it makes any character so. On
// Windows a backslash is always an ordinary character.
func splitWords(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	escaped := false
	for _, c := range s {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", c) {
				word.WriteByte('\\')
			}
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'' && runtime.GOOS != "windows":
			escaped, inWord = true, true
		case c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", c):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote or an escape is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("there is no program in it; name one, or leave it out")
	}
	return words, nil
}
