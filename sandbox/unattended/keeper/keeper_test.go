package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// rig is a run with its keeper.
type rig struct {
	t      *testing.T
	plane  *fakePlane
	driver *fakeDriver
	dir    Dir
	terms  *fakeTerms
	client *Client
	keeper atomic.Pointer[keeper]
	o      Options
	stop   context.CancelFunc
	ended  chan error
}

func newRig(t *testing.T, script func(*fakeLoop)) *rig {
	t.Helper()
	home, err := os.MkdirTemp("", "keeper") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	dir, err := RunDir(home, "run1")
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Write(Spec{RunID: "run1", SessionID: "s1", Agent: "fake", Workspace: "/w", Model: "m", Desired: Running}, testToken); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, plane: newFakePlane(t, home), driver: &fakeDriver{script: script}, terms: &fakeTerms{}, dir: dir, client: NewClient(dir)}
	r.o = Options{
		Home: home, Dir: dir, Agent: fakeAgent{}, Driver: r.driver,
		Terms: r.terms, made: r.keeper.Store,
	}
	return r
}

// launch starts a keeper.
func (r *rig) launch() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop, r.ended = cancel, make(chan error, 1)
	go func() { r.ended <- Run(ctx, r.o) }()
	r.t.Cleanup(cancel)
}

// start starts a keeper and waits until it has a sandbox.
func (r *rig) start() {
	r.t.Helper()
	r.launch()
	waiting, done := context.WithTimeout(r.t.Context(), patience)
	defer done()
	if err := r.client.Await(waiting); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.Ready(waiting); err != nil {
		r.t.Fatal(err)
	}
}

// gone waits for the keeper's end.
func (r *rig) gone() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		r.t.Fatal("the keeper does not end")
		return nil
	}
}

// contiguous fails unless the events are 1, 2, 3, ... and of this run.
func (r *rig) contiguous() []telemetry.Event {
	r.t.Helper()
	all := r.plane.has()
	for i, e := range all {
		if e.Seq != int64(i)+1 || e.RunID != "run1" || e.Agent != "fake" {
			r.t.Fatalf("event %d is %+v", i+1, e)
		}
	}
	return all
}

// outcomes are the ends of iterations: number and outcome.
func outcomes(all []telemetry.Event) []string {
	var out []string
	for _, e := range all {
		if e.Type == telemetry.IterationEnd {
			out = append(out, fmt.Sprint(e.Iteration, " ", e.Status))
		}
	}
	return out
}

func states(all []telemetry.Event) []string {
	var out []string
	for _, e := range all {
		if e.Type == telemetry.StateChange {
			out = append(out, string(e.State))
		}
	}
	return out
}

// obey plays a loop that waits for what it is told.
func obey(l *fakeLoop) {
	start, ok := l.until(loop.CommandStart)
	if !ok {
		return
	}
	n := start.Start.Saved.Iteration + 1
	l.say(telemetry.Event{Type: telemetry.StateChange, State: telemetry.Running, Summary: "running"}, begin(n), telemetry.Event{Type: telemetry.Text, Iteration: n, Summary: "hello", Content: "hello"})
	if _, ok := l.until(loop.CommandStop); !ok {
		return
	}
	l.say(telemetry.Event{Type: telemetry.IterationEnd, Iteration: n, Status: string(telemetry.Cancelled)}, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Stopped, Summary: "stopped"})
}

// wantStopped is after a stop was answered: the sandbox has ended, and the keeper ends, too.
func (r *rig) wantStopped() {
	r.t.Helper()
	select {
	case <-r.driver.last().done:
	default:
		r.t.Error("stop returns while the sandbox runs")
	}
	if err := r.gone(); err != nil {
		r.t.Fatal(err)
	}
}

func TestRunAndStop(t *testing.T) {
	r := newRig(t, obey)
	r.start()
	await(t, "the text", func() bool { return r.plane.count(func(e telemetry.Event) bool { return e.Content == "hello" }) == 1 })
	if err := r.client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wantStopped()
	all := r.contiguous()
	if got := states(all); !slices.Equal(got, []string{"running", "stopped"}) {
		t.Errorf("states %q", got)
	}
	if got := outcomes(all); !slices.Equal(got, []string{"1 cancelled"}) {
		t.Errorf("outcomes %q", got)
	}
	if s, err := r.dir.Spec(); err != nil || s.Desired != Stopped || r.dir.Kept() || r.dir.Unsent() {
		t.Errorf("after the end: %+v %v, kept %v, unsent %v", s, err, r.dir.Kept(), r.dir.Unsent())
	}
	if _, err := os.Stat(r.dir.file(homeDir)); !os.IsNotExist(err) {
		t.Errorf("the home is left over: %v", err)
	}
	spec := r.driver.last().spec
	if spec.Labels[RunLabel] != "run1" || spec.Labels[SessionLabel] != "s1" || spec.WorkingDir != "/w" {
		t.Errorf("the sandbox is %+v", spec)
	}
}

