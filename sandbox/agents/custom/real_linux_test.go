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
	sb, err := local.New(local.Options{}).Create(t.Context(), sandbox.Spec{
		ID: "test-custom", WorkingDir: project, Home: t.TempDir(), Mounts: []sandbox.Mount{{Path: program}},
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
