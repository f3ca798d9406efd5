package custom

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gander.dev/gander/acp"
	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/outbound/gateway"
)

// TestMain makes the test binary its own supervisor, as gander is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds what a real agent does; the machine may be busy.
const patience = 2 * time.Minute

// listener is an acp.Client that keeps what the agent says.
type listener struct {
	// mu guards said.
	mu   sync.Mutex
	said strings.Builder
}

func (l *listener) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	if acp.UpdateKind(n.Update) != acp.AgentMessageChunk {
		return nil
	}
	var chunk struct{ Content struct{ Text string } }
	if err := json.Unmarshal(n.Update, &chunk); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.WriteString(chunk.Content.Text)
	return nil
}

func (l *listener) RequestPermission(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	return acp.CancelledOutcome(), nil
}

func pinned(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../../node_modules/opencode-linux-x64/bin/opencode")
	if err == nil {
		_, err = os.Stat(program)
	}
	switch {
	case err == nil:
	case os.Getenv("GANDER_CHECK") == "1":
		t.Fatalf("there is no opencode (make agents installs it): %v", err)
	default:
		t.Skipf("there is no opencode; make agents installs it: %v", err)
	}
	return program
}

// box is a sandbox with a way to a scripted model.
func box(t *testing.T, project, program string) (sandbox.Sandbox, string) {
	t.Helper()
	m := model.New(model.Options{})
	base, err := m.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	gate, err := gateway.New(gateway.Options{Endpoint: gateway.Endpoint{BaseURL: base}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	var mounts []sandbox.Mount
	if program != "" {
		mounts = append(mounts, sandbox.Mount{Path: program})
	}
	sb, err := local.New(local.Options{}).Create(t.Context(), sandbox.Spec{
		ID: "test-custom", WorkingDir: project, Home: t.TempDir(), Mounts: mounts,
		Doors: []sandbox.Door{{Name: "model", Dial: gate.Dial}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Close() })
	return sb, gate.Token()
}

// A real agent that is known by nothing but its command and variables: opencode,
// as a person would configure it without gander's help.
func TestRealAgent(t *testing.T) {
	program := pinned(t)
	if testing.Short() {
		t.Skip("a real agent takes its time")
	}
	project := t.TempDir()
	sb, token := box(t, project, program)
	s := Settings{
		Command: []string{program, "acp"},
		Env: []string{
			"PATH=/usr/bin:/bin", "BASE={modelUrlV1}", "ANY_API_KEY={key}", "OPENCODE_DISABLE_MODELS_FETCH=1",
			`OPENCODE_CONFIG_CONTENT={"provider":{"own":{"npm":"@ai-sdk/openai-compatible","name":"Own","options":{"baseURL":"{env:BASE}","apiKey":"{env:ANY_API_KEY}"},"models":{"{model}":{}}}},"model":"own/{model}","enabled_providers":["own"],"agent":{"title":{"disable":true}}}`,
		},
		Model: "duck",
	}
	a := New("duck", func() (Settings, error) { return s, nil }, Options{})
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	l := new(listener)
	conv, err := a.Open(ctx, sb, sandbox.SessionParams{WorkingDir: project, ModelAddr: sb.Info().Doors["model"], ModelToken: token, Client: l, Mode: "plan"})
	if err != nil {
		t.Fatal(err)
	}
	defer conv.Close()
	if m := conv.State().Modes; m == nil || m.CurrentModeID != "plan" {
		t.Errorf("modes %+v", m)
	}
	if err := conv.SetMode(ctx, "build"); err != nil || conv.State().Modes.CurrentModeID != "build" {
		t.Errorf("mode %s: %v", conv.State().Modes.CurrentModeID, err)
	}
	resp, err := conv.Prompt(ctx, []acp.ContentBlock{acp.TextBlock("go " + model.Embed(`[{"tool":"bash","args":{"command":"echo $ANY_API_KEY > key","description":"x"}},{"text":"quack"}]`))})
	if err != nil || resp.StopReason != acp.StopEndTurn || l.said.String() != "quack" {
		t.Fatalf("answered %+v, %v; said %q", resp, err, l.said.String())
	}
	if key, err := os.ReadFile(filepath.Join(project, "key")); err != nil || string(key) != token+"\n" {
		t.Errorf("the key inside is %q, %v", key, err)
	}
}

// A shell script is an agent: it is started for each prompt, its answer is what it prints, and
// what it leaves behind ends with it.
func TestOneShot(t *testing.T) {
	project := t.TempDir()
	sb, token := box(t, project, "")
	tests := []struct {
		name, script, prompt string
		argument             bool
		said, failed         string
	}{
		{name: "standard input", script: `printf 'you said '; cat; printf ' in %s' "$PWD"`, prompt: "hé llo", said: "you said hé llo in " + project},
		{name: "argument", script: `printf %s "$1"; cat`, prompt: "$(id) {key}", argument: true, said: "$(id) {key}"},
		{name: "token", script: `printf %s "$ANY_KEY"`, said: token},
		{name: "failed", script: `printf part; echo why >&2; exit 3`, said: "part", failed: "script exited with code 3; its last words: why"},
		{name: "left behind", script: `sleep 1000 & printf done`, said: "done"},
		{name: "does not read", script: `printf done`, prompt: strings.Repeat("x", 1<<20), said: "done"},
		{name: "too long for an argument", script: ``, prompt: strings.Repeat("x", 200<<10), argument: true, failed: "take {prompt} out of its command"},
		{name: "prints much", script: `head -c 3000000 /dev/zero | tr '\0' x`, said: strings.Repeat("x", 1<<20) + "\n[script has printed more than 1024 KiB; the rest is left out]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Settings{Command: []string{"/bin/sh", "-c", tt.script, "sh"}, Env: []string{"PATH=/usr/bin:/bin", "ANY_KEY={key}"}, OneShot: true}
			if tt.argument {
				s.Command = append(s.Command, "{prompt}")
			}
			a := New("script", func() (Settings, error) { return s, nil }, Options{})
			l := new(listener)
			conv, err := a.Open(t.Context(), sb, sandbox.SessionParams{WorkingDir: project, ModelAddr: sb.Info().Doors["model"], ModelToken: token, Client: l})
			if err != nil {
				t.Fatal(err)
			}
			defer conv.Close()
			resp, err := conv.Prompt(t.Context(), []acp.ContentBlock{acp.TextBlock(tt.prompt)})
			if tt.failed != "" && (err == nil || !strings.Contains(err.Error(), tt.failed)) || tt.failed == "" && (err != nil || resp.StopReason != acp.StopEndTurn) {
				t.Errorf("answered %+v, %v; want %q", resp, err, tt.failed)
			}
			if got := l.said.String(); got != tt.said {
				t.Errorf("said %d bytes, %.100q, want %.100q", len(got), got, tt.said)
			}
		})
	}
}

// A cancelled program ends with what it has started.
func TestOneShotCancel(t *testing.T) {
	project := t.TempDir()
	sb, token := box(t, project, "")
	s := Settings{Command: []string{"/bin/sh", "-c", "echo begun; sleep 1000 & wait"}, Env: []string{"PATH=/usr/bin:/bin"}, OneShot: true}
	a := New("script", func() (Settings, error) { return s, nil }, Options{})
	begun := make(chan struct{}, 1)
	conv, err := a.Open(t.Context(), sb, sandbox.SessionParams{WorkingDir: project, ModelToken: token, Client: signal{new(listener), begun}})
	if err != nil {
		t.Fatal(err)
	}
	defer conv.Close()
	go func() {
		<-begun
		_ = conv.Cancel()
	}()
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	resp, err := conv.Prompt(ctx, []acp.ContentBlock{acp.TextBlock("go")})
	if err != nil || resp.StopReason != acp.StopCancelled || ctx.Err() != nil {
		t.Errorf("answered %+v, %v", resp, err)
	}
}

// signal tells when the first update came.
type signal struct {
	*listener
	begun chan<- struct{}
}

func (s signal) SessionUpdate(ctx context.Context, n *acp.SessionNotification) error {
	select {
	case s.begun <- struct{}{}:
	default:
	}
	return s.listener.SessionUpdate(ctx, n)
}