// A run can be stopped also when nothing can be kept. Who stops it learns that the next
// keeper does not know.
func TestStopThatCannotBeNoted(t *testing.T) {
	r := newRig(t, obey)
	r.start()
	if err := errors.Join(os.Remove(r.dir.file(specFile)), os.Mkdir(r.dir.file(specFile), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be noted") {
		t.Errorf("it is answered with %v", err)
	}
	r.wantStopped()
	if got := outcomes(r.contiguous()); !slices.Equal(got, []string{"1 cancelled"}) {
		t.Errorf("outcomes %q", got)
	}
}

// While events wait for room the keeper answers, and it can be stopped.
func TestAnswersWhileEventsWait(t *testing.T) {
	more := make(chan struct{})
	r := newRig(t, func(l *fakeLoop) {
		if _, ok := l.until(loop.CommandStart); ok {
			<-more
			l.say(begin(1))
			_, _ = l.until("never")
		}
	})
	k, err := newKeeper(r.o)
	if err != nil {
		t.Fatal(err)
	}
	k.log, k.o.silence = slog.New(slog.DiscardHandler), silentTime
	ended := make(chan error, 1)
	go func() { ended <- k.run(t.Context()) }()
	if err := r.client.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.spool.Close(); err != nil { // as good as a full disk
		t.Fatal(err)
	}
	close(more)
	await(t, "an event that waits", func() bool {
		free := k.emitting.TryLock()
		if free {
			k.emitting.Unlock()
		}
		return !free
	})
	soon, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	if s, err := r.client.Status(soon); err != nil || s.Iteration != 1 {
		t.Errorf("its status is %+v, %v", s, err)
	}
	if err := r.client.Pause(soon); err != nil {
		t.Errorf("it is paused: %v", err)
	}
	if err := r.client.Stop(soon); err != nil {
		t.Errorf("it is stopped: %v", err)
	}
	if err := <-ended; err != nil && !errors.Is(err, telemetry.ErrSpoolClosed) {
		t.Error(err)
	}
}

// A run that is done does not begin again, also when its keeper has died before it could
// note that.
func TestDoneStaysSo(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) {
		if _, ok := l.until(loop.CommandStart); ok {
			l.say(telemetry.Event{Type: telemetry.StateChange, State: telemetry.Done, Summary: "done"})
		}
	})
	r.start()
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	if err := r.dir.SetDesired(Running); err != nil { // as a keeper that was killed leaves it
		t.Fatal(err)
	}
	r.launch()
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	if n := r.driver.count(); n != 1 {
		t.Errorf("%d sandboxes were made", n)
	}
	if s, err := r.dir.Spec(); err != nil || s.Desired != Stopped {
		t.Errorf("the run is to be %s (%v)", s.Desired, err)
	}
	if got := states(r.contiguous()); !slices.Equal(got, []string{"done"}) {
		t.Errorf("states %q", got)
	}
}

// A state whose event was never written does not count.
func TestStateWithoutItsEvent(t *testing.T) {
	j := journal{State: "done", Stated: 5}
	j.settle(4)
	if final(j.State) {
		t.Errorf("the journal says %q", j.State)
	}
	j = journal{State: "done", Stated: 5}
	j.settle(5)
	if !final(j.State) {
		t.Errorf("the journal says %q", j.State)
	}
}

// allowed and refused hold the decisions of fakeEgress.
var (
	allowed = egress.Tally{Decision: egress.Decision{Host: "a.example", Port: 443, Allowed: true, By: "a rule"}, Times: 1}
	refused = egress.Tally{Decision: egress.Decision{Host: "b.example", Port: 22, Reason: "it is not among the hosts"}, Times: 1}
)

// fakeEgress is a way to other hosts that nobody takes; it has a last word.
type fakeEgress struct{ decided func(egress.Tally) }

