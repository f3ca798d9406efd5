package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A mask replaces secrets by as many asterisks, so that no length changes.
type mask struct {
	all  []string // longest first
	sure []string // those of all that no ordinary text contains by chance
}

// Secrets shorter than minSecret are not masked at all; those shorter than
// sureSecret, or without a digit ("not-needed", "ollama"), not in answers of the
// model, which they would garble.
const (
	minSecret  = 4
	sureSecret = 8
)

func newMask(secrets []string) *mask {
	m := &mask{}
	for _, secret := range secrets {
		secret = strings.TrimSpace(secret)
		if len(secret) < minSecret {
			continue
		}
		forms := spellings(secret)
		m.all = append(m.all, forms...)
		if len(secret) >= sureSecret && strings.ContainsAny(secret, "0123456789") {
			m.sure = append(m.sure, forms...)
		}
	}
	for _, list := range []*[]string{&m.all, &m.sure} {
		slices.SortFunc(*list, func(a, b string) int {
			if d := len(b) - len(a); d != 0 {
				return d
			}
			return strings.Compare(a, b)
		})
		*list = slices.Compact(*list)
	}
	return m
}

// spellings are the ways an echo may write a secret.
func spellings(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err) // strings always marshal
	}
	inJSON := strings.Trim(string(quoted), `"`)
	return []string{
		secret, inJSON, strings.ReplaceAll(secret, "/", `\/`), url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)),
	}
}

// text masks all secrets in s.
func (m *mask) text(s string) string { return string(cover([]byte(s), m.all)) }

// header masks all secrets in the values of h, and drops names that are one.
func (m *mask) header(h http.Header) {
	for name, values := range h {
		if m.text(strings.ToLower(name)) != strings.ToLower(name) {
			delete(h, name)
			continue
		}
		for i := range values {
			values[i] = m.text(values[i])
		}
	}
}

// body masks secrets in a body while it streams: bytes are held back only while
// they may be the beginning of a secret.
func (m *mask) body(r io.Reader, ok bool) io.Reader {
	secrets := m.all
	if ok {
		secrets = m.sure
	}
	if len(secrets) == 0 {
		return r
	}
	return &maskReader{r: r, secrets: secrets}
}

type maskReader struct {
	r       io.Reader
	secrets []string
	ready   []byte // masked, to be delivered
	held    []byte // may be the beginning of a secret
	buf     [32 << 10]byte
	err     error
}

func (m *maskReader) Read(p []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.fill()
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

func (m *maskReader) fill() {
	n, err := m.r.Read(m.buf[:])
	m.err = err
	data := cover(append(m.held, m.buf[:n]...), m.secrets)
	keep := 0
	if err == nil {
		keep = begun(data, m.secrets)
	}
	m.ready = data[:len(data)-keep]
	m.held = slices.Clone(data[len(data)-keep:])
}

// cover overwrites every secret in data.
func cover(data []byte, secrets []string) []byte {
	for _, secret := range secrets {
		for from := 0; ; {
			i := bytes.Index(data[from:], []byte(secret))
			if i < 0 {
				break
			}
			for k := range len(secret) {
				data[from+i+k] = '*'
			}
			from += i + len(secret)
		}
	}
	return data
}

// begun returns how many bytes at the end of data may begin a secret.
func begun(data []byte, secrets []string) int {
	longest := 0
	for _, secret := range secrets {
		for n := min(len(secret)-1, len(data)); n > longest; n-- {
			if string(data[len(data)-n:]) == secret[:n] {
				longest = n
				break
			}
		}
	}
	return longest
}
