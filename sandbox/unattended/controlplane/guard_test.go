package controlplane_test

import (
	"net/http"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// A request of another name than the server's, or of a page of elsewhere, does nothing,
// whatever token it shows: DNS rebinding and cross-origin requests.
func TestHostAndOrigin(t *testing.T) {
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) {
		o.AllowHosts = []string{"gander.example"}
		o.Compat = true
	}})
	here := strings.TrimPrefix(s.URL, "http://")
	port := here[strings.LastIndex(here, ":"):]
	tests := []struct {
		name, host, origin string
		get, put           int
	}{
		{"as printed", "", "", 200, 200},
		{"localhost", "localhost" + port, "", 200, 200},
		{"localhost in capitals", "LOCALHOST" + port, "", 200, 200},
		{"IPv6 loopback", "[::1]" + port, "", 200, 200},
		{"allowed", "gander.example", "https://gander.example", 200, 200},
		{"rebinding", "evil.example" + port, "", 403, 403},
		{"rebinding to the name without a port", "evil.example", "", 403, 403},
		{"another port", "127.0.0.1:1", "", 403, 403},
		{"a name that begins alike", "localhost.evil.example" + port, "", 403, 403},
		{"own page", "", s.URL, 200, 200},
		{"page of elsewhere", "", "https://evil.example", 200, 403},
		{"page of another port", "", "http://127.0.0.1:1", 200, 403},
		{"sandboxed frame", "", "null", 200, 403},
		{"a file", "", "file://", 200, 403},
		{"nonsense", "", "://", 200, 403},
		{"same name, other scheme", "", "ftp://" + here, 200, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			as := func(r *http.Request) {
				if tt.host != "" {
					r.Host = tt.host
				}
				if tt.origin != "" {
					r.Header.Set("Origin", tt.origin)
				}
			}
			for _, token := range []string{s.Token, ""} { // and without one, on loopback
				if r := ask(t, s, token, "GET", "/api/prompt", nil, as); r.status != tt.get {
					t.Errorf("GET: %d %s, want %d", r.status, r.text, tt.get)
				}
				if r := ask(t, s, token, "PUT", "/api/prompt", `{"content":"x"}`, as); r.status != tt.put {
					t.Errorf("PUT: %d %s, want %d", r.status, r.text, tt.put)
				}
				if r := ask(t, s, token, "GET", "/api/events?since=x", nil, as); (r.status == 403) != (tt.put == 403) && token != "" {
					t.Errorf("SSE: %d, want refused: %v", r.status, tt.put == 403)
				}
				if r := ask(t, s, token, "GET", "/ws/live?since=x", nil, as); (r.status == 403) != (tt.put == 403) {
					t.Errorf("WebSocket: %d, want refused: %v", r.status, tt.put == 403)
				}
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	for _, path := range []string{"/", "/health", "/api/prompt", "/nothing"} {
		h := ask(t, s, "", "GET", path, nil).header
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: CSP %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	for path, status := range map[string]int{"/api/nothing": 404, "/api/showcase": 404, "/nothing": 404, "/api/runs/none": 404, "/api/telemetry/iteration/7": 404, "/api/telemetry/iteration/x": 404} {
		if r := want(t, s, status, "GET", path, nil); r.body["error"] == nil {
			t.Errorf("%s: %s is no JSON error", path, r.text)
		}
	}
	for path, allow := range map[string]string{"/api/prompt": "GET, PUT", "/api/sandbox/start": "POST", "/health": "GET"} {
		if r := want(t, s, 405, "DELETE", path, nil); r.header.Get("Allow") != allow || r.body["error"] == nil {
			t.Errorf("%s: %v %s", path, r.header, r.text)
		}
	}
}