func (fakeEgress) Dial(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") }

func (e fakeEgress) Close() error {
	e.decided(allowed)
	return nil
}

// What is decided about hosts are events of the run, also what is said when the sandbox
// ends.
func TestDecisionsAreEvents(t *testing.T) {
	r := newRig(t, obey)
	r.terms.openEgress = func(way confine.Way) confine.Egress {
		way.Decided(refused)
		return fakeEgress{way.Decided}
	}
	r.start()
	if err := r.client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range r.contiguous() {
		if e.Type == Network && e.Content == e.Summary {
			said = append(said, e.Summary)
		}
	}
	if !slices.Equal(said, []string{refused.String(), allowed.String()}) {
		t.Errorf("events %q", said)
	}
}

// What dies in an iteration is made again, and the iteration ends once.
func TestDeaths(t *testing.T) {
	for name, kill := range map[string]func(b *fakeBox){
		"loop":    func(b *fakeBox) { b.loop.die(137) },
		"sandbox": func(b *fakeBox) { _ = b.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, obey)
			r.start()
			for i := range 2 {
				begun := func() bool { return r.plane.count(func(e telemetry.Event) bool { return e.Content == "hello" }) == i+1 }
				await(t, "an iteration", begun)
				kill(r.driver.last())
				await(t, "another sandbox", func() bool { return r.driver.count() == i+2 })
			}
			await(t, "the third iteration", func() bool { return r.plane.count(func(e telemetry.Event) bool { return e.Content == "hello" }) == 3 })
			if err := r.client.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.gone(); err != nil {
				t.Fatal(err)
			}
			if got := outcomes(r.contiguous()); !slices.Equal(got, []string{"1 interrupted", "2 interrupted", "3 cancelled"}) {
				t.Errorf("outcomes %q", got)
			}
		})
	}
}

// Another keeper goes on where one has ended, in the numbers and in what the loop
// wanted remembered, and ends the iteration that was open, once.
func TestNextKeeper(t *testing.T) {
	starts := make(chan loop.Start, 10)
	r := newRig(t, func(l *fakeLoop) {
		c, ok := l.until(loop.CommandStart)
		if !ok {
			return
		}
		starts <- *c.Start
		n := c.Start.Saved.Iteration + 1
		l.line(loop.Output{Saved: &loop.Saved{Iteration: n, PreviousPrompt: fmt.Sprint("asked ", n)}})
		l.say(begin(n), telemetry.Event{Type: telemetry.Text, Iteration: n, Content: fmt.Sprint("in ", n)})
		_, _ = l.until("never")
	})
	for i := int64(1); i <= 3; i++ {
		r.start()
		await(t, "the iteration", func() bool {
			return r.plane.count(func(e telemetry.Event) bool { return e.Content == fmt.Sprint("in ", i) }) == 1
		})
		if got := <-starts; got.Saved.Iteration != i-1 || i > 1 && got.Saved.PreviousPrompt != fmt.Sprint("asked ", i-1) || got.Agent != "fake" {
			t.Errorf("start %d: %+v", i, got)
		}
		r.stop()
		if err := r.gone(); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	await(t, "the ends", func() bool { return len(outcomes(r.plane.has())) == 3 })
	if got := outcomes(r.contiguous()); !slices.Equal(got, []string{"1 interrupted", "2 interrupted", "3 interrupted"}) {
		t.Errorf("outcomes %q", got)
	}
	if slices.Contains(states(r.plane.has()), "stopped") {
		t.Error("a run that is to go on is said to be stopped")
	}
}

// A journal that is ahead of the spool, because the machine has died between the two,
// says nothing that did not happen.
func TestJournalSettles(t *testing.T) {
	for _, tt := range []struct {
		name string
		j    journal
		last int64
		open bool
		n    int64
	}{
		{"nothing", journal{}, 0, false, 0},
		{"open", journal{Iteration: 3, Began: 7}, 9, true, 3},
		{"ended", journal{Iteration: 3, Began: 7, Ended: 9}, 9, false, 3},
		{"the end did not happen", journal{Iteration: 3, Began: 7, Ended: 10}, 9, true, 3},
		{"the beginning did not happen", journal{Iteration: 3, Began: 10}, 9, false, 2},
		{"the first beginning did not happen", journal{Iteration: 1, Began: 1}, 0, false, 0},
	} {
		if tt.j.settle(tt.last); tt.j.open() != tt.open || tt.j.Iteration != tt.n {
			t.Errorf("%s: %+v, want open %v, iteration %d", tt.name, tt.j, tt.open, tt.n)
		}
	}
}

// A run whose first sandbox cannot be made has failed, and says why; a later one is
// tried again.
func TestCannotBeMade(t *testing.T) {
	r := newRig(t, obey)
	r.driver.fails = func(int) error { return errors.New("no room on this machine") }
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r.start()
	if err := r.gone(); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Fatalf("the keeper ends with %v", err)
	}
	if s, _ := r.dir.Spec(); s.Desired != Stopped {
		t.Errorf("a run that failed is wanted to be %s", s.Desired)
	}
	if err := r.dir.SetDesired(Running); err != nil {
		t.Fatal(err)
	}
	r.driver.fails = func(made int) error {
		if made == 3 {
			return errors.New("the daemon is away")
		}
		return nil
	}
	r.start()
	await(t, "the iteration", func() bool { return len(r.plane.has()) > 2 })
	_ = r.driver.last().Close()
	await(t, "a fourth attempt", func() bool { return r.driver.count() == 4 })
	await(t, "the reason", func() bool {
		return r.plane.count(func(e telemetry.Event) bool {
			return e.State == telemetry.Waiting && strings.Contains(e.Reason, "the daemon is away") && e.Until > 0
		}) == 1
	})
	if err := r.client.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

// The loop that has ended by itself is not started again.
func TestDone(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) {
		if _, ok := l.until(loop.CommandStart); ok {
			l.say(begin(1), end(1), telemetry.Event{Type: telemetry.StateChange, State: telemetry.Done, Reason: "1 iteration", Summary: "done"})
		}
	})
	r.start()
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	if got := states(r.contiguous()); !slices.Equal(got, []string{"done"}) || r.driver.count() != 1 {
		t.Errorf("states %q, %d sandboxes", got, r.driver.count())
	}
	if s, _ := r.dir.Spec(); s.Desired != Stopped {
		t.Errorf("a run that is done is wanted to be %s", s.Desired)
	}
}

