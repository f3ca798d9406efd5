package ignore

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// fold gives names that a file system without case takes for the same one
// spelling: lower case, composed characters, and without the characters that
// HFS+ does not see.
func fold(s string) string { return foldASCII(foldWide(s)) }

// foldASCII is git's folding.
func foldASCII(s string) string {
	i := strings.IndexFunc(s, func(r rune) bool { return r >= 'A' && r <= 'Z' })
	if i < 0 {
		return s
	}
	b := []byte(s) // bytes, for names need not be UTF-8
	for ; i < len(b); i++ {
		b[i] = lower(b[i])
	}
	return string(b)
}

// foldWide folds the characters beyond ASCII only, as patterns need it: git reads
// the case of ASCII within brackets differently from outside.
func foldWide(s string) string {
	if isASCII(s) {
		return s
	}
	s = norm.NFC.String(s)
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, r < utf8.RuneSelf:
			b = append(b, s[i]) // not a character, or not ours
		case !invisible(r):
			b = utf8.AppendRune(b, foldRune(r))
		}
		i += n
	}
	return string(b)
}

// foldRune picks one of the runes that differ in case only: the ASCII one in
// lower case, or the smallest.
func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if least < utf8.RuneSelf {
		return rune(lower(byte(least)))
	}
	return least
}

// invisible are the characters that HFS+ leaves out when it compares names.
func invisible(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

// windowsName is a name without what Windows leaves out when it opens a file: the
// name of a stream, and dots and spaces at the end.
func windowsName(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		p, _, _ = strings.Cut(p, ":")
		parts[i] = strings.TrimRight(p, ". ")
	}
	return strings.Join(parts, "/")
}
