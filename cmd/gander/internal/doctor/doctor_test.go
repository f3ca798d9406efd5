package doctor

import (
	"testing"
)

func TestWrap(t *testing.T) {
	if got, want := wrap("one two  three\nfour fünf", 9, 2), "one two\n  three\n  four fünf"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := wrap("averylongword that", 4, 0); got != "averylongword\nthat" {
		t.Errorf("%q", got)
	}
}