// Nothing waits for a control plane that is away, and nothing is lost.
func TestPlaneAway(t *testing.T) {
	const many = 700 // more than one batch
	r := newRig(t, func(l *fakeLoop) {
		if _, ok := l.until(loop.CommandStart); !ok {
			return
		}
		for i := range many {
			l.say(telemetry.Event{Type: telemetry.Text, Content: fmt.Sprint(i)})
		}
		_, _ = l.until(loop.CommandStop)
	})
	r.plane.goAway(true)
	r.start()
	await(t, "the loop to have said everything", func() bool {
		s, err := r.client.Status(t.Context())
		return err == nil && s.Seq == 1+many // the first is of the sandbox
	})
	if n := len(r.plane.has()); n != 0 {
		t.Fatalf("%d events reached a control plane that is away", n)
	}
	r.plane.goAway(false)
	await(t, "everything to arrive", func() bool { return len(r.plane.has()) == 1+many })
	r.contiguous()
}

// What the sandbox uses is known between events, too.
func TestVitals(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) {
		l.line(loop.Output{Vitals: &telemetry.Vitals{CPU: 1}})
		l.line(loop.Output{Vitals: &telemetry.Vitals{CPU: 50, Memory: 12.5}})
		_, _ = l.until(loop.CommandStop)
	})
	r.start()
	await(t, "the vitals", func() bool {
		s, err := r.client.Status(t.Context())
		return err == nil && s.Vitals != nil && *s.Vitals == telemetry.Vitals{CPU: 50, Memory: 12.5}
	})
	if n := r.plane.count(func(e telemetry.Event) bool { return e.Type != telemetry.Sandbox }); n != 0 {
		t.Errorf("vitals are %d events", n)
	}
}

// Where the kernel counts what the sandbox uses, that counts, and not what a loop says that
// the agent may have got at; but for the disk.
func TestCountedVitals(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) {
		time.Sleep(2 * countEvery)
		l.line(loop.Output{Vitals: &telemetry.Vitals{CPU: 1, Memory: 1, Disk: 7}})
		e := end(1)
		e.Vitals = &telemetry.Vitals{CPU: 1, Memory: 1, Disk: 8}
		l.say(begin(1), e)
		_, _ = l.until(loop.CommandStop)
	})
	var asked atomic.Int64
	r.driver.consumption = func() sandbox.Consumption {
		return sandbox.Consumption{CPU: time.Duration(asked.Add(1)) * time.Minute, Memory: 250e6}
	}
	r.start()
	counted := func(v *telemetry.Vitals, disk float64) bool {
		return v != nil && v.Memory == 250 && v.Disk == disk && v.CPU > 100
	}
	await(t, "the vitals", func() bool {
		s, err := r.client.Status(t.Context())
		return err == nil && counted(s.Vitals, 7)
	})
	await(t, "the end of an iteration", func() bool {
		return r.plane.count(func(e telemetry.Event) bool {
			return e.Type == telemetry.IterationEnd && counted(e.Vitals, 8)
		}) == 1
	})
}

