package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// patience is how long a test waits for something that should happen at once.
const patience = 30 * time.Second

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// fakePlane takes events as the control plane does: in order, once.
type fakePlane struct {
	server *httptest.Server

	mu     sync.Mutex
	events []telemetry.Event
	asked  []string // method, path, query and the token that came with it
	grown  []string // parts of messages
	prompt string
	away   bool
	says   func() (status int, body string) // to questions; nil knows none
}

const testToken = "token-of-the-sandbox"

func newFakePlane(t *testing.T, home string) *fakePlane {
	p := &fakePlane{}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.server.Close)
	if err := Announce(home, Serving{URL: p.server.URL, PID: 1}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *fakePlane) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		conn, _, _ := w.(http.Hijacker).Hijack()
		_ = conn.Close()
		return
	}
	if r.URL.Path != "/api/telemetry/stream" {
		p.asked = append(p.asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Cookie"))
	}
	switch r.URL.Path {
	case "/api/telemetry/stream":
		p.ingest(w, r)
	case "/api/telemetry/growing":
		var g telemetry.Growth
		_ = json.NewDecoder(r.Body).Decode(&g)
		p.grown = append(p.grown, g.Content)
	case "/api/questions":
		status, body := http.StatusNotFound, "{}"
		if p.says != nil {
			status, body = p.says()
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	case "/api/prompt":
		w.Header().Set("ETag", fmt.Sprintf("%q", p.prompt))
		_ = json.NewEncoder(w).Encode(map[string]string{"content": p.prompt})
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"passed":true}`)
	}
}

func (p *fakePlane) ingest(w http.ResponseWriter, r *http.Request) {
	var body struct{ Events []telemetry.Event }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Authorization") != "Bearer "+testToken {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	for _, e := range body.Events {
		switch last := int64(len(p.events)); {
		case e.Seq == last+1:
			p.events = append(p.events, e)
		case e.Seq > last+1:
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprintf(w, `{"error":"a gap","lastSeq":%d}`, last)
			return
		}
	}
	_, _ = fmt.Fprintf(w, `{"received":%d,"lastSeq":%d}`, len(body.Events), len(p.events))
}

func (p *fakePlane) set(prompt string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompt = prompt
}

func (p *fakePlane) goAway(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// has are the events so far.
func (p *fakePlane) has() []telemetry.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]telemetry.Event(nil), p.events...)
}

// count is how many events fit.
func (p *fakePlane) count(fits func(telemetry.Event) bool) int {
	n := 0
	for _, e := range p.has() {
		if fits(e) {
			n++
		}
	}
	return n
}

// fakeDriver makes sandboxes in which the loop is a function of the test.
type fakeDriver struct {
	script func(*fakeLoop)
	fails  func(made int) error
	// starting is called before the loop of a sandbox starts; nil does nothing.
	starting func()
	closing  func() // and this before a sandbox is closed
	// consumption is what is counted of each sandbox; nil when nothing is.
	consumption func() sandbox.Consumption
	exceeded    []string           // bounds that were met
	weaker      []string           // what the sandboxes lack
	rules       sandbox.RuleKeeper // of the sandboxes; nil when they keep none
	listening   func() []int       // where programs inside listen; nil without a network of their own

	mu    sync.Mutex
	made  int
	boxes []*fakeBox
}

func (d *fakeDriver) Name() string                { return "fake" }
func (d *fakeDriver) Check(context.Context) error { return nil }

func (d *fakeDriver) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made++
	if d.fails != nil {
		if err := d.fails(d.made); err != nil {
			return nil, err
		}
	}
	b := &fakeBox{driver: d, spec: spec, done: make(chan struct{})}
	d.boxes = append(d.boxes, b)
	if d.rules != nil {
		return struct {
			*fakeBox
			sandbox.RuleKeeper
		}{b, d.rules}, nil
	}
	return b, nil
}

// last is the newest sandbox.
func (d *fakeDriver) last() *fakeBox {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.boxes) == 0 {
		return nil
	}
	return d.boxes[len(d.boxes)-1]
}

func (d *fakeDriver) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

type fakeBox struct {
	sandbox.Sandbox
	driver *fakeDriver
	spec   sandbox.Spec
	once   sync.Once
	done   chan struct{}

	mu   sync.Mutex
	loop *fakeLoop
}

func (b *fakeBox) Info() sandbox.Info {
	doors := map[string]string{}
	for i, d := range b.spec.Doors {
		doors[d.Name] = fmt.Sprintf("127.0.0.1:%d", 40000+i)
	}
	return sandbox.Info{ID: b.spec.ID, Driver: "fake", Home: b.spec.Home, Executable: "/gander", Doors: doors, Weaker: b.driver.weaker, Isolated: b.driver.listening != nil}
}

func (b *fakeBox) Consumption(context.Context) (sandbox.Consumption, error) {
	if b.driver.consumption == nil {
		return sandbox.Consumption{}, errors.New("nothing is counted")
	}
	return b.driver.consumption(), nil
}

func (b *fakeBox) Exceeded(context.Context) []string { return b.driver.exceeded }

func (b *fakeBox) Done() <-chan struct{} { return b.done }

// Close is also the death of the sandbox.
func (b *fakeBox) Close() error {
	b.once.Do(func() {
		if b.driver.closing != nil {
			b.driver.closing()
		}
		close(b.done)
	})
	b.mu.Lock()
	l := b.loop
	b.mu.Unlock()
	if l != nil {
		l.die(137)
		<-l.over
	}
	return nil
}

func (b *fakeBox) Start(_ context.Context, c sandbox.Command) (sandbox.Process, error) {
	if b.driver.starting != nil {
		b.driver.starting()
	}
	l := &fakeLoop{box: b, command: c, dead: make(chan struct{}), over: make(chan struct{}), commands: make(chan loop.Command, 1000)}
	l.stdin, l.in = io.Pipe()
	l.out, l.stdout = io.Pipe()
	b.mu.Lock()
	b.loop = l
	b.mu.Unlock()
	go func() {
		_ = loop.ReadCommands(l.stdin, func(c loop.Command) error {
			l.commands <- c
			return nil
		})
	}()
	go func() {
		defer close(l.over)
		b.driver.script(l)
		l.die(0)
	}()
	return l, nil
}

// door connects to a door as a process inside would.
func (b *fakeBox) door(t *testing.T, name string) *http.Client {
	t.Helper()
	for _, d := range b.spec.Doors {
		if d.Name == name {
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return d.Dial(ctx) }
			return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: patience}
		}
	}
	t.Fatalf("there is no door %q", name)
	return nil
}

// fakeLoop is the process of a loop, which the driver's script plays.
type fakeLoop struct {
	box      *fakeBox
	command  sandbox.Command
	commands chan loop.Command
	stdin    *io.PipeReader
	in       *io.PipeWriter
	out      *io.PipeReader
	stdout   *io.PipeWriter
	once     sync.Once
	code     int
	dead     chan struct{} // the process has ended
	over     chan struct{} // and the script has
}

func (l *fakeLoop) PID() int              { return 1 }
func (l *fakeLoop) Stdin() io.WriteCloser { return l.in }
func (l *fakeLoop) Stdout() io.Reader     { return l.out }
func (l *fakeLoop) Stderr() io.Reader     { return noWords{l} }
func (l *fakeLoop) Signal(context.Context, string) error {
	return nil
}
func (l *fakeLoop) Kill(context.Context) error { l.die(137); return nil }
func (l *fakeLoop) Wait(ctx context.Context) (sandbox.ExitStatus, error) {
	select {
	case <-l.dead:
		return sandbox.ExitStatus{Code: l.code}, nil
	case <-ctx.Done():
		return sandbox.ExitStatus{}, ctx.Err()
	}
}

type noWords struct{ l *fakeLoop }

func (w noWords) Read([]byte) (int, error) {
	<-w.l.dead
	return 0, io.EOF
}

func (l *fakeLoop) die(code int) {
	l.once.Do(func() {
		l.code = code
		_ = l.stdout.Close()
		_ = l.stdin.Close()
		close(l.dead)
	})
}

// next is the next command; false when the process is dead.
func (l *fakeLoop) next() (loop.Command, bool) {
	select {
	case c := <-l.commands:
		return c, true
	case <-l.dead:
		return loop.Command{}, false
	}
}

// until is the next command of a type.
func (l *fakeLoop) until(name string) (loop.Command, bool) {
	for {
		c, ok := l.next()
		if !ok || c.Type == name {
			return c, ok
		}
	}
}

func (l *fakeLoop) say(events ...telemetry.Event) {
	for _, e := range events {
		l.line(loop.Output{Event: &e})
	}
}

func (l *fakeLoop) line(o loop.Output) {
	raw, _ := json.Marshal(o)
	_, _ = l.stdout.Write(append(raw, '\n'))
}

// begin and end are the events of an iteration.
func begin(n int64) telemetry.Event {
	return telemetry.Event{Type: telemetry.IterationStart, Iteration: n, Summary: fmt.Sprintf("Starting iteration %d", n)}
}

func isBegin(e telemetry.Event) bool { return e.Type == telemetry.IterationStart }

func end(n int64) telemetry.Event {
	return telemetry.Event{Type: telemetry.IterationEnd, Iteration: n, Summary: "Completed: 0 actions, 0 errors", Status: string(telemetry.OK)}
}

// fakeAgent is one that can be run once.
type fakeAgent struct{ sandbox.Agent }

func (fakeAgent) Name() string            { return "fake" }
func (fakeAgent) Mounts() []sandbox.Mount { return nil }
func (fakeAgent) OneShot(_ context.Context, _ sandbox.Sandbox, p sandbox.SessionParams) (sandbox.Command, error) {
	return sandbox.Command{Args: []string{"agent", p.Model}, Env: append([]string{"KEY=" + p.ModelToken}, p.Env...)}, nil
}

// fakeTerms are those of a place with a way to a model that is nowhere.
type fakeTerms struct {
	confine.Terms
	canaries   string
	ask        bool // about hosts
	rules      *sandbox.Rules
	openModel  func(confine.Way)                // called when the way is opened; may be nil
	openEgress func(confine.Way) confine.Egress // nil opens none
}

func (f *fakeTerms) Policy(string) (confine.Policy, error) {
	return confine.Policy{Policy: policy.Policy{Git: policy.GitWarn, Canaries: f.canaries, Network: policy.Network{Ask: f.ask}}}, nil
}

func (f *fakeTerms) Canaries(string) string { return f.canaries }

func (f *fakeTerms) Rules() *sandbox.Rules { return f.rules }

func (f *fakeTerms) OpenModel(way confine.Way, _ policy.Policy) (confine.Model, error) {
	if f.openModel != nil {
		f.openModel(way)
	}
	return fakeModel{}, nil
}

func (f *fakeTerms) OpenEgress(way confine.Way, _ policy.Policy) (confine.Egress, error) {
	if f.openEgress == nil {
		return nil, nil
	}
	return f.openEgress(way), nil
}

// fakeModel is a way to nowhere.
type fakeModel struct{}

func (fakeModel) Dial(context.Context) (net.Conn, error) { return nil, errors.New("no model here") }
func (fakeModel) Token() string                          { return "stand-in" }
func (fakeModel) Proceed()                               {}
func (fakeModel) AbortInFlight()                         {}
func (fakeModel) Close() error                           { return nil }
