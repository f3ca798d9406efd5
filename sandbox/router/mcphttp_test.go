package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/doorway"
)

// What an agent reaches of a server with an address is one path, and what is the
// person's is added outside.
func TestServerWay(t *testing.T) {
	var got, trailer http.Header
	var where, body, method string
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, where, body = r.Header.Clone(), r.Host+r.URL.String(), string(raw)
		method, trailer = r.Method, r.Trailer.Clone()
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Mcp-Session-Id", "7")
		if r.URL.Query().Get("move") != "" {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "answer")
	}))
	defer outside.Close()
	var v server
	if err := json.Unmarshal([]byte(`{"type":"http","name":"db","url":"`+outside.URL+`/secret/path?key=k1","headers":[{"name":"Authorization","value":"Bearer person"}]}`), &v); err != nil {
		t.Fatal(err)
	}
	var told []string
	check := func(_ string, data []byte) error {
		if strings.Contains(string(data), canaryToken) {
			return errStopped
		}
		return nil
	}
	w, err := newServerWay(&v, time.Minute, func(what string, _ bool) { told = append(told, what) }, check, doorway.NewPlaces(1))
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	inside := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.listener.Dial(ctx) }}}
	defer inside.CloseIdleConnections()
	call, id := "call", "7"
	ask := func(path string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:4711"+path, strings.NewReader(call))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer agent")
		req.Header.Set("Cookie", "c=d")
		req.Header.Set("Mcp-Session-Id", id)
		resp, err := inside.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(raw)
	}
	resp, text := ask("/mcp?other=query")
	if text != "answer" || resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("Mcp-Session-Id") != "7" {
		t.Errorf("the agent gets %q with %v", text, resp.Header)
	}
	if got.Get("Authorization") != "Bearer person" || got.Get("Cookie") != "" || got.Get("Mcp-Session-Id") != "7" || body != "call" {
		t.Errorf("the server gets %q with %v", body, got)
	}
	if want := strings.TrimPrefix(outside.URL, "http://") + "/secret/path?key=k1"; where != want {
		t.Errorf("the server is asked for %s, want %s", where, want)
	}
	where = ""
	if resp, _ := ask("/secret/path"); resp.StatusCode != http.StatusNotFound || where != "" {
		t.Errorf("another path: %s, asked for %q", resp.Status, where)
	}
	for _, leak := range [][2]string{{`{"x":"` + canaryToken + `"}`, "7"}, {"call", canaryToken}} { // in the body, in a header
		call, id = leak[0], leak[1]
		if resp, text := ask("/mcp"); resp.StatusCode != http.StatusForbidden || where != "" || !strings.Contains(text, "policy.canaries") {
			t.Errorf("%q with closed content: %s %q, asked for %q", leak, resp.Status, text, where)
		}
	}
	call, id = "call", "7"
	for _, raw := range []string{ // in the method, in what follows the body
		canaryToken + " /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Note\r\nConnection: close\r\n\r\n4\r\ncall\r\n0\r\nX-Note: " + canaryToken + "\r\n\r\n",
	} {
		got, where, trailer = nil, "", nil
		conn, err := w.listener.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, raw) }()
		_, _ = io.ReadAll(conn) // all is over
		_ = conn.Close()
		if method == canaryToken || len(trailer) > 0 {
			t.Errorf("the server gets %s with %v", method, trailer)
		}
	}
	if strings.Contains(v.where(), "k1") {
		t.Errorf("people are shown %s", v.where())
	}
	v.URL += "&move=1"
	moved, err := newServerWay(&v, time.Minute, func(what string, _ bool) { told = append(told, what) }, check, doorway.NewPlaces(1))
	if err != nil {
		t.Fatal(err)
	}
	defer moved.end()
	w.end()
	w = moved
	inside.CloseIdleConnections()
	if resp, _ := ask("/mcp"); resp.StatusCode != http.StatusBadGateway || len(told) != 1 || strings.Contains(told[0], "k1") {
		t.Errorf("a redirect: %s, told %q", resp.Status, told)
	}
	for _, address := range []string{"file:///etc/passwd", "ftp://x/", "nowhere", ""} {
		if _, err := newServerWay(&server{Name: "x", URL: address}, time.Minute, nil, nil, nil); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

// errStopped ends a request that must not leave.
var errStopped = errors.New("the policy stops that (policy.canaries)")

// However many requests an agent makes, and however long they take, gander holds little
// of them.
func TestServerWayHoldsLittle(t *testing.T) {
	const asked, size = maxServerConns + 10, 4 << 20
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		check := func(string, []byte) error { <-release; return errStopped }
		w, err := newServerWay(&server{Name: "db", URL: "http://127.0.0.1:1/"}, time.Minute, nil, check, doorway.NewPlaces(largeToServers))
		if err != nil {
			t.Fatal(err)
		}
		defer w.end()
		var held atomic.Int64
		var refused atomic.Int32
		for range asked {
			conn, err := w.listener.Dial(t.Context())
			if err != nil {
				continue
			}
			defer conn.Close()
			go func() {
				part := make([]byte, 64<<10)
				_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", serverPath, size)
				for range size / len(part) {
					n, _ := conn.Write(part)
					held.Add(int64(n))
				}
				if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), " 403 ") {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		if most := int64(largeToServers*size + maxServerConns*(doorway.Free+128<<10)); held.Load() > most {
			t.Errorf("%d bytes were taken and are not answered, want %d at most", held.Load(), most)
		}
		close(release)
		synctest.Wait()
		if n := refused.Load(); n != maxServerConns {
			t.Errorf("%d of %d requests were answered", n, maxServerConns)
		}
	})
}

// The canaries look at what goes to an address that the session's agent has.
func TestLeakToAnAddress(t *testing.T) {
	outside := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if raw, _ := io.ReadAll(r.Body); len(raw) > 0 {
			t.Errorf("the server got %q", raw)
		}
	}))
	defer outside.Close()
	var way confine.Way
	r, id := canaryRig(t, confine.CanariesStop, &way, func(context.Context, *fakeConv) error { return nil })
	r.wantStop(t, id, "go", acp.StopEndTurn)
	s, err := r.router.session(id)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	b := s.backend
	s.servers.all = []*server{{Type: "http", Name: "db", URL: outside.URL, allowed: true}}
	s.mu.Unlock()
	dial := b.openServers()[0].Dial
	inside := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}
	defer inside.CloseIdleConnections()
	resp, err := inside.Post("http://127.0.0.1:4711"+serverPath, "application/json", strings.NewReader(`{"x":"`+canaryToken+`"}`))
	switch {
	case errors.Is(err, io.EOF): // the stop ends the agent, and may be faster than the answer
	case err != nil:
		t.Fatal(err)
	default:
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("the agent is answered %s", resp.Status)
		}
	}
	r.editor.Wait(t, "what is said about it", func() bool {
		return strings.Contains(r.said(id), "was seen in what the agent sends to the MCP server db")
	})
}