// TestBoundsThatAreMet: what the sandbox says of its bounds is a notice, once.
func TestBoundsThatAreMet(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) {
		l.say(begin(1), telemetry.Event{Type: telemetry.ToolResult}, telemetry.Event{Type: telemetry.ToolResult}, end(1))
		_, _ = l.until(loop.CommandStop)
	})
	r.driver.exceeded = []string{"3 processes were killed"}
	r.start()
	await(t, "the end of the iteration", func() bool {
		return r.plane.count(func(e telemetry.Event) bool { return e.Type == telemetry.IterationEnd }) == 1
	})
	if n := r.plane.count(func(e telemetry.Event) bool { return e.Type == Notice && e.Summary == "3 processes were killed" }); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// A loop that was stopped from inside keeps no limits any more: its sandbox is closed,
// and made again.
func TestSilentLoop(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) { l.say(begin(1)); _, _ = l.until("never") })
	r.o.silence = time.Second
	r.start()
	await(t, "another sandbox", func() bool { return r.driver.count() > 1 })
	await(t, "the word of it", func() bool {
		return r.plane.count(func(e telemetry.Event) bool {
			return e.State == telemetry.Waiting && strings.Contains(e.Reason, "the loop has said nothing for 1s")
		}) > 0
	})
	if got := outcomes(r.plane.has()); len(got) == 0 || got[0] != "1 interrupted" {
		t.Errorf("iterations ended as %q", got)
	}
	r.contiguous()
}

// A keeper of a run that was to end while nobody kept it only says so.
func TestStoppedWhileNobodyKept(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) { l.say(begin(1)); _, _ = l.until("never") })
	r.start()
	await(t, "the iteration", func() bool { return r.plane.count(isBegin) == 1 })
	r.stop()
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	if err := r.dir.SetDesired(Stopped); err != nil {
		t.Fatal(err)
	}
	r.launch() // it may have ended before it could be asked
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	all := r.contiguous()
	if got := outcomes(all); !slices.Equal(got, []string{"1 interrupted"}) || !slices.Equal(states(all), []string{"stopped"}) || r.driver.count() != 1 {
		t.Errorf("outcomes %q, states %q, %d sandboxes", got, states(all), r.driver.count())
	}
}

// One keeper for each run.
func TestOneKeeper(t *testing.T) {
	r := newRig(t, obey)
	r.start()
	if err := Run(t.Context(), r.o); !errors.Is(err, ErrKept) {
		t.Errorf("a second keeper: %v", err)
	}
	if !r.dir.Kept() {
		t.Error("the run has no keeper")
	}
}

