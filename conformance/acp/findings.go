package acp

import "sync"

// findings are what was noticed along the way, by the check that tells of it.
type findings struct {
	// mu guards what follows.
	mu    sync.Mutex
	first map[string][]string
	count map[string]int
}

func newFindings() *findings {
	return &findings{first: map[string][]string{}, count: map[string]int{}}
}

// add notes a finding; the first ones are kept in words.
func (f *findings) add(check, text string) {
	const enough = 8
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count[check]++
	if len(f.first[check]) < enough {
		f.first[check] = append(f.first[check], text)
	}
}

// of are the words kept for a check, and how many findings there were.
func (f *findings) of(check string) ([]string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first[check], f.count[check]
}
