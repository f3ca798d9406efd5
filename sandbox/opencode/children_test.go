package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// server is opencode's own server, behind a box that is reached at its port.
type server struct {
	box
	events  chan string
	replies chan string
	fails   bool // it takes no answers
	refuses bool // it tells nothing
}

func (s *server) Listening(context.Context) ([]int, error) { return nil, nil }

func (s *server) CarryPort(_ context.Context, port int, conn net.Conn) error {
	if port != controlPort {
		return errors.New("nothing listens there")
	}
	l := &single{conn: make(chan net.Conn, 1)}
	l.conn <- conn
	return (&http.Server{Handler: s}).Serve(l)
}

// gone ends the events.
const gone = ""

// single is a listener with one connection.
type single struct{ conn chan net.Conn }

func (l *single) Accept() (net.Conn, error) {
	if c, ok := <-l.conn; ok {
		close(l.conn)
		return c, nil
	}
	return nil, io.EOF
}
func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return &net.TCPAddr{} }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, password, _ := r.BasicAuth(); password != "pw" || r.URL.Query().Get("directory") != "/workspace" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		s.replies <- r.URL.Path + " " + string(body)
		if s.fails {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return
	}
	if s.refuses {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	fmt.Fprint(w, "data: {\"type\":\"server.connected\"}\n\n")
	w.(http.Flusher).Flush()
	for e := range s.events {
		if e == gone {
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", e)
		w.(http.Flusher).Flush()
	}
}

// person is an acp.Client that answers what it is asked.
type person struct {
	answer func(context.Context) string

	// mu guards lines.
	mu    sync.Mutex
	lines []string
}

func (p *person) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, strings.Join(strings.Fields(line), " "))
}

func (p *person) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

func (p *person) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	var u struct {
		SessionUpdate, SessionID, Title, Status string
		State                                   acp.ChildState
		Content                                 json.RawMessage
	}
	_ = json.Unmarshal(n.Update, &u)
	p.note(fmt.Sprint(n.SessionID, " ", u.SessionUpdate, " ", u.SessionID, " ", u.Title, " ", u.Status, u.State.State, " ", u.State.StopReason, " ", acp.ParseContentBlock(u.Content).Text))
	return nil
}

func (p *person) RequestPermission(ctx context.Context, r *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	p.note(fmt.Sprintf("%s asks %s", r.SessionID, acp.Member(r.ToolCall, "title")))
	answer := p.answer(ctx)
	p.note("answered " + answer)
	if answer == "" {
		return acp.CancelledOutcome(), nil
	}
	return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: answer}}, nil
}

// watched is a client of a conversation "root" whose call "t" of task has been announced.
func watched(t *testing.T, s *server, p *person) (*client, chan string) {
	t.Helper()
	s.events, s.replies = make(chan string, 100), make(chan string, 100)
	t.Cleanup(func() { close(s.events) })
	c := newClient(sandbox.SessionParams{WorkingDir: "/workspace", Client: p}, s, nil, newControl(s, "/workspace", "pw"), nil)
	ended := make(chan string, 10)
	c.children.of(turnOf{"root", ended})
	send(t, c, `{"sessionUpdate":"tool_call","toolCallId":"t","title":"task","kind":"think","status":"pending","rawInput":{}}`)
	return c, ended
}

// turnOf is a conversation whose turn can be cancelled.
type turnOf struct {
	id    string
	ended chan string
}

func (o turnOf) ID() string { return o.id }
func (o turnOf) Cancel() error {
	o.ended <- "cancelled"
	return nil
}

func send(t *testing.T, c *client, update string) {
	t.Helper()
	if err := c.SessionUpdate(t.Context(), &acp.SessionNotification{Update: json.RawMessage(update)}); err != nil {
		t.Fatal(err)
	}
}

