package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The promise: the answer is `cancelled`, within this time, and nothing that the
// turn started is left when it comes.
const cancelBudget = 3 * time.Second

// What commands do to survive. Each prints "ready" when it has done it. Every
// process inherits the mark in its environment.
var escapes = []struct{ name, command string }{
	{"forks", `sleep 600 & sleep 600 & echo ready; wait`},
	{"daemonizes", `setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ready; sleep 600`},
	{"ignores TERM", `trap '' TERM INT HUP; echo ready; while :; do sleep 1; done`},
	{"forks twice", `( ( setsid bash -c 'trap "" TERM HUP; sleep 600' </dev/null >/dev/null 2>&1 & ) & ); echo ready; sleep 600`},
	{"nohup", `nohup sleep 600 </dev/null >/dev/null 2>&1 & echo ready; wait`},
	{"many", `for i in $(seq 40); do sleep 600 & done; echo ready; wait`},
	{"keeps forking", `setsid bash -c 'while :; do (setsid sleep 600 &) ; sleep 0.01; done' </dev/null >/dev/null 2>&1 & echo ready; sleep 600`},
	{"floods", `yes ready`},
}

// A mark is unique among everything that runs on this machine.
func mark(t *testing.T, n int) string {
	return fmt.Sprintf("%s%d_%d", marks(t), time.Now().UnixNano(), n)
}

// marks returns how all marks of a test begin.
func marks(t *testing.T) string {
	return fmt.Sprintf("gander_e2e_mark_%d_%s_", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "_"))
}

func (w *world) markedCommand(mark, command string) step {
	return w.shell("export GANDER_E2E_MARK=" + mark + "; " + command)
}

// cancels returns the number of cancels of one kind in one cell, of the CANCEL_RUNS in total.
func (w *world) cancels(t *testing.T, share float64) int {
	return w.part(share * float64(count(t, "GANDER_CANCEL_RUNS", 20)))
}

// The shares of the kinds; they add up to 1.
const (
	shellShare      = 0.70
	modelShare      = 0.06
	permissionShare = 0.10
	killShare       = 0.07
	eofShare        = 0.07
)

// The shares of the kinds are all of the runs.
func TestSharesAddUp(t *testing.T) {
	if sum := shellShare + modelShare + permissionShare + killShare + eofShare; sum < 0.999 || sum > 1.001 {
		t.Errorf("the shares add up to %v", sum)
	}
}

// hanging is the shape in which goose is known to answer only when its model does.
const hanging = "hanging model"

// perEditor is how many turns one gander serves before the test takes a new one.
const perEditor = 50

func TestCancelShell(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		took := durations{}
		repeat(t, w, w.cancels(t, shellShare), func(s *session, n int) {
			escape := escapes[n%len(escapes)]
			m := mark(t, n)
			p := s.prompt(script(t, w.markedCommand(m, escape.command), says("not reached")))
			p.until("the command to have escaped: "+escape.name, func(u update) bool { return strings.Contains(u.text(), "ready") })
			// A process has no environment for the moment of its exec, hence the patience.
			eventually(t, "the mark to be seen: "+escape.name, func() bool { return len(marked(t, m)) > 0 })
			s.cancel()
			took.add(cancelled(t, escape.name, p, m))
		})
		took.log(t)
	})
}

func TestCancelWhileTheModelHangs(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		took := durations{}
		repeat(t, w, w.cancels(t, modelShare), func(s *session, n int) {
			// A tool first, so that there is something to leave behind.
			m := mark(t, n)
			background := w.markedCommand(m, "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ready")
			p := s.prompt(script(t, background, step{"hang": "forever"}))
			if err := w.model.WaitHanging(soon(t), 1); err != nil {
				t.Fatal(err)
			}
			s.cancel()
			took.add(cancelled(t, hanging, p, m))
			if err := w.model.WaitIdle(soon(t)); err != nil {
				t.Errorf("the model's connection is still open after a cancel: %v", err)
			}
		})
		took.log(t)
	})
}

func TestCancelWhileAPermissionWaits(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		took := durations{}
		asked := map[*editor]int{}
		repeat(t, w, w.cancels(t, permissionShare), func(s *session, n int) {
			if asked[s.editor] == 0 {
				if err := s.setMode(w.cell.asks); err != nil {
					t.Fatal(err)
				}
			}
			m := mark(t, n)
			p := s.prompt(script(t, w.markedCommand(m, "echo ready; sleep 600"), says("not reached")))
			asked[s.editor]++
			s.permission(asked[s.editor])
			s.cancel() // and, like some clients, no answer to the request
			took.add(cancelled(t, "waiting permission", p, m))
		})
		took.log(t)
	})
}

// cancelled checks the end of a cancelled turn and returns how long it took.
func cancelled(t *testing.T, name string, p *pending, mark string) time.Duration {
	t.Helper()
	turn := p.done("cancelled")
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%s: after the answer there is still %v", name, left)
	}
	took := turn.ended - turn.cancelled
	switch {
	case took > cancelBudget:
		t.Errorf("%s: cancelled after %v", name, took)
	case took > time.Second && name != hanging:
		t.Logf("%s: cancelled only after %v", name, took)
	}
	return took
}

