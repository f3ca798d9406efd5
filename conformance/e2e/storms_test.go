package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// rawModel is an endpoint that answers every call with the same bytes; calls counts them.
func rawModel(t *testing.T, kind, body string) (host string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"gpt-4o","object":"model"}]}`)
			return
		}
		calls.Add(1)
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// A turn ends after a few calls, whatever the model's endpoint sends: with the text where
// there was one, else with words that say what is wrong.
func TestStorms(t *testing.T) {
	const (
		sse   = "text/event-stream"
		hello = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{"role":"assistant","content":"heliotrope"}}]}` + "\n\n"
		eos   = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"eos"}]}` + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	inCells(t, func(t *testing.T, w *world) {
		for _, tt := range []struct{ name, kind, body, want string }{
			{"no finish_reason", sse, hello + done, "heliotrope"},
			{"no end", sse, hello, "heliotrope"},
			{"unknown finish_reason", sse, hello + eos + done, "heliotrope"},
			{"no choices", sse, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[]}` + "\n\n" + done, "answered with nothing"},
			{"web page", "text/html", "<!doctype html><html><body>Sign in</body></html>", "answers with a web page"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				host, calls := rawModel(t, tt.kind, tt.body)
				w := w.in(t)
				e := w.gander(map[string]string{"LLM_HOST": host})
				e.initialize()
				s := e.session(w.mkdir(fmt.Sprintf("project-%d", len(tt.name))))
				said := refusedTurn(t, s, "say something")
				if !strings.Contains(said, tt.want) {
					t.Errorf("the person reads %q", said)
				}
				if n := calls.Load(); n == 0 || n > 10 {
					t.Errorf("the model was called %d times", n)
				} else {
					t.Logf("the model was called %d times", n)
				}
				e.end()
			})
		}
	})
}

// A limit that lasts is said with the endpoint's reason and time, and no agent waits for it.
func TestLimitIsSaid(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		calls := &atomic.Int64{}
		limited := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				calls.Add(1)
			}
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(rw, `{"error":{"message":"daily quota, resets at 18:00"}}`)
		}))
		t.Cleanup(limited.Close)
		e := w.gander(map[string]string{"LLM_HOST": limited.URL})
		e.initialize()
		said := refusedTurn(t, e.session(w.mkdir("project")), "say something")
		for _, want := range []string{"daily quota, resets at 18:00", "wait 1h0m0s, until", "does not try again"} {
			if !strings.Contains(said, want) {
				t.Errorf("the person reads %q, without %q", said, want)
			}
		}
		if n := calls.Load(); n == 0 || n > 4 {
			t.Errorf("the model was called %d times", n)
		}
	})
}
