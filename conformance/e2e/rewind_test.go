package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// A thread goes back to before one of its turns with conversation and files, and there again when
// that is taken back: the agent goes on with its own session then.
func TestRewind(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		w.write(project, "a.txt", "old\n")
		s := e.session(project)
		for _, word := range []string{"medlar", "quince", "sloe"} {
			s.prompt("the word is " + word + " " + script(t, w.shell("echo "+word+" >> a.txt; echo "+word+" > "+word), says("I wrote "+word))).done("end_turn")
		}
		holds := func(when, text string, words ...string) {
			t.Helper()
			if got := w.read(filepath.Join(project, "a.txt")); got != text {
				t.Errorf("%s a.txt holds %q, want %q", when, got, text)
			}
			for _, word := range []string{"medlar", "quince", "sloe"} {
				if there := exists(filepath.Join(project, word)); there != strings.Contains(text, word) {
					t.Errorf("%s the file %s is there: %v", when, word, there)
				}
			}
		}
		if said := s.prompt("/rewind").done("end_turn").text(); !strings.Contains(said, "**2**") || !strings.Contains(said, "the word is quince") {
			t.Errorf("/rewind says %q", said)
		}
		if said := s.prompt("/rewind 2").done("end_turn").text(); !strings.Contains(said, "2 turns are taken back") || !strings.Contains(said, "removed quince") {
			t.Errorf("/rewind 2 says %q", said)
		}
		holds("before the second turn", "old\nmedlar\n")
		before := len(w.model.Requests())
		s.prompt("which word? " + script(t, says("it was medlar"))).done("end_turn")
		w.told(before, "the word is medlar", "which word?")
		w.notTold(before, "the word is quince", "I wrote sloe")
		if said := s.prompt("/rewind 4").done("end_turn").text(); !strings.Contains(said, "1 turn is taken back, 2 turns are there again") {
			t.Errorf("/rewind 4 says %q", said)
		}
		holds("after that was taken back", "old\nmedlar\nquince\nsloe\n")
		before = len(w.model.Requests())
		turn := s.prompt("and now? " + script(t, says("sloe"))).done("end_turn")
		w.told(before, "the word is quince", "I wrote sloe")
		w.notTold(before, "which word?")
		if said := everything(turn); strings.Contains(said, "was given the conversation so far as text") {
			t.Errorf("the agent does not go on with its own session: %s", said)
		}
	})
}
