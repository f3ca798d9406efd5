package controlplane

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/telemetry"
)

// idleFleet starts nothing and succeeds.
type idleFleet struct{ Fleet }

func (idleFleet) Agents(context.Context) []AgentInfo {
	return []AgentInfo{{Name: "goose", Available: true}}
}
func (idleFleet) Start(context.Context, Spec) error             { return nil }
func (idleFleet) Message(context.Context, string, string) error { return nil }
func (idleFleet) PromptChanged(string)                          {}
func (idleFleet) Status(context.Context, string) (SandboxStatus, error) {
	return SandboxStatus{}, ErrNotRunning
}

func newPlane(t testing.TB, change ...func(*Options)) *Plane {
	t.Helper()
	o := Options{Dir: t.TempDir(), Fleet: idleFleet{}, Listen: "127.0.0.1:3000", Token: "a token of a person"}
	for _, c := range change {
		c(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// addRun makes a run that nobody started.
func addRun(t testing.TB, p *Plane, id string) (token string) {
	t.Helper()
	token, hash := newToken()
	err := p.db.write(t.Context(), func(t *tx) error {
		return insertRun(t, &Run{
			RunID: id, SessionID: "s-" + id, Agent: "goose", Driver: "local", Workspace: "/w/" + id, State: telemetry.Running,
			Desired: DesiredRunning, created: p.now(),
		}, hash)
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Who may do what, for every route of the table. What the handler makes of the request
// does not matter here: it must be reached, or not.
func TestAuthorisationMatrix(t *testing.T) {
	for _, compat := range []bool{false, true} {
		reached := ""
		p := newPlane(t, func(o *Options) { o.Compat = compat })
		token := addRun(t, p, "run-of-the-token")
		table := routes()
		if len(table) < 30 {
			t.Fatalf("the table has %d routes", len(table))
		}
		byPattern := map[string][]route{}
		for _, rt := range table {
			rt.serve = func(*Plane, http.ResponseWriter, *http.Request) error {
				reached = rt.method + " " + rt.pattern
				return nil
			}
			byPattern[rt.pattern] = append(byPattern[rt.pattern], rt)
		}
		mux := http.NewServeMux()
		for pattern, rts := range byPattern {
			mux.Handle(pattern, p.methods(rts))
		}
		callers := []struct {
			name, header, query string
			from                string
			kind                kind
			unknown, inQuery    bool
		}{
			{name: "nobody", kind: nobody},
			{name: "nobody on loopback", kind: nobody, from: "127.0.0.1:1234"},
			{name: "nobody in a container", kind: nobody, from: "172.17.0.2:1234"},
			{name: "a wrong token", header: "Bearer wrong", unknown: true, from: "127.0.0.1:1234"},
			{name: "an empty token", header: "Bearer ", kind: nobody},
			{name: "another scheme", header: "Basic YTpi", kind: nobody},
			{name: "the hash of the token", header: "Bearer " + string(p.token), unknown: true},
			{name: "a sandbox", header: "Bearer " + token, kind: sandbox},
			{name: "a person", header: "bearer a token of a person", kind: person},
			{name: "a person in the query", query: "a+token+of+a+person", kind: person, inQuery: true},
			{name: "a sandbox in the query", query: token, kind: sandbox, inQuery: true},
			{name: "a wrong token in the query", query: "wrong", unknown: true, inQuery: true, from: "127.0.0.1:1"},
		}
		for _, rt := range table {
			for _, c := range callers {
				path := strings.NewReplacer("{id}", "1", "{page...}", "").Replace(rt.pattern)
				if c.query != "" {
					path += "?token=" + c.query
				}
				r := httptest.NewRequestWithContext(t.Context(), rt.method, path, strings.NewReader("{}"))
				r.Host = "127.0.0.1:3000"
				r.RemoteAddr = "192.0.2.1:1234"
				if c.from != "" {
					r.RemoteAddr = c.from
				}
				if c.header != "" {
					r.Header.Set("Authorization", c.header)
				}
				kind, unknown := c.kind, c.unknown
				if c.inQuery && !rt.query {
					kind, unknown = nobody, false // it is not looked for there
				}
				if kind == nobody && !unknown && compat && rt.old && strings.HasPrefix(r.RemoteAddr, "127.") {
					kind = person
				}
				expect := http.StatusOK
				switch {
				case rt.who&nobody != 0:
				case unknown, kind == nobody:
					expect = http.StatusUnauthorized
				case rt.who&kind == 0:
					expect = http.StatusForbidden
				}
				reached = ""
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, r)
				if w.Code != expect || (reached == rt.method+" "+rt.pattern) != (expect == http.StatusOK) {
					t.Errorf("compat %v: %s %s by %s: %d, reached %q, want %d", compat, rt.method, rt.pattern, c.name, w.Code, reached, expect)
				}
			}
		}
	}
}

// What sandboxes may use is little, and written down here once more by hand: a route
// that is added for them by mistake must be added here, too.
func TestWhatSandboxesMay(t *testing.T) {
	may := map[string]bool{
		"GET /health": true, "GET /{page...}": true, "GET /api/prompt": true, "GET /api/mailbox": true, "PUT /api/mailbox/agent": true,
		"POST /api/telemetry/stream": true, "POST /api/telemetry/summary": true, "POST /api/telemetry/growing": true,
		"POST /api/questions": true, // of the run's own, a few at a time
	}
	for _, rt := range routes() {
		if name := rt.method + " " + rt.pattern; (rt.who&sandbox != 0) != may[name] {
			t.Errorf("%s by a sandbox: %v, want %v", name, rt.who&sandbox != 0, may[name])
		}
		if rt.query && rt.method != http.MethodGet {
			t.Errorf("%s %s takes its token from the query and changes something", rt.method, rt.pattern)
		}
		if rt.who&nobody != 0 && rt.method != http.MethodGet {
			t.Errorf("%s %s is open to everybody and changes something", rt.method, rt.pattern)
		}
	}
}
