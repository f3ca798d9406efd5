package confine

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sandbox/rules/policy"
)

// settings are those of a test.
type settings struct{ policy policy.Policy }

func (s settings) Policy(string) (Policy, error) { return Policy{Policy: s.policy}, nil }

func (s settings) Canaries(string) string { return s.policy.Canaries }

func (settings) Rules() *sandbox.Rules { return &sandbox.Rules{} }

func (settings) OpenGateway(_ string, o gateway.Options) (*gateway.Gateway, error) {
	o.Endpoint = gateway.Endpoint{BaseURL: "http://127.0.0.1:1", Model: "m"}
	return gateway.New(o)
}

func newWays(home string, p policy.Policy) *Ways {
	return NewWays(settings{p}, WaysOptions{StateDir: home, Permissions: permit.Open(filepath.Join(home, "permissions"))})
}

// The spending of a session counts on in another process.
func TestSpentIsKept(t *testing.T) {
	home, told := t.TempDir(), 0
	way := Way{Session: "a-session", WorkingDir: t.TempDir(), Context: t.Context(), Notice: func(string, string) { told++ }}
	p := policy.Default()
	p.Model.Currency = "EUR"
	w := func() *Ways { return newWays(home, p) }
	o := w().outlet(way)
	o.meter = gateway.ResumeMeter(gateway.Spent{Calls: 2, Input: 30, Output: 4, Cost: 0.5, Unpriced: 1})
	if err := o.keepSpent(); err != nil {
		t.Fatal(err)
	}
	if got := w().outlet(way).meter.Spent(); got != o.meter.Spent() {
		t.Errorf("in another process: %+v", got)
	}
	if got := w().Spent(way.Session); got != "2 calls, 30 tokens in and 4 out, cost 0.5 without 1 calls that have no price" {
		t.Errorf("in words: %s", got)
	}
	if got := w().Cost(way.Session, way.WorkingDir); got == nil || got.Amount != 0.5 || got.Currency != "EUR" {
		t.Errorf("it cost %+v", got)
	}
	info, err := os.Stat(o.spent)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if err := os.WriteFile(o.spent, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w().outlet(way).meter.Spent(); got != (gateway.Spent{}) || told != 1 {
		t.Errorf("a file that cannot be read: %+v, told %d times", got, told)
	}
}

// A host that was allowed for a project is allowed in that project only, and not any
// more when it was taken back.
func TestHostMemory(t *testing.T) {
	store := permit.Open(t.TempDir())
	here, there := hostMemory{store, t.TempDir()}, hostMemory{store, t.TempDir()}
	allowed := func(m hostMemory) bool {
		allowed, denied, err := HostRules(store, m.project)
		if err != nil {
			t.Fatal(err)
		}
		return egress.ExplainAll(allowed, denied, "a.example", 443).Allowed
	}
	if err := here.add("a.example:443"); err != nil || !allowed(here) || allowed(there) {
		t.Errorf("%v; here %t, there %t", err, allowed(here), allowed(there))
	}
	if n, err := store.Clear(here.project); n != 1 || err != nil || allowed(here) {
		t.Errorf("taken back: %d, %v, %t", n, err, allowed(here))
	}
	for _, step := range []struct {
		project, rule string
		allow, here   bool
	}{
		{permit.Everywhere, "*.example", true, true},
		{here.project, "a.example:443", false, false}, // a denial wins
		{here.project, "a.example:443", true, true},
		{permit.Everywhere, "a.example", false, false},
	} {
		if _, err := store.Add(step.project, HostRule(step.rule, step.allow)); err != nil || allowed(here) != step.here {
			t.Errorf("%+v: %v, %t", step, err, allowed(here))
		}
	}
}

// Decisions about hosts are heard, also where nobody can be asked.
func TestDecisionsAreHeard(t *testing.T) {
	p := policy.Default()
	p.Network.Allow = []string{"10.9.8.7:1"}
	var heard []egress.Tally
	way := Way{
		WorkingDir: t.TempDir(), Context: t.Context(), Notice: func(string, string) {},
		Decided: func(t egress.Tally) { heard = append(heard, t) },
	}
	for _, ask := range []func(context.Context, string, int) egress.Answer{nil, func(context.Context, string, int) egress.Answer { return egress.Once }} {
		heard, way.Ask = nil, ask
		door, err := newWays(t.TempDir(), p).OpenEgress(way, p)
		if err != nil {
			t.Fatal(err)
		}
		c, err := door.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "CONNECT b.example:22 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 403") {
			t.Fatalf("%q, %v", said, err)
		}
		_ = c.Close()
		const reason = "no rule of policy.network allows it"
		if want := []egress.Tally{{Decision: egress.Decision{Host: "b.example", Port: 22, Reason: reason}, Times: 1}}; door.Close() != nil || !slices.Equal(heard, want) {
			t.Errorf("heard %+v", heard)
		}
		if want := "A connection to b.example:22 was refused: " + reason + "."; heard[0].String() != want {
			t.Errorf("in words: %s", heard[0])
		}
	}
	door, err := newWays(t.TempDir(), policy.Default()).OpenEgress(way, policy.Default())
	if err != nil || Proxied(door) || door.(sandbox.Road).Known(t.Context(), "b.example", 0) {
		t.Errorf("where the policy is the model only: %v, %v", door, err)
	}
	if err := door.Close(); err != nil {
		t.Error(err)
	}
}

