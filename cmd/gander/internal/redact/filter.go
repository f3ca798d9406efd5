package redact

import (
	"encoding/binary"
	"math/bits"
)

// gram is how many bytes the filter looks at together.
const gram = 4

const filterBits = 14

// A filter says quickly that none of a set of words is in a text. It knows a hash
// of every gram in the first step+gram-1 bytes of each word, so that looking at
// every step-th position of a text meets any occurrence: the longer the shortest
// word, the fewer bytes are looked at, however many words there are.
type filter struct {
	step int // 0: no words
	bits [1 << filterBits / 64]uint64
}

// newFilter returns the filter for words of at least MinLength bytes.
func newFilter(words [][]byte) *filter {
	f := &filter{}
	for _, w := range words {
		if step := len(w) - gram + 1; f.step == 0 || step < f.step {
			f.step = step
		}
	}
	for _, w := range words {
		for i := range f.step {
			h := hash(w[i:])
			f.bits[h/64] |= 1 << (h % 64)
		}
	}
	return f
}

// maybe reports whether some word may be in text; false is certain.
func (f *filter) maybe(text []byte) bool {
	if f.step == 0 {
		return false
	}
	for i := 0; i+gram <= len(text); i += f.step {
		if h := hash(text[i:]); f.bits[h/64]&(1<<(h%64)) != 0 {
			return true
		}
	}
	return false
}

// hash is a number of filterBits bits for the first gram of b.
func hash(b []byte) uint32 {
	const golden = 0x9e3779b1 // spreads the bits that differ over the upper ones
	return bits.RotateLeft32(binary.LittleEndian.Uint32(b)*golden, filterBits) & (1<<filterBits - 1)
}
