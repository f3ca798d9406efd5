// Package redact takes the values of secrets out of what is about to be written:
// log records, traces, transcripts.
//
// [Secrets] finds them in an environment, [New] makes a [Redactor] of them, and
// its Redact is applied to each record just before the bytes leave. Looking and
// finding nothing, the usual case, costs little more than a search for each
// secret.
//
// A Redactor recognises a value as it is, and as JSON or Go would escape it. It
// does not recognise one that is encoded otherwise, or spread over two records.
// It is safe for concurrent use.
package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// mask stands where a secret was. A secret that is part of it gets the second.
const (
	mask      = "[redacted]"
	otherMask = "***"
)

// MinLength is the length in bytes below which a value is not taken for a
// secret: hiding every occurrence of it would hide ordinary text.
const MinLength = 5

// minDigits is the same for a number.
const minDigits = 10

// A Redactor takes a set of secrets out of bytes. Nil takes out nothing.
type Redactor struct {
	secrets [][]byte // longest first
	escaped [][]byte // secrets, and how they look quoted
	// special is whether JSON writes some secret with escapes of its own accord.
	special bool
	mask    []byte
	// The filters are of secrets and of escaped.
	secretFilter, escapedFilter *filter
}

// New returns a Redactor for the secrets; empty and very short ones are left out.
func New(secrets []string) *Redactor {
	r := &Redactor{mask: []byte(mask)}
	for _, s := range secrets {
		if len(s) < MinLength {
			continue
		}
		r.secrets = append(r.secrets, []byte(s))
		for _, form := range quoted(s) {
			r.escaped = append(r.escaped, []byte(form))
			r.special = r.special || form != s
		}
		if strings.Contains(mask, s) {
			r.mask = []byte(otherMask)
		}
	}
	r.secrets, r.escaped = longestFirst(r.secrets), longestFirst(r.escaped)
	r.secretFilter, r.escapedFilter = newFilter(r.secrets), newFilter(r.escaped)
	return r
}

// quoted is s, and s as it stands between the quotes of JSON and of Go.
func quoted(s string) []string {
	forms := []string{s, trimQuotes(strconv.Quote(s)), trimQuotes(strconv.QuoteToASCII(s))}
	for _, html := range []bool{false, true} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		_ = enc.Encode(s) // a string always encodes
		forms = append(forms, trimQuotes(strings.TrimSuffix(b.String(), "\n")))
	}
	return append(forms, strings.ReplaceAll(s, "/", `\/`))
}

func trimQuotes(s string) string { return s[1 : len(s)-1] }

func longestFirst(list [][]byte) [][]byte {
	slices.SortFunc(list, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b))
	})
	return slices.CompactFunc(list, bytes.Equal)
}

// Redact returns b without the secrets, which is b itself when there are none;
// b is not changed. What is JSON stays valid JSON: secrets are replaced within
// its strings, however they are escaped there. Anything else is text.
func (r *Redactor) Redact(b []byte) []byte {
	if r == nil || len(r.secrets) == 0 {
		return b
	}
	raw := r.secretFilter.maybe(b) && contains(b, r.secrets)
	if !raw && !r.escapesMatter(b) {
		return b
	}
	clean := r.json(b)
	if !raw && same(clean, b) && !r.escapedFilter.maybe(b) {
		return b
	}
	if json.Valid(b) {
		return clean
	}
	return r.replace(b, r.escaped)
}

// escapesMatter reports whether b may hold a secret that is only seen when its
// strings are unescaped.
func (r *Redactor) escapesMatter(b []byte) bool {
	if bytes.IndexByte(b, '\\') < 0 {
		return false
	}
	return r.special || bytes.Contains(b, []byte(`\u`))
}

func contains(b []byte, secrets [][]byte) bool {
	return slices.ContainsFunc(secrets, func(s []byte) bool { return bytes.Contains(b, s) })
}

// same reports whether a and b are one slice.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// String is Redact for text.
func (r *Redactor) String(s string) string {
	if r == nil || len(r.secrets) == 0 {
		return s
	}
	return string(r.Redact([]byte(s)))
}

// replace masks every occurrence of a secret in text.
func (r *Redactor) replace(text []byte, secrets [][]byte) []byte {
	spans := find(text, secrets)
	if len(spans) == 0 {
		return text
	}
	var out []byte
	from := 0
	for _, s := range spans {
		out = append(append(out, text[from:s.start]...), r.mask...)
		from = s.end
	}
	return append(out, text[from:]...)
}

// span is a range of bytes.
type span struct{ start, end int }

// find returns where secrets, longest first, are in b: leftmost first, none
// overlapping.
func find(b []byte, secrets [][]byte) []span {
	var spans []span
	next := make([]int, len(secrets)) // where each occurs next; len(b): nowhere
	for i, s := range secrets {
		next[i] = index(b, s, 0)
	}
	for {
		first := len(b)
		var length int
		for i, at := range next {
			if at < first {
				first, length = at, len(secrets[i])
			}
		}
		if first == len(b) {
			return spans
		}
		end := first + length
		spans = append(spans, span{first, end})
		for i, s := range secrets {
			if next[i] < end {
				next[i] = index(b, s, end)
			}
		}
	}
}

// index is where s is in b at or after from, or len(b).
func index(b, s []byte, from int) int {
	if i := bytes.Index(b[from:], s); i >= 0 {
		return from + i
	}
	return len(b)
}

// Writer returns a writer that redacts what is written to w, each Write by
// itself; a writer of records writes one at a time.
func (r *Redactor) Writer(w io.Writer) io.Writer { return writer{r, w} }

type writer struct {
	r *Redactor
	w io.Writer
}

func (w writer) Write(p []byte) (int, error) {
	clean := w.r.Redact(p)
	n, err := w.w.Write(clean)
	if err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}
