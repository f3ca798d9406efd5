package controlplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// A reply is an answer as JSON.
type reply struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// ask makes a request with a token; a body that is no string is sent as JSON.
func ask(t *testing.T, s *planetest.Server, token, method, path string, body any, change ...func(*http.Request)) reply {
	t.Helper()
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	default:
		var err error
		if data, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if data != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(req)
	}
	// A restart ends kept connections, which the client may learn from its next request only.
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req) // no redirects
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(text, &r.body); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return r
}

// want makes a request as the person and wants a status.
func want(t *testing.T, s *planetest.Server, status int, method, path string, body any) reply {
	t.Helper()
	r := ask(t, s, s.Token, method, path, body)
	if r.status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.text, status)
	}
	return r
}

// begin starts a run and returns its id.
func begin(t *testing.T, s *planetest.Server, body map[string]any) string {
	t.Helper()
	if body == nil {
		body = map[string]any{"agentType": "goose"}
	}
	return want(t, s, 200, "POST", "/api/sandbox/start", body).body["runId"].(string)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(50 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func sent(t *testing.T, s *planetest.Server, run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	if err := s.Fleet.Sent(ctx, run); err != nil {
		t.Fatal(err)
	}
}

// A live client of the WebSocket.
type live struct {
	t    *testing.T
	conn *websocket.Conn
	ctx  context.Context
	wait []map[string]any // of a batch
}

func dial(t *testing.T, s *planetest.Server, query string) *live {
	t.Helper()
	return dialURL(t, s.URL+"/ws/live?token="+s.Token+"&"+query)
}

// dialWithout shows no token.
func dialWithout(t *testing.T, s *planetest.Server) *live {
	t.Helper()
	return dialURL(t, s.URL+"/ws/live")
}

func dialURL(t *testing.T, url string) *live {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
	t.Cleanup(cancel)
	conn, resp, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatalf("%v %v", err, resp)
	}
	t.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(16 << 20)
	l := &live{t: t, conn: conn, ctx: ctx}
	if m := l.next(); m["type"] != "connected" {
		t.Fatalf("the first message is %v", m)
	}
	return l
}

func (l *live) next() map[string]any {
	l.t.Helper()
	for len(l.wait) == 0 {
		_, data, err := l.conn.Read(l.ctx)
		if err != nil {
			l.t.Fatalf("reading the live stream: %v", err)
		}
		if data[0] == '[' {
			if err := json.Unmarshal(data, &l.wait); err != nil {
				l.t.Fatal(err)
			}
			continue
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			l.t.Fatal(err)
		}
		return m
	}
	m := l.wait[0]
	l.wait = l.wait[1:]
	return m
}

// event is the next message that is an event of a run.
func (l *live) event() map[string]any {
	l.t.Helper()
	for {
		if m := l.next(); m["seq"] != nil {
			return m
		}
	}
}

func (l *live) kind(kind string) map[string]any {
	l.t.Helper()
	for {
		if m := l.next(); m["type"] == kind {
			return m
		}
	}
}

// The life of a run as a person sees it.
func TestRunFromStartToStop(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	stream := dial(t, s, "")
	started := want(t, s, 200, "POST", "/api/sandbox/start", map[string]any{"agentType": "goose", "prompt": "Tidy up.", "limits": map[string]any{"iterations": 3}})
	run := started.body["runId"].(string)
	for key, v := range map[string]string{"agentType": "goose", "status": "started", "containerId": "played-" + run} {
		if started.body[key] != v {
			t.Errorf("start answered %s=%v, want %s", key, started.body[key], v)
		}
	}
	s.Fleet.Play(run)
	sent(t, s, run)
	var types []string
	for range len(s.Fleet.Events(run)) {
		types = append(types, stream.event()["type"].(string))
	}
	if got := strings.Join(types, " "); got != "state state iteration_start thought text tool_use tool_result tool_use tool_result iteration_end state" {
		t.Errorf("the live stream has %s", got)
	}
	r := want(t, s, 200, "GET", "/api/runs/"+run, nil).body
	if r["state"] != "waiting" || r["iteration"] != 1.0 || r["lastOutcome"] != "ok" || r["lastSeq"] != 11.0 || r["until"] == 0.0 {
		t.Errorf("the run is %v", r)
	}
	if p := r["prompt"].(map[string]any); p["own"] != true || p["content"] != "Tidy up." {
		t.Errorf("its prompt is %v", p)
	}
	if u := r["usage"].(map[string]any); u["total"] != 1000.0 || u["cost"] != 0.01 {
		t.Errorf("its usage is %v", u)
	}
	status := want(t, s, 200, "GET", "/api/sandbox/status", nil).body
	if status["status"] != "running" || status["agentType"] != "goose" || status["sessionId"] != started.body["sessionId"] || len(status["sandboxes"].([]any)) != 1 {
		t.Errorf("the status is %v", status)
	}
	rows := want(t, s, 200, "GET", "/api/telemetry/iterations?run="+run, nil).body["iterations"].([]any)
	row := rows[0].(map[string]any)
	if len(rows) != 1 || row["action_count"] != 2.0 || row["outcome"] != "ok" || row["summary"] != "Completed: 2 actions, 0 errors" || row["end_time"] == nil {
		t.Errorf("the iterations are %v", rows)
	}
	one := want(t, s, 200, "GET", fmt.Sprintf("/api/telemetry/iteration/%v", row["id"]), nil).body
	if len(one["events"].([]any)) != 8 || one["more"] != false {
		t.Errorf("the iteration has %v", one["events"])
	}
	want(t, s, 200, "POST", "/api/sandbox/stop", nil)
	sent(t, s, run)
	eventually(t, "the run to be stopped", func() bool {
		r := want(t, s, 200, "GET", "/api/runs/"+run, nil).body
		return r["state"] == "stopped" && r["desired"] == "stopped" && r["stoppedAt"] != nil
	})
	if st := want(t, s, 200, "GET", "/api/sandbox/status", nil).body; st["status"] != "not_running" {
		t.Errorf("after the stop the status is %v", st)
	}
}

// A client that comes back gets what it has missed, once and in order, whatever happens
// meanwhile and by whichever cursor.
func TestLiveReplayHasNoGapAndNoDoubles(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, nil)
	const before, during = 1500, 1500
	emit := func(n int) {
		for i := range n {
			s.Fleet.Emit(run, telemetry.Event{Type: telemetry.Text, Iteration: 1, Summary: fmt.Sprint(i)})
		}
	}
	emit(before)
	sent(t, s, run)
	for _, query := range []string{"run=" + run + "&after=100", "run=" + run + "&after=100&batch=1", "since=100", "since=100&run=" + run} {
		t.Run(query, func(t *testing.T) {
			first := len(s.Fleet.Events(run))
			go emit(during)
			l := dial(t, s, query)
			for seq := 101; seq <= first+during; seq++ {
				if got := l.event()["seq"]; got != float64(seq) {
					t.Fatalf("event %v came where %d was to", got, seq)
				}
			}
		})
	}
}
