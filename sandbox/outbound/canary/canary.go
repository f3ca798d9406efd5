// Package canary notices when content of closed files is on its way out.
//
// A [Set] learns the token-like strings of files (keys, passwords, long random
// words) and keeps keyed hashes of them, with a key that is random, in memory,
// and gone with the process. A [Scanner] looks for them in a stream in one pass,
// however the stream is cut into pieces.
//
// # What is found
//
// A string as it is; as the usual encoders write it in JSON, a URL or hexadecimal digits; and in
// base64, of either alphabet, at any offset, so also in the middle of an encoded
// file. The end of a token decides, and its whole length is compared.
//
// # What is not
//
// What is encrypted, compressed, reversed or spelled with other bytes in between:
// base64 that is broken into lines is found only where a token is within one. Words
// of less than [MinToken] bytes, and what no rule of [Set.Learn] takes for a
// token. It is a canary for accidents and clumsy thieves; what keeps closed files in
// is that they cannot be opened.
package canary

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MinToken is the length in bytes of the shortest token that is looked for.
	MinToken = 12
	// maxToken bounds a token; of longer ones the end is looked for.
	maxToken = 256
	// maxForm is the longest spelling of a token.
	maxForm = 3 * maxToken
	// maxTokens bounds a Set.
	maxTokens = 20_000

	window    = MinToken // at the end of a token, which is looked for first
	block     = 4        // at the end of a window, which says how far to go on
	shiftBits = 17
)

// Source is where a token is from.
type Source struct {
	File string // relative to the project, or absolute
	Line int    // from 1
}

// A Set is the tokens to look for. It is safe for concurrent use: what is added
// counts for what is scanned later.
type Set struct {
	key    [32]byte
	factor uint64 // of the hash of windows; odd
	// blockFactor is of the hash of blocks; odd.
	blockFactor uint32

	// mu guards what follows.
	mu     sync.RWMutex
	shifts []uint8 // by the hash of a block: how many bytes to go on, 0 to look closer
	forms  map[uint64][]form
	tokens map[[sha256.Size]byte]bool
}

// form is one spelling of a token, under the hash of its last bytes.
type form struct {
	length int
	mac    [sha256.Size]byte
	source Source
}

// NewSet returns an empty Set.
func NewSet() *Set {
	s := &Set{forms: map[uint64][]form{}, tokens: map[[sha256.Size]byte]bool{}}
	_, _ = rand.Read(s.key[:]) // never fails
	var seed [12]byte
	_, _ = rand.Read(seed[:])
	s.factor = binary.LittleEndian.Uint64(seed[:8]) | 1
	s.blockFactor = binary.LittleEndian.Uint32(seed[8:]) | 1
	return s
}

// Len is how many tokens there are.
func (s *Set) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.tokens)
}

