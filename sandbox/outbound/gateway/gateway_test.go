package gateway_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gander.dev/gander/sandbox/outbound/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what should happen at once; the machine may be busy.
const patience = 30 * time.Second

const key = "sk-outside/only+1234567890"

// door is a gateway in front of an endpoint, with a client inside.
type door struct {
	*gateway.Gateway
	t      *testing.T
	client *http.Client
	events *events
}

// events collects what Observe hears.
type events struct {
	mu  sync.Mutex
	all []gateway.Event
	new chan struct{}
}

func (e *events) observe(ev gateway.Event) {
	e.mu.Lock()
	e.all = append(e.all, ev)
	e.mu.Unlock()
	select {
	case e.new <- struct{}{}:
	default:
	}
}

// last waits for n events and returns the last of them.
func (e *events) last(t *testing.T, n int) gateway.Event {
	t.Helper()
	deadline := time.After(patience)
	for {
		e.mu.Lock()
		all := e.all
		e.mu.Unlock()
		if len(all) >= n {
			return all[n-1]
		}
		select {
		case <-e.new:
		case <-deadline:
			t.Fatalf("waited for %d events, got %+v", n, all)
		}
	}
}

func open(t *testing.T, o gateway.Options) *door {
	t.Helper()
	ev := &events{new: make(chan struct{}, 1)}
	o.Observe = ev.observe
	g, err := gateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return g.Dial(ctx) }
	transport := &http.Transport{DialContext: dial, DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := g.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	client := &http.Client{
		Transport: transport, Timeout: 2 * patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &door{g, t, client, ev}
}

// upstream starts an endpoint and a gateway to it.
func upstream(t *testing.T, h http.HandlerFunc) *door {
	t.Helper()
	return open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: serve(t, h), APIKey: key}, Retries: true})
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

const chat = "http://127.0.0.1:40123/v1/chat/completions"

func (d *door) request(ctx context.Context, body io.Reader, header ...string) *http.Request {
	d.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chat, body)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.Token())
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// ask sends a request and returns the answer with its whole body.
func (d *door) ask(body string, header ...string) (*http.Response, string) {
	d.t.Helper()
	res, err := d.client.Do(d.request(d.t.Context(), strings.NewReader(body), header...))
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return res, string(data)
}

func TestCredentialsAreReplaced(t *testing.T) {
	var got http.Header
	d := open(t, gateway.Options{Endpoint: gateway.Endpoint{
		APIKey:  key,
		Headers: map[string]string{"X-Team": "blue-4711"},
		BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Clone()
			_, _ = io.WriteString(w, `{"usage": {"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`)
		}),
	}})
	res, _ := d.ask("{}", "Authorization", "bearer "+d.Token(), "Api-Key", "inside", "X-Api-Key", "inside", "Cookie", "a=inside",
		"X-Team", "inside", "Agent-Session-Id", "20260101_1", "Helicone-Target-Url", "https://inside.example", "X-Portkey-Custom-Host", "inside",
		"OpenAI-Organization", "inside", "X-Forwarded-Host", "inside")
	if res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	if got.Get("Authorization") != "Bearer "+key || got.Get("X-Team") != "blue-4711" || got.Get("Agent-Session-Id") != "20260101_1" {
		t.Errorf("outside saw %v", got)
	}
	for name, values := range got {
		if strings.Contains(strings.Join(values, " "), "inside") {
			t.Errorf("%s: %v passed", name, values)
		}
	}
	e := d.events.last(t, 2)
	if e.Kind != gateway.Finished || e.Usage == nil || *e.Usage != (gateway.Usage{Input: 3, Output: 4, Total: 7}) || e.Status != 200 {
		t.Errorf("event %+v", e)
	}
}

func TestKeyNeverComesBack(t *testing.T) {
	quoted := strings.ReplaceAll(key, "/", `\/`)
	for _, status := range []int{200, 400, 401, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			d := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				h := w.Header()
				h.Set("X-Echo", r.Header.Get("Authorization"))
				h.Set("Set-Cookie", "k="+key)
				h.Set("Trailer", "X-Late")
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(status)
				f := http.NewResponseController(w)
				for _, part := range []string{`{"error":{"message":"bad key ` + key[:9], key[9:] + `"},"`, quoted, `":"` + key} {
					_, _ = io.WriteString(w, part)
					_ = f.Flush()
				}
				h.Set("X-Late", key)
				h.Set(http.TrailerPrefix+"X-Later", key)
			})
			early := http.Header{}
			hints := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				maps.Copy(early, http.Header(h))
				return nil
			}}
			res, err := d.client.Do(d.request(httptrace.WithClientTrace(t.Context(), hints), strings.NewReader("{}")))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			data, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			body := string(data)
			all := fmt.Sprint(early, res.Header, res.Trailer, body)
			for _, secret := range []string{key, quoted, key[:12]} {
				if strings.Contains(all, secret) {
					t.Errorf("%q came back: %s", secret, all)
				}
			}
			if res.Header.Get("X-Echo") == "" || res.Header.Get("Set-Cookie") != "" {
				t.Errorf("headers %v", res.Header)
			}
			if res.StatusCode != status || !strings.Contains(body, "bad key ***") {
				t.Errorf("got %d %s", res.StatusCode, body)
			}
			if e := d.events.last(t, 2); strings.Contains(e.Message, key) {
				t.Errorf("event %+v", e)
			}
		})
	}
}

