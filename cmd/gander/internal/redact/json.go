package redact

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// json masks secrets within the strings of b; all else stays byte for byte. What
// is not JSON gives nothing useful.
func (r *Redactor) json(b []byte) []byte {
	var out []byte // nil as long as nothing changed
	copied := 0
	for start := nextString(b, 0); start < len(b); {
		end := start + stringLength(b[start:])
		if clean := r.jsonString(b[start:end]); clean != nil {
			out = append(append(out, b[copied:start]...), clean...)
			copied = end
		}
		start = nextString(b, end+1)
	}
	if out == nil {
		return b
	}
	return append(out, b[copied:]...)
}

// nextString is where the inside of the next string begins, or len(b).
func nextString(b []byte, from int) int {
	if from < len(b) {
		if i := bytes.IndexByte(b[from:], '"'); i >= 0 {
			return from + i + 1
		}
	}
	return len(b)
}

// stringLength is the length of the string that b begins within, up to its quote.
func stringLength(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}

// jsonString masks secrets in the raw inside of a JSON string; nil: there are none.
func (r *Redactor) jsonString(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		if !r.secretFilter.maybe(raw) {
			return nil
		}
		if clean := r.replace(raw, r.secrets); !same(clean, raw) {
			return clean
		}
		return nil
	}
	meaning := unescape(raw)
	if !r.secretFilter.maybe(meaning) {
		return nil
	}
	spans := find(meaning, r.secrets)
	if len(spans) == 0 {
		return nil
	}
	return r.maskEscaped(raw, spans)
}

func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		plain := bytes.IndexByte(raw, '\\')
		if plain < 0 {
			return append(out, raw...)
		}
		out = append(out, raw[:plain]...)
		c, n := escape(raw[plain:])
		out = utf8.AppendRune(out, c)
		raw = raw[plain+n:]
	}
	return out
}

// maskEscaped replaces the parts of raw that mean the given spans of its meaning.
func (r *Redactor) maskEscaped(raw []byte, spans []span) []byte {
	var out []byte
	meaning := 0 // how far into it
	for i := 0; i < len(raw); {
		n, size := 1, 1 // bytes here, and what they mean
		if raw[i] == '\\' {
			var c rune
			c, n = escape(raw[i:])
			size = utf8.RuneLen(c)
		}
		for len(spans) > 0 && spans[0].end <= meaning {
			spans = spans[1:]
		}
		switch inside := len(spans) > 0 && spans[0].start < meaning+size; {
		case !inside:
			out = append(out, raw[i:i+n]...)
		case spans[0].start >= meaning:
			out = append(out, r.mask...)
		}
		meaning += size
		i += n
	}
	return out
}

// escape decodes the JSON escape that raw begins with, and says how long it is.
// Half of a surrogate pair means U+FFFD, as it does to encoding/json.
func escape(raw []byte) (c rune, n int) {
	if len(raw) < 2 {
		return utf8.RuneError, len(raw)
	}
	switch raw[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return unicodeEscape(raw)
	}
	return rune(raw[1]), 2
}

func unicodeEscape(raw []byte) (c rune, n int) {
	c, ok := hex4(raw)
	if !ok {
		return utf8.RuneError, 2
	}
	if !utf16.IsSurrogate(c) {
		return c, 6
	}
	if low, ok := hex4(raw[6:]); ok {
		if pair := utf16.DecodeRune(c, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 is the number of a \uXXXX that raw begins with.
func hex4(raw []byte) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil
}
