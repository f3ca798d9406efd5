package ignore

import "sync"

// A Text is a person's own rules for who cannot read the file itself. The zero Text
// is a file that is not there. It is safe for concurrent use.
type Text struct {
	mu      sync.Mutex // guards what is below
	there   bool
	text    string
	changes int64
}

// Set replaces the rules; there says whether there is a file at all. Sets look at
// it before they decide, those that keep what they decided when they are refreshed.
func (t *Text) Set(text string, there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text, t.there = text, there
	t.changes++
}

// String is the rules.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// sign has the number of changes for a size.
func (t *Text) sign() signature {
	t.mu.Lock()
	defer t.mu.Unlock()
	return signature{there: t.there, size: t.changes}
}
