package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// loopWorld is a world for runs of any cell.
func loopWorld(t *testing.T) *world {
	t.Helper()
	for _, d := range drivers {
		d.need(t)
	}
	return newWorld(t, cell{agents[0], drivers[1]}, 0) // whose containers are looked for in the end
}

func completed(e told) bool { return e.Type == "iteration_end" && e.Status == "ok" }

// lookScript asks the control plane from inside, with what every image has, and prints
// the status and the words of each answer.
const lookScript = `
at=${CONTROL_PLANE_URL#http://}
ask() {
  exec 3<>/dev/tcp/${at%:*}/${at#*:}
  printf '%s %s HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}' "$2" "$3" >&3
  answer=$(cat <&3 | tr -d '\r')
  echo "$1: $(echo "$answer" | head -n 1) $(echo "$answer" | tail -n 1 | head -c 200)"
}
ask telemetry POST /api/telemetry/stream
ask prompt GET /api/prompt
ask stop POST /api/sandbox/stop
ask health GET /health
env > seen.env
echo made > made.txt
`

// Two runs side by side: iterations with tools, another prompt, what the sandbox may do
// with the control plane, and nothing left after a stop.
func TestLoops(t *testing.T) {
	for pair := range slices.Chunk(spots(t), 2) {
		t.Run(pair[0].String()+" and "+pair[1].String(), func(t *testing.T) {
			w := loopWorld(t)
			p := w.serve(t)
			var runs []*run
			for _, s := range pair {
				c := s.cell
				workspace := w.mkdir("work-" + c.agent.name)
				w.write(workspace, "look.sh", lookScript)
				runs = append(runs, p.loop(c, script(t, c.runs("bash look.sh"), says("the first work is done.")), map[string]any{"workspace": workspace}))
			}
			for _, r := range runs {
				r.await("a tool call", 0, func(e told) bool { return e.Type == "tool_use" })
				result := r.await("its result", 0, func(e told) bool { return e.Type == "tool_result" }).Content
				for _, want := range []string{
					`telemetry: HTTP/1.0 403 Forbidden {"error":"telemetry is sent by the loop`, `prompt: HTTP/1.0 200 OK {"content":"please`,
					`stop: HTTP/1.0 403 Forbidden {"error":"only`, `health: HTTP/1.0 200 OK {"status":"ok"}`,
				} {
					if !strings.Contains(result, want) {
						t.Errorf("%v: %q is missing in what was seen inside: %s", r.c, want, result)
					}
				}
				r.await("the text", 0, func(e told) bool { return e.Type == "text" && strings.Contains(e.Content, "the first work is done.") })
				first := r.await("an iteration", 0, completed)
				r.await("another iteration", first.Seq, completed)
				workspace := w.mkdir("work-" + r.c.agent.name)
				if got := w.read(filepath.Join(workspace, "made.txt")); got != "made\n" {
					t.Errorf("%v: the workspace has %q", r.c, got)
				}
				seen := w.read(filepath.Join(workspace, "seen.env"))
				token := w.read(filepath.Join(w.ganderHome(), "loop", "runs", r.id, "token"))
				if strings.Contains(seen, canary) || strings.Contains(seen, token) || strings.Contains(seen, p.token) || !strings.Contains(seen, "CONTROL_PLANE_URL=http://127.0.0.1:") || !strings.Contains(seen, "ITERATION_SLEEP=1\n") {
					t.Errorf("%v: inside, the environment is %s", r.c, seen)
				}
			}
			for _, r := range runs {
				p.ask("PUT", "/api/prompt?run="+r.id, map[string]string{"content": script(t, says("the second work is done."))}, nil, 200)
			}
			for _, r := range runs {
				r.await("the answer to the other prompt", 0, func(e told) bool { return strings.Contains(e.Content, "the second work is done.") })
				inside, keeper := r.inside(), r.keeper()
				r.order("stop")
				gone(t, patience, stillAlive(append(inside, keeper)))
				if r.c.driver.containers != nil && len(r.containers()) > 0 {
					t.Errorf("%v: a container is left", r.c)
				}
				r.await("the end", 0, func(e told) bool { return e.State == "stopped" })
				r.checkWhole()
			}
			secretsNowhere(t, p)
		})
	}
}

