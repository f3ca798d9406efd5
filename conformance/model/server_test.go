package model_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/conformance/model"
)

func TestRequestsAreRecorded(t *testing.T) {
	c := start(t, model.Options{})
	c.ask(request(system("s"), user("hello"), calls("call_s0_0_x"), result("call_s0_0_x", "r")), "Agent-Session-Id", "7")
	if err := c.server.WaitIdle(patient(t)); err != nil {
		t.Fatal(err)
	}
	q := c.server.Requests()[0]
	if q.Model != "m" || !q.Stream || q.Header.Get("Agent-Session-Id") != "7" || q.Status != 200 || !q.Done || q.Aborted ||
		len(q.Tools) != 1 || q.Tools[0] != "shell" || q.Step != 1 || !strings.Contains(string(q.Body), `"hello"`) {
		t.Errorf("got %+v", q)
	}
	if m := q.Messages; len(m) != 4 || m[1].Content != "hello" || m[2].ToolCalls[0].Name != "shell" || m[3].ToolCallID != "call_s0_0_x" {
		t.Errorf("messages %+v", q.Messages)
	}
}

func TestOldRequestsAreForgotten(t *testing.T) {
	c := start(t, model.Options{Keep: 3})
	for i := range 5 {
		c.ask(request(user(fmt.Sprint(i))))
	}
	all := c.server.Requests()
	if len(all) != 3 || all[0].Messages[0].Content != "2" {
		t.Errorf("got %d requests", len(all))
	}
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestClientGoesAway(t *testing.T) {
	for _, step := range []string{
		`{"hang":"forever"}`,
		`{"hang":"1h","text":"a b","after":1}`,
		`{"hang":"release"}`,
	} {
		t.Run(step, func(t *testing.T) {
			c := start(t, model.Options{Script: script(t, `{"default":[`+step+`]}`)})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if res, err := c.post(ctx, request(user("x"))); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}()
			if err := c.server.WaitHanging(patient(t), 1); err != nil {
				t.Fatal(err)
			}
			cancel()
			<-done
			if err := c.server.WaitIdle(patient(t)); err != nil {
				t.Fatal(err)
			}
			if q := c.server.Requests()[0]; !q.Aborted || q.Hanging {
				t.Errorf("got %+v", q)
			}
		})
	}
}

// An answer whose request has come is let go, however long it takes to get to its hanging.
func TestReleaseBeforeItHangs(t *testing.T) {
	c := start(t, model.Options{Script: script(t, `{"default":[{"hang":"release","text":"free"}]}`)})
	body, slow := io.Pipe()
	req, err := http.NewRequestWithContext(patient(t), http.MethodPost, c.base+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		resp, err := c.http.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		answered <- err
	}()
	for len(c.server.Requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
	c.server.Release()
	if _, err := io.WriteString(slow, `{"model":"m","messages":[{"role":"user","content":"x"}]}`); err != nil {
		t.Fatal(err)
	}
	_ = slow.Close()
	if err := <-answered; err != nil {
		t.Errorf("it hangs: %v", err)
	}
}

func TestRelease(t *testing.T) {
	c := start(t, model.Options{Script: script(t, `{"default":[{"hang":"release","text":"free"}]}`)})
	replies := make(chan reply, 2)
	for range 2 {
		go func() { replies <- c.ask(request(user("x"))) }()
	}
	if err := c.server.WaitHanging(patient(t), 2); err != nil {
		t.Fatal(err)
	}
	c.server.Release()
	for range 2 {
		if r := <-replies; r.said() != "free" {
			t.Errorf("got %+v", r)
		}
	}
}

func TestCloseEndsAnswers(t *testing.T) {
	for _, step := range []string{`{"hang":"forever"}`, `{"tokens":9,"delay":"1h"}`, `{"tokens":1000000}`} {
		t.Run(step, func(t *testing.T) {
			c := start(t, model.Options{Script: script(t, `{"default":[`+step+`]}`)})
			done := make(chan reply, 1)
			go func() {
				res, err := c.post(t.Context(), request(user("x")))
				if err == nil { // read nothing, so that writing blocks
					defer res.Body.Close()
				}
				done <- reply{err: err}
			}()
			if err := c.server.WaitRequests(patient(t), 1); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := c.server.Close(); err != nil {
					t.Fatal(err)
				}
			}
			<-done
			if q := c.server.Requests()[0]; !q.Done {
				t.Errorf("got %+v", q)
			}
			if _, err := c.server.Start(); err == nil {
				t.Error("a closed server was started")
			}
		})
	}
}

// As a handler of another server Close ends the answers, too.
func TestAsHandler(t *testing.T) {
	s := model.New(model.Options{Script: script(t, `{"default":[{"hang":"forever"}]}`)})
	outer := httptest.NewServer(s)
	defer outer.Close()
	done := make(chan error, 1)
	go func() {
		res, err := http.Post(outer.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[]}`))
		if err == nil {
			_ = res.Body.Close()
		}
		done <- err
	}()
	if err := s.WaitHanging(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the hanging request was answered")
	}
	http.DefaultClient.CloseIdleConnections()
}

// Sessions run side by side, each with its own script and position.
func TestSideBySide(t *testing.T) {
	c := start(t, model.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			steps := fmt.Sprintf(`[{"tools":[{"tool":"shell"},{"tool":"shell"}]},{"tool":"shell"},{"text":"session %d"}]`, i)
			messages := []object{user(model.Embed(steps))}
			for range 2 {
				r := c.ask(request(messages...))
				for _, call := range r.calls {
					messages = append(messages, calls(call.id), result(call.id, "r"))
				}
			}
			if r := c.ask(request(messages...)); r.said() != fmt.Sprintf("session %d", i) {
				t.Errorf("session %d: got %+v", i, r)
			}
		})
	}
	wg.Wait()
}

func TestBadRequests(t *testing.T) {
	c := start(t, model.Options{})
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPost, "/v1/chat/completions", "{", 400},
		{http.MethodGet, "/v1/chat/completions", "", 404},
		{http.MethodGet, "/v1/nothing", "", 404},
		{http.MethodGet, "/v1/models", "", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, c.base+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, res.StatusCode, tt.want)
		}
	}
}
