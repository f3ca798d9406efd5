package opencode

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/outbound/gateway"
)

// patience bounds what a real opencode does; the machine may be busy.
const patience = 2 * time.Minute

// A rig is a real opencode in a real sandbox with a scripted model. Its own
// editor keeps what is sent to it.
type rig struct {
	t       *testing.T
	project string
	home    string
	model   *model.Server
	gate    *gateway.Gateway
	editor  *recorder
	agent   *Agent
	sb      sandbox.Sandbox
	conv    sandbox.AgentSession

	// mu guards what follows.
	mu     sync.Mutex
	frames []string                                   // between gander and opencode, from it with "<" in front
	answer func(*acp.RequestPermissionRequest) string // the option to select; empty cancels
}

// recorder is an acp.Client.
type recorder struct {
	r *rig

	// mu guards what follows.
	mu      sync.Mutex
	updates []json.RawMessage
	changed chan struct{} // closed and replaced with every update
}

func (e *recorder) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = append(e.updates, n.Update)
	close(e.changed)
	e.changed = make(chan struct{})
	return nil
}

func (e *recorder) RequestPermission(ctx context.Context, q *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	e.r.mu.Lock()
	answer := e.r.answer
	e.r.mu.Unlock()
	if answer == nil {
		return acp.CancelledOutcome(), nil
	}
	option := answer(q)
	if option == "" || ctx.Err() != nil {
		return acp.CancelledOutcome(), nil
	}
	return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: option}}, nil
}

// program is the pinned opencode.
func program(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../node_modules/opencode-linux-x64/bin/opencode")
	if err == nil {
		_, err = os.Stat(path)
	}
	switch {
	case err == nil:
		return path
	case os.Getenv("GANDER_CHECK") == "1":
		t.Fatalf("there is no opencode (make agents installs it): %v", err)
	default:
		t.Skipf("there is no opencode; make agents installs it: %v", err)
	}
	return ""
}

func newRig(t *testing.T, env ...string) *rig {
	t.Helper()
	opencode := program(t)
	if testing.Short() {
		t.Skip("a real opencode takes its time")
	}
	r := &rig{t: t, project: t.TempDir(), home: t.TempDir(), model: model.New(model.Options{Keep: 10_000})}
	r.editor = &recorder{r: r, changed: make(chan struct{})}
	base, err := r.model.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.model.Close() })
	if r.gate, err = gateway.New(gateway.Options{Endpoint: gateway.Endpoint{BaseURL: base}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.gate.Close() })
	settings := Settings{
		Command: []string{opencode},
		Env:     append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}, env...),
		Model:   "duck/7b",
		Mounts:  []sandbox.Mount{{Path: opencode}},
	}
	r.agent = New(func() (Settings, error) { return settings, nil }, Options{Trace: r.trace})
	return r
}

func (r *rig) trace(dir acp.Direction, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	arrow := ">"
	if dir == acp.In {
		arrow = "<"
	}
	r.frames = append(r.frames, arrow+string(line))
}

// seen reports whether a frame contains all of the words.
func (r *rig) seen(words ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
frames:
	for _, f := range r.frames {
		for _, w := range words {
			if !strings.Contains(f, w) {
				continue frames
			}
		}
		return true
	}
	return false
}

