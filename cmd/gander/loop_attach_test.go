package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/telemetry"
)

// attachPatience bounds what should happen soon; the machine may be busy.
const attachPatience = 55 * time.Second

// An onlooker is an editor that writes down what it is shown.
type onlooker struct {
	t   *testing.T
	ctx context.Context

	// mu guards what follows.
	mu      sync.Mutex
	shown   []string // kind and text
	changed chan struct{}
}

func (o *onlooker) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	var u struct {
		Title   string          `json:"title"`
		Status  string          `json:"status"`
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(n.Update, &u) // what has another shape is shown by its kind
	o.mu.Lock()
	o.shown = append(o.shown, strings.TrimSpace(strings.Join([]string{acp.UpdateKind(n.Update), u.Title, u.Status, acp.ParseContentBlock(u.Content).Text}, " ")))
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return nil
}

func (o *onlooker) RequestPermission(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	o.t.Error("a loop's session asked for a permission")
	return &acp.RequestPermissionResponse{}, nil
}

// count is how often something was shown.
func (o *onlooker) count(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, s := range o.shown {
		if strings.Contains(s, what) {
			n++
		}
	}
	return n
}

// wait waits until something was shown n times.
func (o *onlooker) wait(what string, n int) {
	o.t.Helper()
	for o.count(what) < n {
		select {
		case <-o.changed:
		case <-o.ctx.Done():
			o.t.Fatalf("waited in vain for %q to be shown %d times; shown: %q", what, n, o.shown)
		}
	}
}

// editing starts gander acp and connects an editor to it.
func editing(t *testing.T, home string) (*onlooker, *acp.AgentConn) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = []string{"gander", "acp"}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GANDER_HOME=" + home}
	var log strings.Builder
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), attachPatience)
	o := &onlooker{t: t, ctx: ctx, changed: make(chan struct{}, 1)}
	conn := acp.DialAgent(struct {
		io.Reader
		io.WriteCloser
	}{out, in}, o, nil)
	t.Cleanup(func() {
		cancel()
		_ = conn.Close() // stdin ends, and gander with it
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("gander acp ended with %v; it said:\n%s", err, log.String())
		}
	})
	if _, err := conn.Initialize(ctx, &acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersion}); err != nil {
		t.Fatal(err)
	}
	return o, conn
}

// An editor attaches to a run of a control plane: it sees what was, and what comes; what
// it says reaches the loop and is answered by an iteration; the thread is the same for
// the next editor. The control plane goes away and comes back meanwhile.
func TestAttachToRun(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	plane := startPlane(t, home)
	gander(t, home, "loop", "start", "--agent", "goose", "--workspace", project, "mend it")
	o, conn := editing(t, home)
	runs, err := runsOf(o.ctx, plane)
	if err != nil || len(runs) != 1 {
		t.Fatalf("the runs are %+v, %v", runs, err)
	}
	run := runs[0].RunID
	plane.Fleet.Play(run)
	if err := told(o.ctx, plane, home); err != nil {
		t.Fatal(err)
	}
	list, err := conn.ListSessions(o.ctx, &acp.ListSessionsRequest{CWD: project})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].Title != "goose loop: mend it" {
		t.Fatalf("the sessions are %+v, %v", list, err)
	}
	id := list.Sessions[0].SessionID
	if _, err := conn.LoadSession(o.ctx, &acp.LoadSessionRequest{SessionID: id, CWD: project}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"user_message_chunk   Iteration 1", "agent_message_chunk   Let me look.", "tool_call shell: command=ls in_progress", "tool_call_update  completed"} {
		if o.count(want) == 0 {
			t.Errorf("the replay has no %q, but %q", want, o.shown)
		}
	}
	plane.Stop()
	plane.Restart()
	plane.Fleet.Play(run)
	o.wait("Iteration 2", 1)

	answered := make(chan string, 1)
	go func() {
		resp, err := conn.Prompt(o.ctx, &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock("look at the tests")}})
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- string(resp.StopReason) + " " + string(resp.Usage)
	}()
	o.wait("The loop has the message for its next iteration.", 1)
	plane.Fleet.Play(run)
	if got, want := <-answered, `end_turn {"inputTokens":900,"outputTokens":100,"totalTokens":1000}`; got != want {
		t.Errorf("the prompt was answered with %s, want %s", got, want)
	}
	if o.count("Iteration 3") != 1 || o.count("look at the tests") != 0 {
		t.Errorf("the editor was shown %q", o.shown)
	}
	wantOrder(t, plane.Fleet.Orders(), "message "+run+" look at the tests")
	if _, err := conn.Prompt(o.ctx, &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock("/pause")}}); err != nil {
		t.Fatal(err)
	}
	wantOrder(t, plane.Fleet.Orders(), "pause "+run)
	plane.Fleet.Emit(run, telemetry.Event{Type: telemetry.Text, Iteration: 3, Content: "a word behind"})
	o.wait("a word behind", 1)

	next, other := editing(t, home)
	if _, err := other.LoadSession(next.ctx, &acp.LoadSessionRequest{SessionID: id, CWD: project}); err != nil {
		t.Fatal(err)
	}
	if next.count("user_message_chunk   look at the tests") != 1 || next.count("Iteration") != 3 {
		t.Errorf("the next editor was shown %q", next.shown)
	}
	if _, err := other.DeleteSession(next.ctx, &acp.DeleteSessionRequest{SessionID: id}); err == nil || !strings.Contains(err.Error(), "stop it first: gander loop stop "+run) {
		t.Errorf("deleting the session of a run that is going on: %v", err)
	}
	plane.Stop()
	if _, err := other.Prompt(next.ctx, &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock("hello")}}); err != nil {
		t.Fatal(err)
	}
	next.wait("The loop did not get the message: no control plane runs for", 1)
	if made, err := filepath.Glob(filepath.Join(home, "sandboxes", "*")); err != nil || len(made) > 0 {
		t.Errorf("attaching has made sandboxes: %q, %v", made, err)
	}
}

func wantOrder(t *testing.T, orders []string, want string) {
	t.Helper()
	if slices.Contains(orders, want) {
		return
	}
	t.Errorf("the fleet was not told %q, but %q", want, orders)
}

// gander runs a command of gander in this process, for a home; it must succeed.
func gander(t *testing.T, home string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), attachPatience)
	defer cancel()
	var said strings.Builder
	streams := cli.Stdio{In: strings.NewReader(""), Out: &said, Err: &said}
	if code := runGander(ctx, args, streams, []string{"HOME=" + home, "GANDER_HOME=" + home}, nil); code != cli.ExitDone {
		t.Fatalf("gander %s: exit code %d; it said:\n%s", strings.Join(args, " "), code, said.String())
	}
}