// Whichever way gander ends, what it started ends.
func TestEndOfGander(t *testing.T) {
	ends := []struct {
		name  string
		share float64
		end   func(e *editor)
	}{
		{"SIGKILL", killShare, func(e *editor) { e.do("kill", map[string]any{"signal": "SIGKILL"}) }},
		{"closed stdin", eofShare, func(e *editor) { e.do("closeStdin", nil) }},
		{"SIGTERM", 0, func(e *editor) { e.do("kill", map[string]any{"signal": "SIGTERM"}) }},
		{"SIGINT", 0, func(e *editor) { e.do("kill", map[string]any{"signal": "SIGINT"}) }},
		{"SIGHUP", 0, func(e *editor) { e.do("kill", map[string]any{"signal": "SIGHUP"}) }},
	}
	inCells(t, func(t *testing.T, w *world) {
		for _, tt := range ends {
			if w.cell != home && (tt.name == "SIGINT" || tt.name == "SIGHUP") {
				continue // to gander they are SIGTERM, wherever the agent is
			}
			t.Run(tt.name, func(t *testing.T) {
				took := durations{}
				for n := range w.cancels(t, tt.share) {
					took.add(endOnce(t, w, n, tt.end))
				}
				took.log(t)
			})
		}
	})
}

// endOnce ends a gander in the middle of a command and returns how long its
// processes lived on. No one waits for an answer here, so there is no budget.
func endOnce(t *testing.T, w *world, n int, end func(*editor)) time.Duration {
	t.Helper()
	w = w.in(t)
	e := w.gander(nil)
	e.dies = true
	e.initialize()
	s := e.session(w.mkdir("project"))
	m := mark(t, n)
	p := s.prompt(script(t, w.markedCommand(m, escapes[n%len(escapes)].command)))
	p.until("the command to have escaped", func(u update) bool { return strings.Contains(u.text(), "ready") })
	below := w.below(e)
	if len(below) < 3 {
		t.Fatalf("below gander run only %v: the test proves nothing", below)
	}
	eventually(t, "the mark to be seen", func() bool { return len(marked(t, m)) > 0 })
	end(e)
	took := gone(t, patience, func() []proc { return append(stillAlive(below)(), marked(t, m)...) })
	e.exit()
	w.noContainers()
	return took
}

// A cancel while nothing runs does nothing, and does not poison the next prompt.
func TestCancelWhileIdle(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		s.cancel()
		s.prompt(script(t, says("one"))).done("end_turn")
		s.cancel()
		s.cancel()
		s.prompt(script(t, says("two"))).done("end_turn")
	})
}

// $/cancel_request for a prompt ends the turn too: it is what the SDK sends when
// its caller gives up.
func TestCancelRequest(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		m := mark(t, 0)
		p := s.prompt(script(t, w.markedCommand(m, escapes[0].command)))
		p.until("the command to run", func(u update) bool { return strings.Contains(u.text(), "ready") })
		e.do("abort", map[string]any{"n": p.n})
		turn := p.end()
		if turn.answer.StopReason != "cancelled" && !strings.Contains(string(turn.err), "-32800") {
			t.Errorf("the prompt ends with %q %s", turn.answer.StopReason, turn.err)
		}
		if left := marked(t, m); len(left) > 0 {
			t.Errorf("after the answer there is still %v", left)
		}
		s.prompt(script(t, says("on"))).done("end_turn")
	})
}

// An editor that has stopped reading can still cancel.
func TestCancelWhileTheEditorDoesNotRead(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		m := mark(t, 0)
		p := s.prompt(script(t, step{"tokens": 20000}, w.markedCommand(m, "sleep 600")))
		p.until("the first words", func(u update) bool { return u.SessionUpdate == "agent_message_chunk" })
		e.do("stopReading", nil)
		q := s.prompt(script(t, says("waits")))
		s.cancel()
		if err := w.model.WaitIdle(soon(t)); err != nil {
			t.Errorf("the turn goes on: %v", err)
		}
		e.do("resumeReading", nil)
		cancelled(t, "editor that does not read", p, m)
		q.done("cancelled")
	})
}

// repeat runs f with a session, a new gander every perEditor turns.
func repeat(t *testing.T, w *world, times int, f func(s *session, n int)) {
	t.Helper()
	var s *session
	for n := range times {
		if n%perEditor == 0 {
			if s != nil {
				s.end()
			}
			e := w.gander(nil)
			e.initialize()
			s = e.session(w.mkdir("project"))
		}
		f(s, n)
		if n%perEditor == perEditor-1 || n == times-1 {
			// Once more, for what was in the middle of an exec when it was looked for.
			if left := marked(t, marks(t)); len(left) > 0 {
				t.Errorf("after %d turns there is still %v", n+1, left)
			}
		}
	}
}

// durations are what a log line tells about many runs.
type durations []time.Duration

func (d *durations) add(x time.Duration) { *d = append(*d, x) }

func (d durations) log(t *testing.T) {
	slices.Sort(d)
	t.Logf("%d times: median %v, worst %v", len(d), d[len(d)/2].Round(100*time.Microsecond), d[len(d)-1].Round(100*time.Microsecond))
}