// open makes a sandbox and opens a conversation in it.
func (r *rig) open(p sandbox.SessionParams) {
	r.t.Helper()
	ctx, done := context.WithTimeout(r.t.Context(), patience)
	defer done()
	log := slog.New(slog.NewTextHandler(r.t.Output(), nil))
	sb, err := local.New(local.Options{Log: log}).Create(ctx, sandbox.Spec{
		ID: "test-" + strings.ToLower(filepath.Base(r.project)), WorkingDir: r.project, Home: r.home, Mounts: r.agent.Mounts(),
		Doors: []sandbox.Door{{Name: "model", Dial: r.gate.Dial}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.sb = sb
	r.t.Cleanup(func() { _ = sb.Close() })
	p.WorkingDir, p.ModelAddr, p.ModelToken, p.Client = r.project, sb.Info().Doors["model"], r.gate.Token(), r.editor
	if r.conv, err = r.agent.Open(ctx, sb, p); err != nil {
		r.t.Fatal(err)
	}
	conv := r.conv
	r.t.Cleanup(func() { _ = conv.Close() })
}

// scripted is a prompt that the model answers with steps.
func scripted(steps string, words ...string) []acp.ContentBlock {
	return []acp.ContentBlock{acp.TextBlock(strings.Join(append(words, model.Embed("["+steps+"]")), " "))}
}

// bash is a step that runs a command.
func bash(command string) string {
	args, _ := json.Marshal(map[string]string{"command": command, "description": "a test"})
	return fmt.Sprintf(`{"tool":"bash","args":%s}`, args)
}

type reply struct {
	resp *acp.PromptResponse
	err  error
}

// begin prompts without waiting.
func (r *rig) begin(prompt []acp.ContentBlock) <-chan reply {
	replies := make(chan reply, 1)
	go func() {
		resp, err := r.conv.Prompt(r.t.Context(), prompt)
		replies <- reply{resp, err}
	}()
	return replies
}

func (r *rig) await(replies <-chan reply) reply {
	r.t.Helper()
	select {
	case got := <-replies:
		return got
	case <-time.After(patience):
		r.t.Fatalf("the prompt is not answered; frames:\n%s", r.dump())
		return reply{}
	}
}

// ask prompts and wants the turn to end well.
func (r *rig) ask(prompt []acp.ContentBlock) {
	r.t.Helper()
	if got := r.await(r.begin(prompt)); got.err != nil || got.resp.StopReason != acp.StopEndTurn {
		r.t.Fatalf("the prompt was answered %+v, %v; frames:\n%s", got.resp, got.err, r.dump())
	}
}

func (r *rig) dump() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.frames[max(0, len(r.frames)-20):], "\n")
}

// waitFor returns when an update contains all of the words.
func (r *rig) waitFor(words ...string) {
	r.t.Helper()
	late := time.After(patience)
	for {
		r.editor.mu.Lock()
		changed, found := r.editor.changed, contains(r.editor.updates, words)
		r.editor.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-late:
			r.t.Fatalf("no update with %q; frames:\n%s", words, r.dump())
		}
	}
}

func contains(updates []json.RawMessage, words []string) bool {
updates:
	for _, u := range updates {
		for _, w := range words {
			if !strings.Contains(string(u), w) {
				continue updates
			}
		}
		return true
	}
	return false
}

// all are the updates of a kind so far.
func (r *rig) all(kind string) []json.RawMessage {
	r.editor.mu.Lock()
	defer r.editor.mu.Unlock()
	var found []json.RawMessage
	for _, u := range r.editor.updates {
		if acp.UpdateKind(u) == kind {
			found = append(found, u)
		}
	}
	return found
}

// said is all that the agent has said.
func (r *rig) said() string {
	var b strings.Builder
	for _, u := range r.all(acp.AgentMessageChunk) {
		var chunk struct{ Content struct{ Text string } }
		_ = json.Unmarshal(u, &chunk)
		b.WriteString(chunk.Content.Text)
	}
	return b.String()
}

// mark notes what runs in the sandbox.
func (r *rig) mark() sandbox.Mark {
	r.t.Helper()
	m, err := r.sb.Mark(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// cancel ends a turn as the router does.
func (r *rig) cancel(m sandbox.Mark, replies <-chan reply) sandbox.KillReport {
	r.t.Helper()
	began := time.Now()
	if err := r.conv.Cancel(); err != nil {
		r.t.Fatal(err)
	}
	r.gate.AbortInFlight()
	got := r.await(replies)
	// An aborted model call may be answered before opencode hears of the cancel.
	if got.err != nil || got.resp.StopReason != acp.StopCancelled && got.resp.StopReason != acp.StopEndTurn {
		r.t.Errorf("a cancelled prompt was answered %+v, %v", got.resp, got.err)
	}
	r.t.Logf("cancelled after %v", time.Since(began).Round(time.Millisecond))
	report, err := r.sb.KillSince(r.t.Context(), m)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// messages are what the model was last asked.
func (r *rig) messages() string {
	all := r.model.Requests()
	if len(all) == 0 {
		return ""
	}
	return string(all[len(all)-1].Body)
}
