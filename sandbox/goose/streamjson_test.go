package goose

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/telemetry/telemetrytest"
)

// captures are what a real goose printed.
const captures = "testdata/streamjson/*.txtar"

func parser() telemetry.Parser { return new(Events) }

// TestEvents compares what is made of captures, and how they are judged. -update rewrites
// what is expected.
func TestEvents(t *testing.T) { telemetrytest.Captures(t, captures, parser, *update) }

func FuzzEvents(f *testing.F) { telemetrytest.Fuzz(f, captures, parser) }

// Older gooses print a banner and bare calls; an interrupted one glues words in front.
func TestOtherForms(t *testing.T) {
	printed := strings.Join([]string{
		"starting session | provider: openai model: small", "    logging to /x", "", "{not json",
		`{"type":"message","message":{"id":"c1","role":"assistant","content":[{"type":"thinking","thinking":"I "},{"type":"thinking","thinking":"think"},{"type":"text","text":"Let "}]}}`,
		`{"type":"message","message":{"id":"c1","role":"assistant","content":[{"type":"text","text":"me look."},{"type":"toolRequest","id":"t","toolCall":{"name":"shell","arguments":{"command":"ls"}}}]}}`,
		`{"type":"message","message":{"role":"user","content":[{"type":"toolResponse","id":"t","toolResult":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}]}}`,
		`{"type":"notification","extension_id":"t","log":{"message":"half way"}}`,
		`I was interrupted.{"type":"error","error":"Headless run interrupted"}`,
	}, "\n")
	var p Events
	var got []string
	for line := range strings.Lines(printed) {
		for _, e := range p.Line([]byte(line)) {
			got = append(got, string(e.Type)+": "+e.Content)
		}
	}
	want := []string{
		"thought: I think", "text: Let me look.", `tool_use: {"command":"ls"}`, "tool_result: a\n(image that is not text)\nb", "tool_progress: half way",
		"error: Headless run interrupted",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if _, v := p.End(telemetry.Exit{Code: 1}); v.Outcome != telemetry.AgentError {
		t.Errorf("verdict %+v", v)
	}
	if _, v := new(Events).End(telemetry.Exit{}); v.Outcome != telemetry.AgentError {
		t.Errorf("of silence: %+v", v)
	}
}

// An iteration of 10,000 tokens, one line each.
func BenchmarkTokens(b *testing.B) {
	line := []byte(`{"type":"message","message":{"id":"chatcmpl-1","role":"assistant","created":1795198942,"content":[{"type":"text","text":"word "}],"metadata":{"userVisible":true,"agentVisible":true,"inference":{"provider":"openai","requestedModel":"small"}}}}` + "\n")
	for b.Loop() {
		var p Events
		n := 0
		for range 10_000 {
			for _, e := range p.Line(line) {
				e.Cap()
				raw, _ := json.Marshal(e)
				n += len(raw)
			}
		}
		if n += len(p.Flush()); n == 0 {
			b.Fatal("no events")
		}
	}
}