// A program inside cannot fill a session with what is refused to it.
func TestModelNoticesAreBounded(t *testing.T) {
	w := newWays(t.TempDir(), policy.Default())
	var told []string
	way := Way{
		Session: "a-session", WorkingDir: t.TempDir(), Agent: "goose", Context: t.Context(),
		Notice: func(_, text string) { told = append(told, text) },
	}
	for range 2 { // an agent that started again
		model, err := w.OpenModel(way, policy.Default())
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return model.Dial(ctx) },
			DisableKeepAlives: true,
		}}
		for i := range noticesInAll {
			res, err := client.Get("http://127.0.0.1/" + strconv.Itoa(i))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}
		if err := model.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(told); n != noticesInAll || !strings.Contains(told[n-1], "/19") || !strings.Contains(told[n-1], "not shown") {
		t.Errorf("%d notices, the last of them %q", n, told[n-1])
	}
	var n modelNotices
	now := time.Now()
	for range 2 * noticesInAll {
		n.bound("a notice", now)
	}
	if got := n.bound("a notice", now.Add(2*noticesTime)); got != "a notice" {
		t.Errorf("later: %q", got)
	}
}

// What the policy says of the model is the gateway's to keep.
func TestModelOptions(t *testing.T) {
	price := policy.Price{Input: 1, Output: 2, CachedInput: 0.5}
	p := policy.Model{Allow: []string{"m"}, Remote: true, MaxTokens: 3, MaxCost: 4, Prices: map[string]policy.Price{"m": price}}
	got := modelOptions(p, nil, nil, nil)
	want := gateway.Options{
		Models: p.Allow, Remote: true, Budget: gateway.Budget{MaxTokens: 3, MaxCost: 4}, Prices: map[string]gateway.Price{"m": gateway.Price(price)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if modelOptions(policy.Model{}, nil, nil, nil).Remote {
		t.Error("the endpoint may reach other hosts by default")
	}
}

func TestModelWatch(t *testing.T) {
	post := func(kind gateway.Kind) gateway.Event {
		return gateway.Event{Kind: kind, Method: http.MethodPost, Message: "it failed"}
	}
	for _, tt := range []struct {
		name    string
		events  []gateway.Event
		failed  bool
		refused bool
	}{
		{"answered", []gateway.Event{post(gateway.Started), post(gateway.Finished)}, false, false},
		{"failed", []gateway.Event{post(gateway.Started), post(gateway.ServerError)}, true, false},
		{"answered in the end", []gateway.Event{post(gateway.Refused), post(gateway.Finished)}, false, false},
		{"models listed after a failure", []gateway.Event{post(gateway.NotFound), {Kind: gateway.Finished, Method: http.MethodGet}}, true, false},
		{"cancelled", []gateway.Event{post(gateway.Started), post(gateway.Cancelled)}, false, false},
		{"refused by the policy", []gateway.Event{post(gateway.ServerError), post(gateway.Refused)}, true, true},
	} {
		var m modelWatch
		for _, e := range tt.events {
			m.see(e)
		}
		if why, refused := m.LastFailure(time.Time{}); (why != "") != tt.failed || refused != tt.refused {
			t.Errorf("%s: it failed as %q, refused is %v", tt.name, why, refused)
		}
		if why, refused := m.LastFailure(time.Now()); why != "" || refused {
			t.Errorf("%s: what was before counts: %q", tt.name, why)
		}
	}
}

func TestModelNotice(t *testing.T) {
	if got := modelNotice(gateway.Event{Kind: gateway.Finished, Message: "fine"}); got != "" {
		t.Errorf("a call that went well is reported: %q", got)
	}
	if got := modelNotice(gateway.Event{Kind: gateway.BadKey, Message: "no", Failures: 3}); got != "no (3 times in a row)" {
		t.Errorf("notice %q", got)
	}
}