// Add adds a token; it reports false for one that is too short and when the Set is full.
func (s *Set) Add(token string, from Source) bool {
	if len(token) < MinToken {
		return false
	}
	if len(token) > maxToken {
		token = token[len(token)-maxToken:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.mac([]byte(token))
	if s.tokens[id] {
		return true
	}
	if len(s.tokens) >= maxTokens {
		return false
	}
	s.tokens[id] = true
	if s.shifts == nil {
		s.shifts = bytes.Repeat([]byte{window - block + 1}, 1<<shiftBits)
	}
	for _, text := range spellings(token) {
		end := []byte(text[len(text)-window:])
		for i := block; i <= window; i++ {
			at := &s.shifts[binary.LittleEndian.Uint32(end[i-block:])*s.blockFactor>>(32-shiftBits)]
			*at = min(*at, uint8(window-i))
		}
		h := s.hash(end)
		s.forms[h] = append(s.forms[h], form{len(text), s.mac([]byte(text)), from})
	}
	return true
}

func (s *Set) mac(text []byte) (sum [sha256.Size]byte) {
	m := hmac.New(sha256.New, s.key[:])
	_, _ = m.Write(text) // never fails
	m.Sum(sum[:0])
	return sum
}

// hash is the hash of a window.
func (s *Set) hash(text []byte) (h uint64) {
	for _, b := range text {
		h = h*s.factor + uint64(b) + 1
	}
	return h
}

// spellings are the forms in which a token is looked for, each once.
func spellings(token string) []string {
	seen := map[string]bool{}
	var out []string
	add := func(text string) {
		if len(text) >= window && !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	add(token)
	quoted, err := json.Marshal(token)
	if err == nil { // strings always marshal
		inJSON := string(quoted[1 : len(quoted)-1])
		plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(inJSON)
		for _, text := range []string{inJSON, plain, strings.ReplaceAll(inJSON, "/", `\/`), strings.ReplaceAll(plain, "/", `\/`)} {
			add(text)
			add(inASCII(text))
		}
	}
	for _, kept := range kept {
		text := inURL(token, kept)
		add(text)
		add(lowerDigits.ReplaceAllStringFunc(text, strings.ToLower))
	}
	add(hex.EncodeToString([]byte(token)))
	add(strings.ToUpper(hex.EncodeToString([]byte(token))))
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset := range 3 {
			add(inBase64(alphabet, token, offset))
		}
	}
	return out
}

// inASCII is text of JSON as encoders write it that leave nothing else but ASCII in it.
func inASCII(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// kept is what encoders of URLs leave as it is besides what all do: nothing, slashes (Python),
// what JavaScript's encodeURIComponent and encodeURI leave, and Go's for paths.
var kept = []string{"", "/", "!'()*", ";,/?:@&=+$#!'()*", "$&+:=@"}

// lowerDigits are escapes of which other encoders write the digits in lower case.
var lowerDigits = regexp.MustCompile(`%[0-9A-F]{2}`)

// inURL is a token as a URL has it.
func inURL(token, kept string) string {
	var out strings.Builder
	for i := range len(token) {
		if strings.IndexByte(kept, token[i]) >= 0 {
			out.WriteByte(token[i])
		} else {
			out.WriteString(url.QueryEscape(token[i : i+1]))
		}
	}
	return out.String()
}

// inBase64 is the part of an encoded text that a token alone decides, when it
// begins at an offset within a group of three bytes.
func inBase64(alphabet *base64.Encoding, token string, offset int) string {
	padded := append(make([]byte, offset), token...)
	whole := len(padded) * 8 / 6 // characters of which all bits are known
	first := (offset*8 + 5) / 6
	return alphabet.EncodeToString(padded)[first:whole]
}

// Find looks for tokens in data; it returns the first.
func (s *Set) Find(data []byte) (Source, bool) { return s.Scanner().Scan(data) }

// A Scanner looks for tokens in a stream. It is for one goroutine.
type Scanner struct {
	set  *Set
	tail []byte // what came last, up to maxForm bytes
}

// Scanner returns one for a new stream.
func (s *Set) Scanner() *Scanner { return &Scanner{set: s} }

// Scan looks at the next part of the stream and returns the first token that ends in it.
func (c *Scanner) Scan(data []byte) (Source, bool) {
	s := c.set
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.forms) == 0 || len(data) == 0 {
		return Source{}, false
	}
	before := c.tail[max(0, len(c.tail)-window+1):]
	border := append(append(make([]byte, 0, 2*window), before...), data[:min(window-1, len(data))]...)
	found, ok := c.windows(border, data, len(before))
	if !ok {
		found, ok = c.windows(data, data, 0)
	}
	c.keep(data)
	return found, ok
}

// windows looks at every window of buf, which begins skip bytes before data. It
// goes over most bytes without a look: the last block of a window says how far
// away the next one can be that ends a token (Wu and Manber).
func (c *Scanner) windows(buf, data []byte, skip int) (Source, bool) {
	s := c.set
	factor, shifts := s.blockFactor, s.shifts
	for i := window - 1; i < len(buf); {
		shift := shifts[binary.LittleEndian.Uint32(buf[i-block+1:])*factor>>(32-shiftBits)]
		if shift > 0 {
			i += int(shift)
			continue
		}
		if forms := s.forms[s.hash(buf[i+1-window:i+1])]; forms != nil {
			if found, ok := c.check(forms, data, i-skip); ok {
				return found, true
			}
		}
		i++
	}
	return Source{}, false
}

// check compares what ends at a place of data with the tokens that may end there.
func (c *Scanner) check(forms []form, data []byte, end int) (Source, bool) {
	before := c.tail
	for _, f := range forms {
		start := end + 1 - f.length
		var text []byte
		switch {
		case start >= 0:
			text = data[start : end+1]
		case -start <= len(before):
			text = append(append(text, before[len(before)+start:]...), data[:end+1]...)
		default:
			continue
		}
		if c.set.mac(text) == f.mac {
			return f.source, true
		}
	}
	return Source{}, false
}

// keep remembers the end of the stream.
func (c *Scanner) keep(data []byte) {
	if len(data) >= maxForm {
		c.tail = append(c.tail[:0], data[len(data)-maxForm:]...)
		return
	}
	c.tail = append(c.tail, data...)
	if over := len(c.tail) - maxForm; over > 0 {
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
}
