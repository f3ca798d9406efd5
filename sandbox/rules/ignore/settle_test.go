package ignore

import (
	"os"
	"path/filepath"
	"testing"
)

// An editor that empties or renames the file before it writes must not open the
// door, and rules that hide less hold once the file is at rest.
func TestAHalfWrittenFileDoesNotHold(t *testing.T) {
	name := filepath.Join(t.TempDir(), FileName)
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("secret\n")
	s, err := NewSet(SetOptions{Root: filepath.Dir(name)})
	if err != nil {
		t.Fatal(err)
	}
	pauses := 0
	during := func(do func()) { // what happens while the Set waits
		pauses = 0
		s.pause = func() {
			pauses++
			do()
		}
	}
	hides := func(want string, visible bool) {
		t.Helper()
		if s.Ignored(filepath.Join(filepath.Dir(name), want), false) == visible {
			t.Errorf("%s is hidden: %v, after %d pauses", want, !visible, pauses)
		}
	}

	write("")
	during(func() { write("secret\nmore\n") })
	hides("secret", false)
	hides("more", false)

	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	during(func() { write("secret\n") })
	hides("secret", false)

	write("")
	during(func() { write("!secret\n"); write("") }) // never at rest
	hides("secret", false)
	if pauses != 5 {
		t.Errorf("it waited %d times", pauses)
	}

	during(func() {}) // at rest
	hides("secret", true)
	if pauses != 1 {
		t.Errorf("it waited %d times", pauses)
	}

	write("secret\n*.key\n")
	during(func() { t.Error("it waited before it hid more") })
	hides("secret", false)
}

func TestTightens(t *testing.T) {
	for _, tt := range []struct {
		before, after string
		want          bool
	}{
		{"", "", true},
		{"a\n", "a\n", true},
		{"a\n", "a\nb\n", true},
		{"a\n", "b\na", true},
		{"a\nb\n", "# c\n\na\r\nb\n", true},
		{"a\n!b\n", "a\n", true},
		{"a\n!b\nc\n", "x\na\ny\nc\nz\n", true},
		{"a\n", "", false},
		{"a\n", "b\n", false},
		{"a\n", "# a\n", false},
		{"a\n", "a\n!a\n", false},
		{"a\n!b\n", "!b\na\n", false}, // nor that
		{"a\n!b\nc\n!d\n", "a\n!d\nc\n!b\n", false},
		{"", "!a\n", false},
		{"a\nb\n", "b\na\n", false}, // it hides as much, but that is not seen
	} {
		if got := Tightens(tt.before, tt.after); got != tt.want {
			t.Errorf("from %q to %q: %v", tt.before, tt.after, got)
		}
	}
}