// Orders reach the loop, and the next one where it has to know them.
func TestSteering(t *testing.T) {
	var mu sync.Mutex
	var got []string
	var starts []loop.Start
	seen := func(what string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(got, what)
		}
	}
	r := newRig(t, func(l *fakeLoop) {
		for {
			c, ok := l.next()
			if !ok {
				return
			}
			mu.Lock()
			if c.Start != nil {
				starts = append(starts, *c.Start)
			}
			what := c.Type + " " + c.Message + c.Reason
			if c.Prompt != nil {
				what += c.Prompt.Content
			}
			got = append(got, strings.TrimSpace(what))
			mu.Unlock()
		}
	})
	r.plane.set("first")
	r.start()
	ctx := t.Context()
	r.plane.set("second")
	for _, do := range []func(context.Context) error{r.client.Pause, r.client.Resume, r.client.Step, r.client.Cancel, r.client.PromptChanged} {
		if err := do(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.client.Message(ctx, "look at the tests"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pause", "resume", "step", "cancel", "message look at the tests", "prompt second"} {
		await(t, want, seen(want))
	}
	if s, _ := r.dir.Spec(); s.Desired != Paused { // a step leaves it paused
		t.Errorf("wanted is %s", s.Desired)
	}
	if err := r.client.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	got = nil
	mu.Unlock()
	if err := r.keeper.Load().hold("it leaked"); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the iteration", seen("cancel"))
	if !seen("pause it leaked")() {
		t.Error("the loop does not know why it is paused")
	}
	if s, _ := r.dir.Spec(); s.Desired != Paused {
		t.Errorf("wanted is %s", s.Desired)
	}
	r.driver.last().loop.die(1)
	await(t, "another loop", func() bool { mu.Lock(); defer mu.Unlock(); return len(starts) == 2 })
	mu.Lock()
	defer mu.Unlock()
	if s := starts[1]; !s.Paused || s.Prompt.Content != "second" || !s.Prompt.Known || !slices.Equal(s.Saved.Messages, []string{"look at the tests"}) {
		t.Errorf("the second loop is started with %+v", s)
	}
}

// What a sandbox says is not believed: numbers and names are the keeper's, what cannot
// be read is left out.
func TestHostileLoop(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) {
		if _, ok := l.until(loop.CommandStart); !ok {
			return
		}
		_, _ = io.WriteString(l.stdout, "no json\n{}\nnull\n[]\n{\"event\":{}}\n{\"event\":{\"type\":\""+strings.Repeat("x", 100)+"\"}}\n")
		_, _ = io.WriteString(l.stdout, strings.Repeat("y", maxLine+10)+"\n")
		l.say(telemetry.Event{RunID: "another", Seq: 99, Agent: "another", Type: telemetry.ToolResult, Content: strings.Repeat("z", 50_000)})
		_, _ = io.WriteString(l.stdout, `{"event":{"type":"text","content":"half`)
	})
	r.start()
	await(t, "the event", func() bool {
		return r.plane.count(func(e telemetry.Event) bool { return e.Type == telemetry.ToolResult }) >= 1
	})
	e := r.contiguous()[1]
	if len(e.Content) > telemetry.ContentLimit(telemetry.ToolResult) || !e.Truncated || e.Bytes != 50_000 {
		t.Errorf("the event has %d bytes, truncated %v of %d", len(e.Content), e.Truncated, e.Bytes)
	}
	if n := r.plane.count(func(e telemetry.Event) bool { return e.Type == telemetry.Text }); n != 0 {
		t.Errorf("half a line became %d events", n)
	}
}

// What the sandbox lacks is an event, which the loop cannot send itself.
func TestSandboxIsAnEvent(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) {
		if _, ok := l.until(loop.CommandStart); ok {
			l.say(telemetry.Event{Type: telemetry.Sandbox}, telemetry.Event{Type: Network, Content: "allowed"}, telemetry.Event{Type: telemetry.Text, Content: "after"})
			_, _ = l.until("never")
		}
	})
	r.driver.weaker = []string{"files are not closed"}
	r.start()
	await(t, "what comes after", func() bool {
		return r.plane.count(func(e telemetry.Event) bool { return e.Content == "after" }) == 1
	})
	all := r.contiguous()
	if len(all) != 2 || all[0].Type != telemetry.Sandbox || !slices.Equal(all[0].Weaker, r.driver.weaker) || !strings.Contains(all[0].Content, "files are not closed") {
		t.Errorf("events %+v", all)
	}
}

// What a program inside can cause without end is told of so far only, and hides nothing else.
func TestProvokedNotices(t *testing.T) {
	r := newRig(t, obey)
	r.terms.openModel = func(way confine.Way) {
		for i := range 10 * maxProvoked {
			way.Notice("warning", fmt.Sprintf("Refused: /%d.", i))
		}
	}
	r.start()
	r.keeper.Load().remark("A secret was seen.")
	await(t, "what matters", func() bool {
		return r.plane.count(func(e telemetry.Event) bool { return e.Type == Notice && e.Content == "A secret was seen." }) == 1
	})
	if n := r.plane.count(func(e telemetry.Event) bool { return strings.HasPrefix(e.Content, "Refused") }); n != maxProvoked {
		t.Errorf("%d refusals were told of", n)
	}
	if n := r.plane.count(func(e telemetry.Event) bool { return strings.HasSuffix(e.Content, "not said any more.") }); n != 1 {
		t.Errorf("that more are not told of was said %d times", n)
	}
}

