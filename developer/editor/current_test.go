package editor

import "testing"

// What looks like a text is told only when it does.
func TestAlike(t *testing.T) {
	file := mustDecode(t, "alpha\n\n  beta gamma\nx\n").lines
	for before, want := range map[string]int{
		"beta":           2,  // in the line
		"alphabet\nsoup": 0,  // around the line
		"  beta gamma ":  2,  // but for spaces
		"zzz":            -1, // an empty line is inside of everything
		"\nalpha":        -1, // no first line to go by
	} {
		at, ok := alike(file, before)
		if !ok {
			at = -1
		}
		if at != want {
			t.Errorf("%q is like line %d, want %d", before, at, want)
		}
	}
}