func TestOnlyTheModelIsReached(t *testing.T) {
	reached := false
	d := upstream(t, func(http.ResponseWriter, *http.Request) { reached = true })
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: 127.0.0.1",
		"GET /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1/chat/completions/ HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1/../admin HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1/models/../chat/completions HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1/%2e%2e/admin HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1%2fchat%2fcompletions HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1/chat%2Fcompletions HTTP/1.1\r\nHost: 127.0.0.1",
		"POST //v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1/chat/completions;x HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /V1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1",
		"POST http://other.example/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1",
		"POST http://127.0.0.1/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1",
		"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443",
		"CONNECT /v1/models HTTP/1.1\r\nHost: 127.0.0.1",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: other.example",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1.other.example",
		"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket",
		"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1",
	} {
		t.Run(request, func(t *testing.T) {
			answer := d.raw(request + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			status, _, _ := strings.Cut(answer, "\r\n")
			if !strings.Contains(status, " 403 ") || !strings.Contains(answer, "this sandbox reaches only the model") {
				t.Errorf("got %s", answer)
			}
		})
	}
	if reached {
		t.Error("the endpoint was reached")
	}
	if answer := d.raw("GET /v1/models HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\nX-Api-Key: " + d.Token() + "\r\n\r\n"); !strings.Contains(answer, " 200 ") || !reached {
		t.Errorf("what is allowed got %s", answer)
	}
}

// raw sends bytes and returns the answer.
func (d *door) raw(request string) string {
	d.t.Helper()
	c, err := d.Dial(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, request); err != nil {
		d.t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		d.t.Fatalf("%v after %s", err, answer)
	}
	return string(answer)
}

func TestBaseURL(t *testing.T) {
	var path string
	host := serve(t, func(_ http.ResponseWriter, r *http.Request) { path = r.URL.RequestURI() })
	for _, tt := range []struct{ base, want string }{
		{"", "/v1/chat/completions"},
		{"/", "/v1/chat/completions"},
		{"/v1", "/v1/chat/completions"},
		{"/v1/", "/v1/chat/completions"},
		{"/llm", "/llm/v1/chat/completions"},
		{"/llm/", "/llm/v1/chat/completions"},
		{"/llm/v1", "/llm/v1/chat/completions"},
		{"/api/paas/v4", "/api/paas/v4/chat/completions"},
	} {
		d := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: host + tt.base}})
		if d.ask("{}"); path != tt.want {
			t.Errorf("base %q: path %s, want %s", tt.base, path, tt.want)
		}
	}
	for _, bad := range []string{"", "host", "ftp://host", "http://", "http://me:" + key + "@host", "http://host?key=" + key, host + "/v1/chat/completions"} {
		_, err := gateway.New(gateway.Options{Endpoint: gateway.Endpoint{BaseURL: bad}})
		if err == nil || !strings.Contains(err.Error(), "set LLM_HOST") || strings.Contains(err.Error(), key) {
			t.Errorf("base %q: error %v", bad, err)
		}
	}
	_, err := gateway.New(gateway.Options{Endpoint: gateway.Endpoint{BaseURL: host, APIKey: key + "\n"}})
	if err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("a key with a line break: error %v", err)
	}
}

func TestStreamingIsNotDelayed(t *testing.T) {
	next := make(chan struct{})
	d := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	res, err := d.client.Do(d.request(t.Context(), strings.NewReader("{}")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for i := range 3 {
		want := fmt.Sprintf("data: %d\n\n", i)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("chunk %d: %q, %v", i, got, err)
		}
		next <- struct{}{} // the endpoint waits until the chunk is here
	}
}

func TestAbortInFlight(t *testing.T) {
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun %v", begun), func(t *testing.T) {
			arrived, gone := make(chan struct{}), make(chan struct{})
			d := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if begun {
					_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
					_ = http.NewResponseController(w).Flush()
				}
				close(arrived)
				<-r.Context().Done()
				close(gone)
			})
			type end struct {
				body []byte
				err  error
			}
			headers, done := make(chan struct{}), make(chan end, 1)
			go func() {
				res, err := d.client.Do(d.request(t.Context(), strings.NewReader(`{"stream":true}`)))
				close(headers)
				e := end{err: err}
				if err == nil {
					e.body, e.err = io.ReadAll(res.Body)
					_ = res.Body.Close()
				}
				done <- e
			}()
			await(t, arrived)
			if begun {
				await(t, headers)
			}
			d.AbortInFlight()
			await(t, gone)
			switch e := <-done; {
			case begun && e.err == nil:
				t.Error("the client saw no drop")
			case !begun && (e.err != nil || !strings.HasSuffix(string(e.body), "data: [DONE]\n\n")):
				t.Errorf("no empty completion but %q, %v", e.body, e.err)
			}
			if e := d.events.last(t, 2); e.Kind != gateway.Aborted {
				t.Errorf("event %+v", e)
			}
		})
	}
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
}

