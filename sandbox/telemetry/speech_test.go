package telemetry

import (
	"fmt"
	"strings"
	"testing"
)

// TestSpeech checks that a message is one event, however many pieces it comes in, and that
// its parts can be shown before.
func TestSpeech(t *testing.T) {
	var s Speech
	shown, whole := "", ""
	for i := range 18 {
		word := fmt.Sprintf("wörd%d ", i)
		whole += word
		if events := s.Add("m1", Text, word); len(events) > 0 {
			t.Fatalf("word %d: %+v", i, events)
		}
		if i%4 == 0 {
			g := s.Growing()
			if !g.Follows(len(shown)) || g.Type != Text {
				t.Fatalf("%+v does not follow %q", g, shown)
			}
			shown += g.Content
		}
	}
	if g := s.Growing(); shown+g.Content != whole {
		t.Errorf("shown is %q", shown+g.Content)
	}
	if g := s.Growing(); g.Content != "" {
		t.Errorf("again: %+v", g)
	}
	events := append(s.Add("m1", Thought, "hm"), s.Add("m2", Thought, "oh")...)
	if len(events) != 2 || events[0].Content != whole || events[1].Content != "hm" {
		t.Errorf("%+v", events)
	}
	if g := s.Growing(); g.Offset != 0 || g.Content != "oh" {
		t.Errorf("the next message: %+v", g)
	}
	if n := len(append(s.Add("m3", Text, strings.Repeat("x", 100_000)), s.Flush()...)); n != 3 { // "oh", and 64 KiB at a time
		t.Errorf("a long one is %d events", n)
	}
}
