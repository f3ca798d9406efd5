package confine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine/confinetest"
	"gander.dev/gander/sandbox/rules/policy"
)

// fakeTerms note what is opened and closed, in order.
type fakeTerms struct {
	policy policy.Policy
	did    []string
	noWay  error // out to other hosts
}

func (f *fakeTerms) note(format string, args ...any) {
	f.did = append(f.did, fmt.Sprintf(format, args...))
}

func (f *fakeTerms) Policy(project string) (Policy, error) {
	if project == "" {
		return Policy{}, errors.New("it cannot be read")
	}
	f.note("policy")
	return Policy{Policy: f.policy, Mounts: []sandbox.Mount{{Path: "/granted"}}}, nil
}

func (f *fakeTerms) Canaries(string) string { return f.policy.Canaries }

func (f *fakeTerms) Rules() *sandbox.Rules { return &sandbox.Rules{Own: "/own"} }

func (f *fakeTerms) OpenModel(Way, policy.Policy) (Model, error) {
	f.note("open model")
	return fakeWay{f, "model"}, nil
}

func (f *fakeTerms) OpenEgress(Way, policy.Policy) (Egress, error) {
	f.note("open egress")
	return fakeWay{f, "egress"}, f.noWay
}

func (f *fakeTerms) Spent(acp.SessionID) string { return "" }

func (f *fakeTerms) Cost(acp.SessionID, string) *acp.Cost { return nil }

func (f *fakeTerms) Name() string { return "fake" }

func (f *fakeTerms) Check(context.Context) error { return nil }

func (f *fakeTerms) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	f.note("create")
	if spec.ID == "" {
		return nil, errors.New("there is no room")
	}
	inside := &confinetest.Sandbox{Sandbox: plain{}, Dir: spec.WorkingDir, Log: f.note}
	return fakeSandbox{inside, f}, nil
}

type fakeSandbox struct {
	*confinetest.Sandbox
	f *fakeTerms
}

func (s fakeSandbox) Close() error {
	s.f.note("close sandbox")
	return errors.New("it does not end")
}

type fakeWay struct {
	f    *fakeTerms
	name string
}

func (w fakeWay) Dial(context.Context) (net.Conn, error) { return nil, net.ErrClosed }

func (w fakeWay) Token() string { return "" }

func (w fakeWay) AbortInFlight() {}

func (w fakeWay) Proceed() {}

func (w fakeWay) Close() error {
	w.f.note("close %s", w.name)
	return nil
}

func request(t *testing.T, f *fakeTerms) Request {
	t.Helper()
	dir := t.TempDir()
	return Request{
		Terms: f, Driver: f, StateDir: filepath.Join(dir, "state"), Way: Way{WorkingDir: dir, Context: t.Context()},
		Spec:  sandbox.Spec{ID: "a", WorkingDir: dir, Home: filepath.Join(t.TempDir(), "home"), Mounts: []sandbox.Mount{{Path: "/agent"}}},
		Doors: func() []sandbox.Door { f.note("further doors"); return []sandbox.Door{{Name: "further"}} },
	}
}

// A place is opened and closed in one order, and what git has in it goes with it.
func TestPlace(t *testing.T) {
	f := &fakeTerms{policy: policy.Default()}
	f.policy.Git, f.policy.Limits.Processes = policy.GitHide, 7
	p, err := Open(t.Context(), request(t, f))
	if err != nil {
		t.Fatal(err)
	}
	var doors []string
	for _, d := range p.Spec.Doors {
		doors = append(doors, d.Name)
	}
	if !slices.Equal(doors, []string{ModelDoor, EgressDoor, "further"}) || p.Spec.Limits.Processes != 7 || p.Spec.Rules.Own != "/own" {
		t.Errorf("it is made of %+v", p.Spec)
	}
	store := GitStore(p.Spec.Home)
	if want := []sandbox.Mount{{Path: "/agent"}, {Path: "/granted"}, {Path: store}}; !slices.Equal(p.Spec.Mounts, want) || p.Spec.Rules.GitStore != store {
		t.Errorf("it shows %+v, git has %s", p.Spec.Mounts, p.Spec.Rules.GitStore)
	}
	if said, err := p.Check(t.Context()); len(said) > 0 || err != nil {
		t.Errorf("it was checked: %q, %v", said, err)
	}
	if err := p.Close(); err == nil {
		t.Error("nobody learns that the sandbox does not end")
	}
	if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("git's objects are left over: %v", err)
	}
	want := []string{
		"policy", "open model", "open egress", "further doors", "create", "look for repositories", "protect named", "protect named",
		"close sandbox", "close model", "close egress",
	}
	if !slices.Equal(f.did, want) {
		t.Errorf("it did %q, want %q", f.did, want)
	}
}