func TestClientGoesAway(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	d := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	res, err := d.client.Do(d.request(ctx, strings.NewReader("{}")))
	if err == nil {
		_ = res.Body.Close()
		t.Fatal("there was an answer")
	}
	await(t, gone)
	if e := d.events.last(t, 2); e.Kind != gateway.Cancelled {
		t.Errorf("event %+v", e)
	}
}

func TestStatuses(t *testing.T) {
	for _, tt := range []struct {
		status  int
		kind    gateway.Kind
		message string
		retry   bool
	}{
		{401, gateway.BadKey, "refused the key (401 Unauthorized); set LLM_API_KEY", false},
		{403, gateway.BadKey, "refused the key (403 Forbidden); set LLM_API_KEY", false},
		{404, gateway.NotFound, "check LLM_HOST and the model's name", false},
		{429, gateway.RateLimited, "the agent will retry", true},
		{500, gateway.ServerError, "failed (500 Internal Server Error): out of order; the agent will retry", true},
		{400, gateway.Rejected, "rejected the request (400 Bad Request): out of order.", false},
	} {
		d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, `{"error":{"message":"out of order"}}`)
		})
		for attempt := 1; attempt <= 2; attempt++ {
			res, body := d.ask("{}")
			if res.StatusCode != tt.status || res.Header.Get("Retry-After") != "7" || !strings.Contains(body, "out of order") {
				t.Errorf("%d: got %d %v %s", tt.status, res.StatusCode, res.Header, body)
			}
			e := d.events.last(t, 2*attempt)
			if e.Kind != tt.kind || e.Retry != tt.retry || e.Failures != attempt || e.Status != tt.status || !strings.Contains(e.Message, tt.message) {
				t.Errorf("%d: event %+v", tt.status, e)
			}
		}
	}
}

// TestFailureIsKnownBeforeItIsAnswered holds the event of each failure back for a moment: no agent may have
// the whole answer before, or what it says then has no reason.
func TestFailureIsKnownBeforeItIsAnswered(t *testing.T) {
	for _, size := range []int{0, 20, 5000, 200_000} {
		for _, chunked := range []bool{false, true} {
			var d *door
			d = upstream(t, func(w http.ResponseWriter, _ *http.Request) {
				if !chunked {
					w.Header().Set("Content-Length", strconv.Itoa(size))
				}
				d.events.mu.Lock()
				time.AfterFunc(50*time.Millisecond, d.events.mu.Unlock)
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, strings.Repeat("x", size))
			})
			d.ask("{}")
			if !d.events.mu.TryLock() {
				t.Fatalf("%d bytes, chunked %v: the answer was there before its event", size, chunked)
			}
			if len(d.events.all) != 2 || d.events.all[1].Kind != gateway.BadKey {
				t.Errorf("%d bytes, chunked %v: events %+v", size, chunked, d.events.all)
			}
			d.events.mu.Unlock()
		}
	}
}

// TestEndpointWithoutTools says what to do where an endpoint or its model takes no tools. Each said is
// as endpoints say it.
func TestEndpointWithoutTools(t *testing.T) {
	for _, tt := range []struct {
		status int
		said   string
		none   bool
	}{
		{400, "registry.ollama.ai/library/gemma:2b does not support tools", true},
		{404, "No endpoints found that support tool use. To learn more about provider routing, visit the documentation.", true},
		{400, "This model does not support tools.", true},
		{400, "tools are not supported", true},
		{422, "Function calling is not supported for this model", true},
		{400, "Invalid parameter: messages with role tool must follow tool_calls", false},
		{400, "the tool call is not valid JSON", false},
	} {
		d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, tt.said)
		})
		d.ask("{}")
		said := strings.TrimSuffix(tt.said, ".")
		const end = "; agents work by tools: choose a model that takes them."
		if e := d.events.last(t, 2); e.Kind != gateway.Rejected || e.Retry || !strings.Contains(e.Message, ": "+said) || strings.HasSuffix(e.Message, said+end) != tt.none {
			t.Errorf("%s: %+v", tt.said, e)
		}
	}
}

// A key that is refused is named by its place, where that is known.
func TestRefusedKeyIsNamedByItsPlace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	d := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: server.URL, APIKey: "key", KeySource: "model.key"}})
	d.ask("{}")
	if e := d.events.last(t, 2); e.Kind != gateway.BadKey || !strings.Contains(e.Message, "refused the key from model.key (401 Unauthorized); put a valid one there.") {
		t.Errorf("event %+v", e)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	d := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: "http://" + l.Addr().String()}})
	res, body := d.ask("{}")
	if res.StatusCode != 502 || !strings.Contains(body, `"type":"gateway_error"`) || !strings.Contains(body, "connection refused; check LLM_HOST") {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	if e := d.events.last(t, 2); e.Kind != gateway.Unreachable || e.Failures != 1 || e.Status != 502 {
		t.Errorf("event %+v", e)
	}
	if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("check: %v", err)
	}
}
