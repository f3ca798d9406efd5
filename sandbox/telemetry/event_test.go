package telemetry

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestEventJSON(t *testing.T) {
	e := Event{
		RunID: "r1", Seq: 7, Iteration: 2, Type: IterationEnd, Summary: "Completed: 1 actions, 0 errors", Time: 1795202042722, Status: string(OK),
		Usage: &Usage{Input: 20, Output: 10, Total: 30, Cost: 0.5}, Actions: 1, Vitals: &Vitals{CPU: 50, Memory: 12.5, Disk: 1},
	}
	got, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"runId":"r1","seq":7,"iterationId":2,"type":"iteration_end","summary":"Completed: 1 actions, 0 errors","ts":1795202042722,"status":"ok",` +
		`"usage":{"input":20,"output":10,"total":30,"cost":0.5},"actionCount":1,"vitals":{"cpu":50,"memory":12.5,"disk":1},"timestamp":"2026-11-20T19:14:02.722Z"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var back Event
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestTimestampsOfOldLoops(t *testing.T) {
	for in, want := range map[string]int64{
		`{"type":"text","timestamp":"2026-11-20T19:14:02.722Z"}`:        1795202042722,
		`{"type":"text","timestamp":"2026-11-20T19:14:02Z"}`:            1795202042000,
		`{"type":"text","timestamp":"2026-11-20T19:14:02+01:00"}`:       1795198442000,
		`{"type":"text","timestamp":"yesterday"}`:                       0,
		`{"type":"text","ts":5,"timestamp":"2026-11-20T19:14:02.722Z"}`: 5,
	} {
		var e Event
		if err := json.Unmarshal([]byte(in), &e); err != nil {
			t.Fatal(err)
		}
		if e.Time != want {
			t.Errorf("%s is at %d, want %d", in, e.Time, want)
		}
	}
}

// Whatever is cut stays valid text, says so and knows how long it was.
func TestCap(t *testing.T) {
	for _, typ := range []Type{Text, Thought, ToolUse, ToolResult, Error, "novelty"} {
		limit := ContentLimit(typ)
		for pad := range 4 {
			content := strings.Repeat("a", pad) + strings.Repeat("🦆", limit/4+1)
			e := Event{Type: typ, Summary: content, Content: content}
			e.Cap()
			if !utf8.ValidString(e.Content) || len(e.Content) > limit || len(e.Content) < limit-3 {
				t.Errorf("%s, %d before: %d bytes of %d, valid: %v", typ, pad, len(e.Content), limit, utf8.ValidString(e.Content))
			}
			if !e.Truncated || e.Bytes != len(content) {
				t.Errorf("%s: truncated %v, %d bytes; want %d", typ, e.Truncated, e.Bytes, len(content))
			}
			if n := utf8.RuneCountInString(e.Summary); n != SummaryLimit || !utf8.ValidString(e.Summary) {
				t.Errorf("%s: the summary has %d characters: %q", typ, n, e.Summary)
			}
			again := e
			again.Cap()
			if diff := cmp.Diff(e, again); diff != "" {
				t.Errorf("capped again (-first +second):\n%s", diff)
			}
		}
	}
	e := Event{Type: Text, Content: strings.Repeat("x", ContentLimit(Text))}
	if e.Cap(); e.Truncated || e.Bytes != 0 {
		t.Errorf("what fits is said to be cut: %d bytes", e.Bytes)
	}
	e = Event{Type: Text, Content: "a\xffb"}
	if e.Cap(); e.Content != "a\uFFFDb" {
		t.Errorf("content %q", e.Content)
	}
}

func TestSummarise(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"  two\n\n words\t ":            "two words",
		"bell\a and \x1b[1mbold":        "bell and [1mbold",
		"a\xffb":                        "a\uFFFDb",
		strings.Repeat("é", 201):        strings.Repeat("é", 200),
		strings.Repeat("🦆", 500):        strings.Repeat("🦆", 200),
		strings.Repeat("x", 199) + " y": strings.Repeat("x", 199),
	} {
		if got := Summarise(in); got != want {
			t.Errorf("Summarise(%.40q) = %.40q, want %.40q", in, got, want)
		}
	}
}
