package router

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/doorway"
)

// A program that does not answer what agents begin with is cut off; one that answers is not,
// however long it is silent or a tool takes.
func TestProgramsThatDoNotAnswer(t *testing.T) {
	const hello, tool = `{"jsonrpc":"2.0","id":0,"method":"initialize"}` + "\n", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}` + "\n"
	for _, tt := range []struct{ name, asks, answers, late string }{
		{"nothing", hello, "", "initialize"},
		{"other words", hello, "starting\n" + `{"jsonrpc":"2.0","method":"notifications/message"}` + "\n" + `{"jsonrpc":"2.0","id":0,"method":"ping"}` + "\n", "initialize"},
		{"another answer", hello, `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n", "initialize"},
		{"an answer", hello, `{"jsonrpc":"2.0","id":0,"result":{}}` + "\n", ""},
		{"an error", hello, `{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}` + "\n", ""},
		{"a long answer", hello, `{"jsonrpc":"2.0","id":0,"result":"` + strings.Repeat("x", 2*maxWatched) + "\"}\n", ""},
		{"a tool", tool, "", ""},
		{"no request", `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				late := ""
				conn := watchAnswers(there, 10*time.Second, func(method string) { late = method })
				go func() {
					_, _ = bufio.NewReader(here).ReadString('\n')
					_, _ = io.WriteString(here, tt.answers)
				}()
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				for _, half := range []string{tt.asks[:5], tt.asks[5:]} {
					_, _ = io.WriteString(conn, half)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if late != tt.late {
					t.Errorf("late is %q, want %q", late, tt.late)
				}
				_ = conn.Close()
				_ = here.Close()
			})
		})
	}
}

// ends is a program that says something and exits.
type ends struct {
	*fakeProgram
	said io.Reader
}

func (p ends) Stdout() io.Reader { return strings.NewReader("") }
func (p ends) Stderr() io.Reader { return p.said }
func (p ends) Wait(context.Context) (sandbox.ExitStatus, error) {
	return sandbox.ExitStatus{Code: 3}, nil
}

// How a program ended, and what it said last, is told each time, whichever of its streams
// ends first; not when the agent has ended it.
func TestHowProgramsEnd(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.router.session(r.open(t).SessionID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		program, _ := newFakeProgram()
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there); _ = there.Close() }() // as a bridge does
		said := ""
		s.servers.carry(&server{Name: "db"}, ends{program, strings.NewReader("locked\n")}, here, new(lastWords), func(how string) { said = how })
		if want := "has ended (exit code 3; its last words: locked)"; said != want {
			t.Fatalf("run %d: told %q, want %q", i, said, want)
		}
	}
	program, _ := newFakeProgram()
	here, there := net.Pipe()
	_ = there.Close()
	s.servers.carry(&server{Name: "db"}, program, here, new(lastWords), func(how string) { t.Errorf("the agent has ended it, and the person is told: it %s", how) })
}

// A server with an address that does not answer is said to fail for good; one that answers
// as a stream is not.
func TestAddressesThatDoNotAnswer(t *testing.T) {
	over := make(chan struct{})
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": there\n\n")
		if strings.Contains(string(raw), "tools/list") {
			_, _ = io.WriteString(w, "data: {\"id\":1,\"result\":{}}\n\n")
		}
		w.(http.Flusher).Flush()
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	defer outside.Close()
	defer close(over)
	failed := make(chan string, 10)
	w, err := newServerWay(&server{Name: "db", URL: outside.URL}, 100*time.Millisecond, func(what string, forGood bool) {
		if forGood {
			failed <- what
		}
	}, func(string, []byte) error { return nil }, doorway.NewPlaces(1))
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	inside := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.listener.Dial(ctx) }}}
	defer inside.CloseIdleConnections()
	ask := func(body string) *http.Response {
		resp, err := inside.Post("http://127.0.0.1:4711"+serverPath, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	answered := ask(`{"id":1,"method":"tools/list"}`)
	defer func() { _ = answered.Body.Close() }()
	if line, err := bufio.NewReader(answered.Body).ReadString('{'); err != nil {
		t.Fatalf("the answer begins with %q, %v", line, err)
	}
	silent := ask(`{"id":2,"method":"initialize"}`)
	_, err = io.ReadAll(silent.Body)
	_ = silent.Body.Close()
	if err == nil {
		t.Error("the answer that does not come ends as if it had come")
	}
	if what := <-failed; what != "did not answer initialize within 100ms (mcp.patience)" {
		t.Errorf("it %s", what)
	}
	if again := ask(`{"id":3,"method":"initialize"}`); again.StatusCode != http.StatusBadGateway {
		t.Errorf("it is asked again: %s", again.Status)
	} else {
		_ = again.Body.Close()
	}
	if len(failed) > 0 {
		t.Errorf("and it %s", <-failed)
	}
}

// When a server answers again, the agent is opened anew before the next prompt, once, and
// goes on with its conversation.
func TestServersAreGivenBack(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.resumes = true })
	id := r.open(t).SessionID
	s, err := r.router.session(id)
	if err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, id, "one", acp.StopEndTurn)
	v := &server{Name: "db", allowed: true, health: health{down: true, back: true}}
	s.mu.Lock()
	s.servers.all = []*server{v}
	before := s.backend
	s.mu.Unlock()
	for _, text := range []string{"two", "three"} {
		r.wantStop(t, id, text, acp.StopEndTurn)
	}
	s.mu.Lock()
	after, down := s.backend, v.health.down
	s.mu.Unlock()
	if before == after || down || !after.conv.Resumed() || !strings.Contains(r.said(id), "answer again: db.") {
		t.Errorf("the same agent: %v; the server is down: %v; the conversation goes on: %v; said %s", before == after, down, after.conv.Resumed(), r.said(id))
	}
	if n := strings.Count(r.said(id), "answer again"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}