// TestCachesOfReaders gives the project's caches to a session, and none to one that only reads.
func TestCachesOfReaders(t *testing.T) {
	f := &fakeTerms{policy: policy.Default()}
	for _, reads := range []bool{false, true} {
		p := &Place{request: request(t, f)}
		p.request.Spec.ReadOnly, p.Policy.Caches = reads, 5
		spec, err := p.Fit(t.TempDir())
		if want := map[bool]int64{false: 5}[reads]; err != nil || spec.Caches != want {
			t.Errorf("one that only reads %v: caches of %d bytes, want %d; %v", reads, spec.Caches, want, err)
		}
	}
}

// Nothing is left of a place that cannot be opened.
func TestOpenFails(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*Request, *fakeTerms)
		want  string
		did   []string // besides what opens a place until then
	}{
		"the policy":  {func(r *Request, _ *fakeTerms) { r.Spec.WorkingDir = "" }, "it cannot be read", nil},
		"the egress":  {func(_ *Request, f *fakeTerms) { f.noWay = errors.New("no way") }, "no way", []string{"close model", "close egress"}},
		"the sandbox": {func(r *Request, _ *fakeTerms) { r.Spec.ID = "" }, "making the fake sandbox: there is no room", []string{"create", "close model", "close egress"}},
		"git": {func(r *Request, f *fakeTerms) {
			f.policy.Git = policy.GitRefuse
			r.Make = func(ctx context.Context, p *Place) (sandbox.Sandbox, sandbox.Spec, error) {
				f.note("make")
				return plain{}, r.Spec, nil
			}
		}, "keeps no rules for files", []string{"make", "close model", "close egress"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeTerms{policy: policy.Default()}
			r := request(t, f)
			tt.spoil(&r, f)
			p, err := Open(t.Context(), r)
			if p != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v", p, err)
			}
			did := slices.DeleteFunc(f.did, func(what string) bool {
				return slices.Contains([]string{"policy", "open model", "open egress", "further doors"}, what)
			})
			if !slices.Equal(did, tt.did) {
				t.Errorf("it did %q", did)
			}
			_, policy := errors.AsType[*PolicyError](err)
			_, made := errors.AsType[*MakeError](err)
			if policy != (name == "the policy") || made != (name == "the sandbox") || Refused(err) != (name == "git") {
				t.Errorf("the kind of %v: of the policy %v, of the driver %v, a refusal %v", err, policy, made, Refused(err))
			}
			if entries, _ := os.ReadDir(filepath.Dir(r.Spec.Home)); len(entries) > 0 {
				t.Errorf("left over: %v", entries)
			}
		})
	}
}

// The canaries look at a place's egress from the first byte on, and by the policy
// the place is told to stop.
func TestPlaceLooksAtWhatLeaves(t *testing.T) {
	const token = "tok-1a2b3c4d5e6f7g8h"
	for mode, stops := range map[string]bool{CanariesShow: false, CanariesStop: true} {
		t.Run(mode, func(t *testing.T) {
			f := &fakeTerms{policy: policy.Default()}
			r := request(t, f)
			if err := os.WriteFile(filepath.Join(r.Spec.WorkingDir, ".env"), []byte("API_KEY="+token+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := policy.Default()
			p.Network.Allow = []string{"a.invalid"}
			said, stopped := make(chan string, 10), make(chan string, 10)
			r.Terms, r.NoModel = newWays(t.TempDir(), p), true
			r.Way.Leaks = NewLeaks(LeakOptions{
				Mode: mode, Project: r.Spec.WorkingDir, Context: t.Context(), Log: slog.New(slog.DiscardHandler),
				Notice: func(_, text string) { said <- text }, Stop: func(why string) { stopped <- why }, Spawn: func(f func()) { go f() },
			})
			place, err := Open(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = place.Close() }()
			inside := &http.Client{Transport: &http.Transport{
				Proxy:       http.ProxyURL(&url.URL{Scheme: "http", Host: "inside"}),
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return place.Spec.Doors[0].Dial(ctx) },
			}}
			defer inside.CloseIdleConnections()
			resp, err := inside.Get("http://a.invalid/?q=" + token)
			if err == nil {
				_ = resp.Body.Close()
			}
			told := said
			if stops {
				told = stopped
			}
			if text := <-told; !strings.Contains(text, "closed file .env (line 1) was seen in a connection out of the sandbox") {
				t.Errorf("told %q", text)
			}
			if !stops && len(stopped) > 0 {
				t.Error("it was stopped")
			}
		})
	}
}
