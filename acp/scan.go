package acp

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// This file walks JSON that is already known to be valid, without decoding it:
// the bulk of the traffic is looked at and passed on, never rebuilt.

// members yields the members of a JSON object in order: keys unescaped, values
// raw. It yields nothing for anything else. raw must be valid JSON.
func members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		i := skipSpace(raw, 0)
		if i >= len(raw) || raw[i] != '{' {
			return
		}
		for i = skipSpace(raw, i+1); raw[i] == '"'; {
			end := skipString(raw, i)
			key := unescapeKey(raw[i:end])
			i = skipSpace(raw, skipSpace(raw, end)+1) // the colon
			end = skipValue(raw, i)
			if !yield(key, raw[i:end]) {
				return
			}
			if i = skipSpace(raw, end); raw[i] == ',' {
				i = skipSpace(raw, i+1)
			}
		}
	}
}

// array yields the raw elements of a JSON array and nothing for anything else.
func array(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := skipSpace(raw, 0)
		if i >= len(raw) || raw[i] != '[' {
			return
		}
		for i = skipSpace(raw, i+1); raw[i] != ']'; {
			end := skipValue(raw, i)
			if !yield(raw[i:end]) {
				return
			}
			if i = skipSpace(raw, end); raw[i] == ',' {
				i = skipSpace(raw, i+1)
			}
		}
	}
}

// member returns the raw value of one member; of a repeated key the last, as
// encoding/json does; nil when there is none.
func member(raw []byte, name string) []byte {
	var found []byte
	for key, value := range members(raw) {
		if string(key) == name {
			found = value
		}
	}
	return found
}

// text decodes a raw JSON string; ok is false for anything else.
func text(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if body := raw[1 : len(raw)-1]; bytes.IndexByte(body, '\\') < 0 {
		return string(body), true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// isKind reports whether raw is a JSON value that starts with c: '{' an object, '[' an array.
func isKind(raw []byte, c byte) bool { return len(raw) > 0 && raw[0] == c }

// isNull reports whether raw is absent or null.
func isNull(raw []byte) bool { return len(raw) == 0 || raw[0] == 'n' }

func unescapeKey(quoted []byte) []byte {
	body := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return body
	}
	s, _ := text(quoted)
	return []byte(s)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that starts at i.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		i += n
		if !escaped(b, i) {
			return i + 1
		}
	}
}

// escaped reports whether the quote at i has an odd number of backslashes before it.
func escaped(b []byte, i int) bool {
	n := 0
	for b[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// skipValue returns the index behind the value that starts at i.
func skipValue(b []byte, i int) int {
	if b[i] == '"' {
		return skipString(b, i)
	}
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// crowded reports whether valid JSON is made of more than so many values. Each stands behind
// the beginning of what it is in, or a comma.
func crowded(raw []byte, most int) bool {
	n := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = skipString(raw, i) - 1
		case ',', '{', '[':
			if n++; n > most {
				return true
			}
		}
	}
	return false
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return append(dst, encode(s)...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// encode is json.Marshal of a value that cannot fail, without HTML escaping.
func encode(v any) []byte {
	b, err := marshal(v)
	if err != nil {
		panic("acp: " + err.Error())
	}
	return b
}
