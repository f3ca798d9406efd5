package unattended

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/telemetry"
)

// viewed is what a view of a width shows at a time; 0 is no terminal.
func viewed(t *testing.T, width int, at time.Time, use func(*loopView)) string {
	t.Helper()
	var out bytes.Buffer
	a := &cli.App{Stdio: cli.Stdio{Out: &out, Err: &out}, Config: &config.Config{}, Secrets: cli.NewSecrets([]string{"LLM_API_KEY=sk-canary-0123456789"})}
	v := newLoopView(a)
	v.width, v.color, v.now = width, false, func() time.Time { return at }
	use(v)
	v.close()
	return out.String()
}

func showing(t *testing.T, events ...telemetry.Event) func(*loopView) {
	return func(v *loopView) {
		for _, e := range events {
			if err := v.event(e); err != nil {
				t.Error(err)
			}
		}
	}
}

// What is long is folded and cut, what is said in pieces is one text, and nothing of it
// controls the terminal or is a secret.
func TestLoopView(t *testing.T) {
	began := time.Date(2026, 11, 22, 4, 0, 0, 0, time.Local)
	events := []telemetry.Event{
		{Type: telemetry.IterationStart, Iteration: 7, Time: began.UnixMilli()},
		{Type: telemetry.Thought, Content: "so "},
		{Type: telemetry.Thought, Content: "what"},
		{Type: telemetry.Text, Content: "Let "},
		{Type: telemetry.Text, Content: "me \x1b[2Jlook\a.\n"},
		{Type: telemetry.ToolUse, Summary: "shell: command=cat\nkey", Tool: "shell"},
		{Type: telemetry.ToolResult, Status: telemetry.Failed, Content: "sk-canary-0123456789\n2\n3\n4\n5\n6\n7\n8\n"},
		{Type: telemetry.ToolResult, Status: telemetry.Completed, Content: "1\n2\n3\n4\n5\n6"},
		{Type: telemetry.Error, Content: "oh, " + strings.Repeat("no ", 20) + "no"},
		{Type: telemetry.IterationEnd, Iteration: 7, Time: began.Add(90 * time.Second).UnixMilli(), Status: string(telemetry.AgentError), Reason: "it fell over", Actions: 1, Errors: 2, Usage: &telemetry.Usage{Total: 123456, Cost: 0.5}},
		{Type: telemetry.StateChange, State: telemetry.Paused, Reason: "5 failures"},
	}
	want := `
── iteration 7, 04:00:00 ──────────────
… so what
Let me �[2Jlook�.
▸ shell: command=cat key
  ✗ failed
    [redacted]
    2
    3
    4
    5
    … 3 more lines
    1
    2
    3
    4
    5
    6
! oh, no no no no no no no no no no no no no no no no no no no no no
── iteration 7: agent_error, 1m30s, 1 a…
   it fell over
● paused: 5 failures
`
	got := viewed(t, 40, began, showing(t, events...))
	got = strings.ReplaceAll(got, secretMark(t), "[redacted]")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

// secretMark is what stands for a secret.
func secretMark(t *testing.T) string {
	t.Helper()
	return cli.NewSecrets([]string{"LLM_API_KEY=sk-canary-0123456789"}).HideIn("sk-canary-0123456789")
}

// A wait counts down on one line of a terminal, which goes when something comes;
// elsewhere a long one is told once.
func TestLoopViewWaits(t *testing.T) {
	at := time.Date(2026, 11, 22, 4, 0, 0, 0, time.Local)
	until := at.Add(75 * time.Second).UnixMilli()
	unready := telemetry.Event{Type: telemetry.StateChange, State: telemetry.Unready, Reason: "500", Until: until}
	waiting := telemetry.Event{Type: telemetry.StateChange, State: telemetry.Waiting, Until: until}
	text := telemetry.Event{Type: telemetry.Text, Content: "on"}
	const erased = "\r\x1b[K"
	for _, tt := range []struct {
		name  string
		width int
		use   func(*loopView)
		want  string
	}{
		{"terminal", 60, showing(t, waiting, text), "● waiting 1m15s" + erased + "on\n"},
		{"a second later", 60, func(v *loopView) {
			showing(t, waiting)(v)
			v.now = func() time.Time { return at.Add(time.Second) }
			v.showWait()
		}, "● waiting 1m15s" + erased + "● waiting 1m14s" + erased},
		{"no model, twice", 60, showing(t, unready, unready), "● llm_unavailable: 500, until 04:01:15\n● llm_unavailable 1m15s: 500" + erased + "● llm_unavailable 1m15s: 500" + erased},
		{"no terminal", 0, showing(t, waiting, unready, text), "● waiting, until 04:01:15\n● llm_unavailable: 500, until 04:01:15\non\n"},
		{"a short wait, no terminal", 0, showing(t, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Waiting, Until: at.Add(2 * time.Second).UnixMilli()}), ""},
		{"a wait of the past", 60, showing(t, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Waiting, Until: at.Add(-time.Hour).UnixMilli()}), ""},
		{"words before a note", 60, func(v *loopView) { showing(t, text)(v); v.note("away") }, "on\ngander: away\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, viewed(t, tt.width, at, tt.use)); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
		})
	}
}