// may asks whether the call of task may begin, as opencode does.
func may(t *testing.T, c *client) string {
	t.Helper()
	resp, err := c.RequestPermission(t.Context(), &acp.RequestPermissionRequest{ToolCall: json.RawMessage(`{"toolCallId":"t","title":"task"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Outcome.OptionID
}

func taskEvent(status, more string) string {
	return `{"type":"message.part.updated","properties":{"part":{"id":"p0","sessionID":"root","type":"tool","tool":"task","callID":"t","state":{"status":"` + status + `","input":{"description":"Look","prompt":"look around"},"metadata":{"sessionId":"kid"}` + more + `}}}}`
}

func kidEvent(part string) string {
	return `{"type":"message.part.updated","properties":{"part":{"sessionID":"kid","messageID":"m",` + part + `}}}`
}

const askedEvent = `{"type":"permission.asked","properties":{"id":"per_1","sessionID":"kid","permission":"bash","patterns":["rm x"],"metadata":{"command":"rm x"},"tool":{"callID":"b"}}}`

// works are the events of a sub-agent up to its question.
var works = []string{
	taskEvent("running", ""),
	`{"type":"message.updated","properties":{"sessionID":"kid","info":{"id":"u","role":"user"}}}`,
	`{"type":"message.part.updated","properties":{"part":{"id":"p1","sessionID":"kid","messageID":"u","type":"text","text":"look around"}}}`,
	`{"type":"message.updated","properties":{"sessionID":"kid","info":{"id":"m","role":"assistant"}}}`,
	kidEvent(`"id":"p2","type":"text","text":""`),
	`{"type":"message.part.delta","properties":{"sessionID":"kid","messageID":"m","partID":"p2","field":"text","delta":"I lo"}}`,
	kidEvent(`"id":"p2","type":"text","text":"I look."`),
	kidEvent(`"id":"p3","type":"tool","tool":"bash","callID":"b","state":{"status":"pending","input":{}}`),
	kidEvent(`"id":"p3","type":"tool","tool":"bash","callID":"b","state":{"status":"running","input":{"command":"rm x"}}`),
	askedEvent,
}

// await returns what comes, or fails.
func await(t *testing.T, what string, c <-chan string) string {
	t.Helper()
	select {
	case got := <-c:
		return got
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s", what)
		return ""
	}
}

// TestTaskIsAChild tests that a sub-agent is shown as a child session in the place of its call,
// that its question is put in its name, and that the answer reaches opencode.
func TestTaskIsAChild(t *testing.T) {
	for answer, reply := range map[string]string{"once": "once", "reject": "reject", "": "reject", "nonsense": "reject"} {
		t.Run("answered "+answer, func(t *testing.T) {
			s, p := &server{}, &person{answer: func(context.Context) string { return answer }}
			c, _ := watched(t, s, p)
			if got := may(t, c); got != "once" {
				t.Fatalf("the sub-agent may %q", got)
			}
			for _, e := range works {
				s.events <- e
			}
			if got, want := await(t, "reply", s.replies), `/permission/per_1/reply {"reply":"`+reply+`"}`; got != want {
				t.Errorf("opencode got %s, want %s", got, want)
			}
			s.events <- kidEvent(`"id":"p3","type":"tool","tool":"bash","callID":"b","state":{"status":"completed","input":{"command":"rm x"},"output":"gone","metadata":{"exit":0}}`)
			s.events <- taskEvent("completed", `,"output":"x"`)
			send(t, c, `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}`)
			c.children.settle()
			want := []string{
				"subagent_update kid Look running", "session_message", "kid agent_message_chunk I lo", "kid agent_message_chunk ok.",
				"kid tool_call bash pending", "kid tool_call_update rm x in_progress", `kid asks "rm x"`, strings.TrimSpace("answered " + answer),
				"kid tool_call_update rm x completed", "session_message", "subagent_update kid idle end_turn",
			}
			if got := p.all(); got != strings.Join(want, "\n") {
				t.Errorf("shown are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		})
	}
}

// TestTaskWithoutAChild tests that a call that never had a sub-agent is shown, as what it is.
func TestTaskWithoutAChild(t *testing.T) {
	p := &person{}
	c, _ := watched(t, &server{}, p)
	send(t, c, `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","title":"task"}`)
	send(t, c, `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed","title":"task"}`)
	if got := p.all(); got != "tool_call task pending\ntool_call_update task failed" {
		t.Errorf("shown are\n%s", got)
	}
}

// TestTaskThatCannotBeSeen tests that no sub-agent begins where opencode tells nothing of it, and
// that the person reads why.
func TestTaskThatCannotBeSeen(t *testing.T) {
	p := &person{}
	c, _ := watched(t, &server{refuses: true}, p)
	if got := may(t, c); got != "reject" || !strings.Contains(p.all(), "notice opencode's sub-agent was refused") {
		t.Errorf("it may %q; shown are\n%s", got, p.all())
	}
}

// TestQuestionsNeverWait tests that the question of a sub-agent is answered or its turn ended,
// whatever happens.
func TestQuestionsNeverWait(t *testing.T) {
	ignores := func(ctx context.Context) string { <-ctx.Done(); return "" }
	begin := func(t *testing.T, s *server, p *person) (*client, chan string) {
		c, ended := watched(t, s, p)
		if got := may(t, c); got != "once" {
			t.Fatalf("the sub-agent may %q", got)
		}
		return c, ended
	}
	t.Run("nobody is known who asks", func(t *testing.T) {
		s := &server{}
		begin(t, s, &person{answer: ignores})
		s.events <- askedEvent
		if got := await(t, "reply", s.replies); !strings.Contains(got, "reject") {
			t.Errorf("opencode got %s", got)
		}
	})
	t.Run("the turn ends", func(t *testing.T) {
		s, p := &server{}, &person{answer: ignores}
		c, _ := begin(t, s, p)
		for _, e := range works {
			s.events <- e
		}
		for !strings.Contains(p.all(), "asks") {
			time.Sleep(time.Millisecond)
		}
		c.children.settle()
		if got := await(t, "reply", s.replies); !strings.Contains(got, "reject") {
			t.Errorf("opencode got %s", got)
		}
	})
	t.Run("the answer is not taken", func(t *testing.T) {
		s := &server{fails: true}
		_, ended := begin(t, s, &person{answer: func(context.Context) string { return "once" }})
		for _, e := range works {
			s.events <- e
		}
		await(t, "end of the turn", ended)
	})
	t.Run("opencode tells no more", func(t *testing.T) {
		s, p := &server{}, &person{answer: ignores}
		_, ended := begin(t, s, p)
		for _, e := range works {
			s.events <- e
		}
		s.events <- "no event"
		s.events <- gone
		await(t, "end of the turn", ended)
		if !strings.Contains(p.all(), "no longer tells") {
			t.Errorf("shown are\n%s", p.all())
		}
	})
}

// TestChildIsAborted tests that a sub-agent that is cancelled alone is aborted at opencode, and
// shown as cancelled.
func TestChildIsAborted(t *testing.T) {
	s, p := &server{}, &person{answer: func(ctx context.Context) string { <-ctx.Done(); return "" }}
	c, _ := watched(t, s, p)
	may(t, c)
	for _, e := range works {
		s.events <- e
	}
	for !strings.Contains(p.all(), "asks") {
		time.Sleep(time.Millisecond)
	}
	if err := c.children.cancelChild("kid"); err != nil {
		t.Fatal(err)
	}
	if got := await(t, "abort", s.replies); got != "/session/kid/abort {}" {
		t.Errorf("opencode got %s", got)
	}
	s.events <- taskEvent("error", `,"error":"whatever"`)
	if got := await(t, "reply", s.replies); !strings.Contains(got, "reject") {
		t.Errorf("opencode got %s", got)
	}
	c.children.settle()
	if got := p.all(); !strings.Contains(got, "subagent_update kid idle cancelled") {
		t.Errorf("shown are\n%s", got)
	}
	if err := c.children.cancelChild("kid"); err == nil {
		t.Error("a sub-agent that has ended can be cancelled")
	}
}

// TestChildrenMayNoMore tests that the sub-agents of a mode may do no more than it.
func TestChildrenMayNoMore(t *testing.T) {
	read := func(in inside) (c struct {
		Permission map[string]string
		Agent      map[string]struct {
			Mode       string
			Permission map[string]json.RawMessage
		}
	},
	) {
		text, err := in.config()
		if err != nil || json.Unmarshal([]byte(text), &c) != nil {
			t.Fatal(err, text)
		}
		return c
	}
	c := read(inside{children: true, isolated: true})
	for agent, want := range map[string]string{"build": `{"explore":"ask","general":"ask"}`, "plan": `{"explore":"ask"}`, "ask": `{"general-ask":"ask"}`, "general-ask": ""} {
		if got := string(c.Agent[agent].Permission[taskTool]); got != want {
			t.Errorf("%s may start %s, want %s", agent, got, want)
		}
	}
	child, mode := c.Agent["general-ask"], c.Agent["ask"]
	if c.Permission[taskTool] != "deny" || child.Mode != "subagent" {
		t.Errorf("sub-agents may start others: %+v", c)
	}
	for _, tool := range []string{"edit", "bash", "webfetch"} {
		if got := string(child.Permission[tool]); got != `"ask"` || string(mode.Permission[tool]) != got {
			t.Errorf("%s of mode ask's sub-agent: %s", tool, got)
		}
	}
	for _, in := range []inside{{}, {children: true, developer: true}} {
		if c := read(in); slices.ContainsFunc([]string{c.Permission[taskTool], c.Permission["*"]}, func(v string) bool { return v == "deny" }) == false {
			t.Errorf("the tool is on: %+v", c)
		}
	}
}
