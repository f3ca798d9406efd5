package opencode

import "strings"

const (
	// minOverlap is how much of two outputs must be the same, in bytes, to say that
	// one goes on where the other was.
	minOverlap = 32
	// anchorSize is how much of the end of an output is looked for in the next one.
	anchorSize = 512
	// gap stands for output that came and went between two updates.
	gap = "\n[some output is not shown here]\n"
)

// added is what now has more than before. Both are the output of a command so
// far, of which opencode keeps only the end; the last one may have words of
// opencode's own around it.
func added(before, now string) string {
	if fresh, ok := strings.CutPrefix(now, before); ok {
		return fresh
	}
	if n := overlap(before, now); n >= minOverlap {
		return now[n:]
	}
	anchor := before[max(0, len(before)-anchorSize):]
	if i := strings.LastIndex(now, anchor); i >= 0 {
		return now[i+len(anchor):]
	}
	return gap + now
}

// overlap is the length of the longest end of a that b begins with, in time
// linear in both (the prefix function of Knuth, Morris and Pratt).
func overlap(a, b string) int {
	a = a[max(0, len(a)-len(b)):]
	fail := make([]int, len(b)+1) // fail[n] is the longest proper end of b[:n] that b begins with
	for i, n := 1, 0; i < len(b); i++ {
		for n > 0 && b[i] != b[n] {
			n = fail[n]
		}
		if b[i] == b[n] {
			n++
		}
		fail[i+1] = n
	}
	n := 0
	for i := range len(a) {
		if n == len(b) {
			n = fail[n]
		}
		for n > 0 && a[i] != b[n] {
			n = fail[n]
		}
		if a[i] == b[n] {
			n++
		}
	}
	return n
}