// What the canaries object to is not passed on either when the agent sends it itself.
func TestLeaksByTheDoor(t *testing.T) {
	r := newRig(t, obey)
	r.plane.set("do it")
	r.watch(confine.CanariesStop)
	r.start()
	known(t, r)
	inside := r.driver.last().door(t, controlDoor)
	for _, tt := range []struct {
		body, etag string
		status     int
	}{{"hello", "1", http.StatusOK}, {"the " + leakToken, "1", http.StatusForbidden}, {"hello", leakToken, http.StatusForbidden}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://control/api/mailbox/agent", strings.NewReader(`{"message":"`+tt.body+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("If-None-Match", tt.etag)
		resp, err := inside.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%+v: %s", tt, resp.Status)
		}
	}
}

// Inside, the control plane is what a sandbox may see of it; the token is added outside.
func TestDoor(t *testing.T) {
	r := newRig(t, obey)
	r.plane.set("do it")
	r.start()
	inside := r.driver.last().door(t, controlDoor)
	ask := func(method, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://control"+path, strings.NewReader(`{"message":"hello"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer forged")
		req.Header.Set("Cookie", "forged")
		resp, err := inside.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	for _, path := range []string{"GET /health", "GET /api/prompt", "GET /api/prompt?run=another", "GET /api/mailbox", "PUT /api/mailbox/agent"} {
		method, target, _ := strings.Cut(path, " ")
		if status, text := ask(method, target); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, path := range []string{
		"POST /api/telemetry/stream", "POST /api/telemetry/summary", "GET /api/telemetry/events", "POST /api/sandbox/start", "PUT /api/prompt",
		"PUT /api/mailbox/human", "GET /metrics", "GET /", "GET //api/prompt/../sandbox/status", "GET /api/sandbox/files", "DELETE /api/mailbox/agent", "GET /ws/live",
	} {
		method, target, _ := strings.Cut(path, " ")
		if status, text := ask(method, target); status != http.StatusForbidden && status != http.StatusTemporaryRedirect && status != http.StatusMovedPermanently {
			t.Errorf("%s is answered with %d %s", path, status, text)
		}
	}
	r.plane.mu.Lock()
	for _, a := range r.plane.asked {
		if !strings.Contains(a, "run=run1") || strings.Contains(a, "another") || !strings.HasSuffix(a, " Bearer "+testToken+" ") {
			t.Errorf("the control plane was asked %q", a)
		}
	}
	r.plane.mu.Unlock()
	r.plane.goAway(true)
	if status, text := ask("GET", "/api/prompt"); status != http.StatusOK || !strings.Contains(text, "do it") {
		t.Errorf("the prompt while the control plane is away: %d %s", status, text)
	}
	if status, text := ask("GET", "/api/mailbox"); status != http.StatusServiceUnavailable || !strings.Contains(text, `"error"`) {
		t.Errorf("the mailbox while the control plane is away: %d %s", status, text)
	}
}

// The agent's environment has the control plane's address inside, and no token of it.
func TestAgentEnvironment(t *testing.T) {
	starts := make(chan loop.Start, 1)
	r := newRig(t, func(l *fakeLoop) {
		if c, ok := l.until(loop.CommandStart); ok {
			starts <- *c.Start
		}
		_, _ = l.until("never")
	})
	r.start()
	got := <-starts
	if want := []string{"KEY=stand-in", "CONTROL_PLANE_URL=http://127.0.0.1:40001", "ITERATION_SLEEP=2"}; !slices.Equal(got.Run.Env, want) {
		t.Errorf("the agent's environment is %q", got.Run.Env)
	}
	l := r.driver.last().loop
	if strings.Contains(fmt.Sprint(l.command, got), testToken) || !l.command.Infrastructure {
		t.Errorf("the loop is started as %+v", l.command)
	}
}

// The socket is the user's alone, also where the home's path is too long for one.
func TestLongHome(t *testing.T) {
	r := newRig(t, obey)
	long := r.o.Home + "/" + strings.Repeat("long", 30)
	dir, err := RunDir(long, "run1")
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Write(Spec{RunID: "run1", Agent: "fake", Workspace: "/w", Desired: Running}, testToken); err != nil {
		t.Fatal(err)
	}
	if err := Announce(long, Serving{URL: r.plane.server.URL}); err != nil {
		t.Fatal(err)
	}
	r.o.Home, r.o.Dir, r.dir, r.client = long, dir, dir, NewClient(dir)
	r.start()
	path, err := dir.socket()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if err := r.client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left over: %v", err)
	}
}
