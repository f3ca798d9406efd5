package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A rawModel is an endpoint that answers every call with the same bytes, and counts them.
type rawModel struct {
	*httptest.Server

	// mu guards what follows.
	mu           sync.Mutex
	status       int
	header, body string // of the type
	calls        int
}

func newRawModel(t *testing.T) *rawModel {
	t.Helper()
	m := &rawModel{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		status, kind, body := m.status, m.header, m.body
		if r.Method == http.MethodPost {
			m.calls++
		}
		m.mu.Unlock()
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"gpt-4o","object":"model"}]}`)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Retry-After", "3600") // which means nothing with a success
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(m.Close)
	return m
}

// answers sets what calls are answered with from now on, and counts from zero.
func (m *rawModel) answers(status int, kind, body string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status, m.header, m.body, m.calls = status, kind, body, 0
}

func (m *rawModel) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// A turn ends after a few calls, whatever the model's endpoint sends: with the text where
// there was one, else with words that say what is wrong. A limit that lasts is said with the
// endpoint's reason and time, and no agent waits for it. The thread goes on after each.
func TestStorms(t *testing.T) {
	const (
		sse   = "text/event-stream"
		hello = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{"role":"assistant","content":"heliotrope"}}]}` + "\n\n"
		eos   = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"eos"}]}` + "\n\n"
		empty = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[]}` + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	inCells(t, func(t *testing.T, w *world) {
		m := newRawModel(t)
		e := w.gander(map[string]string{"LLM_HOST": m.URL})
		e.initialize()
		s := e.session(w.mkdir("project"))
		for _, tt := range []struct {
			name, kind, body string
			status           int
			want             []string
		}{
			{"no finish_reason", sse, hello + done, 200, []string{"heliotrope"}},
			{"no choices", sse, empty + done, 200, []string{"answered with nothing"}},
			{"web page", "text/html", "<!doctype html><html><body>Sign in</body></html>", 200, []string{"answers with a web page"}},
			{"limit", "application/json", `{"error":{"message":"daily quota, resets at 18:00"}}`, 429, []string{"daily quota, resets at 18:00", "wait 1h0m0s, until", "does not try again"}},
			{"no end", sse, hello, 200, []string{"heliotrope"}},
			{"unknown finish_reason", sse, hello + eos + done, 200, []string{"heliotrope"}},
		} {
			m.answers(tt.status, tt.kind, tt.body)
			said := refusedTurn(t, s, "say something")
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("%s: the person reads %q, without %q", tt.name, said, want)
				}
			}
			if n := m.count(); n == 0 || n > 10 {
				t.Errorf("%s: the model was called %d times", tt.name, n)
			} else {
				t.Logf("%s: the model was called %d times", tt.name, n)
			}
		}
	})
}