// secretsNowhere looks for the model's key in what runs leave on the disk.
func secretsNowhere(t *testing.T, p *plane) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(p.w.ganderHome(), "loop"), func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), canary) {
			t.Errorf("the model's key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever is killed in an iteration, the run goes on by itself, and no event is lost
// or there twice.
func TestLoopKilled(t *testing.T) {
	for _, s := range spots(t) {
		c := s.cell
		t.Run(c.String(), func(t *testing.T) {
			w := loopWorld(t)
			p := w.serve(t)
			work := w.mkdir("work")
			in, goOn := filepath.Join(work, "in"), filepath.Join(work, "go")
			r := p.loop(c, script(t, c.runs("while [ ! -e go ]; do touch in; sleep 0.1; done"), says("done with it.")), map[string]any{"workspace": work})
			kills := map[string]func(){
				"the control plane": func() { p.kill(); p.start() },
				"the loop":          func() { r.strike("loop run --supervised") },
				"the keeper": func() {
					inside, keeper := r.inside(), r.keeper()
					keeper.kill(t)
					gone(t, patience, stillAlive(inside))
				},
				"the supervisor": func() { r.strike("gander supervise", "launcher", "shepherd") },
			}
			order := []string{"the control plane", "the loop", "the keeper", "the supervisor"}
			if c.driver.containers != nil {
				order[3] = "the container"
				kills["the container"] = func() { docker(t, append([]string{"kill"}, r.containers()...)...) }
			}
			for _, victim := range order {
				_, _ = os.Remove(goOn), os.Remove(in) // the next iteration waits for us
				eventually(t, "an iteration to be in its command", func() bool { return exists(in) })
				begun := r.open()
				keeper := r.keeper()
				kills[victim]()
				if victim != "the keeper" && !keeper.alive() {
					t.Errorf("the keeper has ended with %s", victim)
				}
				w.write(work, "go", "")
				want := "interrupted"
				if victim == "the control plane" {
					want = "ok"
				}
				end := r.await("the end of the iteration", begun.Seq, func(e told) bool { return e.Type == "iteration_end" })
				if end.Iteration != begun.Iteration || end.Status != want {
					t.Errorf("with %s iteration %d ends as %+v", victim, begun.Iteration, end)
				}
				next := r.await("another iteration", end.Seq, func(e told) bool { return e.Type == "iteration_start" })
				r.await("what it says", next.Seq, func(e told) bool { return e.Type == "text" })
				r.await("its end", next.Seq, completed)
			}
			r.order("stop")
			r.await("the end", 0, func(e told) bool { return e.State == "stopped" })
			gone(t, patience, p.keepers)
			r.checkWhole()
		})
	}
}

// A control plane that ends says what goes on, and the next one takes it up; there is
// one for each home.
func TestServeEnds(t *testing.T) {
	w := loopWorld(t)
	p := w.serve(t)
	r := p.loop(home, script(t, says("still here.")), nil)
	if _, code := w.run(t, p.env, needGander(t), "serve", "--listen", "127.0.0.1:0"); code != 1 {
		t.Errorf("a second control plane ends with %d", code)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if said := p.said.String(); !strings.Contains(said, "gander sandbox stop loop-"+r.id) {
		t.Errorf("it is not said what goes on: %s", said)
	}
	keeper := r.keeper()
	p.start()
	r.await("an iteration", r.last(), completed)
	if !keeper.alive() {
		t.Error("the run has another keeper")
	}
	if _, code := w.run(t, p.env, needGander(t), "sandbox", "stop", "loop-"+r.id); code != 0 {
		t.Errorf("gander sandbox stop ends with %d", code)
	}
	r.await("the end", 0, func(e told) bool { return e.State == "stopped" })
	gone(t, patience, p.keepers)
}

// A model that answers 500 is waited for, with few calls, and when it answers again the
// run goes on by itself. GANDER_MODEL_DOWN_SECONDS is for how long it is down after it was
// missed.
func TestLoopModelDown(t *testing.T) {
	const most = 40 // calls in a minute
	for _, s := range spots(t) {
		c := s.cell
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c, 0)
			m := brokenModel(t, w)
			p := w.serve(t)
			began := time.Now()
			r := p.loop(c, script(t, says("still the same.")), nil)
			down := r.await("that the model is missed", 0, func(e told) bool { return e.State == "llm_unavailable" })
			r.await("the iteration's outcome", 0, func(e told) bool { return e.Type == "iteration_end" && e.Status == "llm_unavailable" })
			time.Sleep(time.Duration(count(t, "GANDER_MODEL_DOWN_SECONDS", 1)) * time.Second)
			r.await("another attempt", down.Seq, func(e told) bool { return e.Type == "iteration_end" })
			for _, e := range r.events() {
				if e.Type == "iteration_end" && e.Status != "llm_unavailable" {
					t.Errorf("while the model is down, an iteration ends as %+v", e)
				}
			}
			m.down.Store(false)
			mended := time.Now()
			for !completed(r.newest("iteration_end")) {
				if time.Since(mended) > patience+2*time.Minute { // which is the longest pause
					t.Fatalf("the run has not gone on by itself; it is %+v", r.newest("state"))
				}
				pause()
			}
			calls, worst := m.rate()
			t.Logf("%d calls were refused in %v, at most %d in a minute; the run went on %v after the model", calls, mended.Sub(began).Round(time.Second), worst, time.Since(mended).Round(time.Second))
			if worst > most || calls == 0 {
				t.Errorf("the model was asked %d times, up to %d times in a minute", calls, worst)
			}
			r.order("stop")
			r.await("the end", 0, func(e told) bool { return e.State == "stopped" })
			r.checkWhole()
		})
	}
}

// A refuser is a model that is down.
type refuser struct {
	down atomic.Bool

	mu    sync.Mutex // guards calls, when they came
	calls []time.Time
}

// brokenModel puts one in front of a world's model.
func brokenModel(t *testing.T, w *world) *refuser {
	m := new(refuser)
	m.down.Store(true)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if !m.down.Load() || req.Method != http.MethodPost {
			w.model.ServeHTTP(rw, req)
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls = append(m.calls, time.Now())
		http.Error(rw, `{"error":{"message":"out of order"}}`, http.StatusInternalServerError)
	}))
	t.Cleanup(s.Close)
	w.host = s.URL
	return m
}

// rate is how many calls were refused, and how many at most in a minute.
func (m *refuser) rate() (calls, worst int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, from := range m.calls {
		n := 0
		for _, at := range m.calls[i:] {
			if at.Sub(from) < time.Minute {
				n++
			}
		}
		worst = max(worst, n)
	}
	return len(m.calls), worst
}
