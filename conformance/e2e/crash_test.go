package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is killed, at a random moment of a turn.
var victims = []string{"gander", "agent", "supervisor"}

// A session holds every acknowledged entry, once, whatever was killed when: gander,
// the agent or the supervisor. GANDER_CRASH_RUNS says how many kills there are.
func TestCrashes(t *testing.T) {
	runs := float64(count(t, "GANDER_CRASH_RUNS", len(victims)))
	inCells(t, func(t *testing.T, w *world) { testCrashes(t, w, w.part(runs)) })
}

func testCrashes(t *testing.T, w *world, runs int) {
	cwd := w.mkdir("project")
	e := w.gander(nil)
	e.initialize()
	s, all := e.session(cwd), &thread{}
	for i := range runs {
		all.finish(s.round(w, i))
		victim := victims[i%len(victims)]
		busy := s.work(w, i)
		e.dies = true
		time.Sleep(rand.N(time.Second)) // the moment is the point of this test, and nothing waits for it
		if victim == "gander" {
			e.do("kill", map[string]any{"signal": "SIGKILL"})
			e.exit()
			all.cut(busy)
		} else {
			w.strike(e, victim)
			busy.end()
			all.finish(busy)
			on := s.prompt(fmt.Sprintf("and on, %d. ", i) + script(t, says("still here.")))
			on.done("end_turn")
			all.finish(on)
			e.end()
		}
		e = w.gander(nil)
		e.initialize()
		var replayed []string
		s, replayed = e.load(s.id, cwd)
		all.check(t, fmt.Sprintf("after the %s was killed in round %d", victim, i), replayed)
	}
}

// round is a whole turn.
func (s *session) round(w *world, i int) *pending {
	p := s.prompt(fmt.Sprintf("question-%d. ", i) + script(w.t, w.shell(fmt.Sprintf("echo output-%d.", i)), says(fmt.Sprintf("answer-%d.", i))))
	p.done("end_turn")
	return p
}

// work begins a turn of two seconds in which much is written.
func (s *session) work(w *world, i int) *pending {
	return s.prompt(fmt.Sprintf("crash-%d. ", i) + script(w.t, w.shell("for i in $(seq 100); do echo line; sleep 0.02; done"), says("never mind")))
}

// A thread is what a client has seen of a session.
type thread struct{ turns []seen }

// seen is a turn: its prompt and what came of it, as editor.replayed has it.
type seen struct {
	prompt       string
	updates      []string
	acknowledged bool // the prompt was answered
	maybe        bool // not even an update was seen
}

// finish notes a turn that was answered: all of it is promised.
func (h *thread) finish(p *pending) {
	h.note(p, func(*seen) {})
}

// cut notes a turn that was not: of it the prompt is promised, once anything came of it.
func (h *thread) cut(p *pending) {
	h.note(p, func(s *seen) { s.acknowledged, s.maybe = false, len(s.updates) == 0 })
}

func (h *thread) note(p *pending, change func(*seen)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn := seen{prompt: strings.Join(strings.Fields(p.text), ""), acknowledged: true}
	for _, u := range p.turn.updates {
		turn.updates = append(turn.updates, strings.TrimSpace(u.SessionUpdate+" "+u.Title+u.text()))
	}
	turn.updates = conversation(turn.updates)
	change(&turn)
	h.turns = append(h.turns, turn)
}

// conversation is what matters of updates, without white space. The pieces of a message
// are one: how many there are depends on how fast the client reads.
func conversation(updates []string) (out []string) {
	last := ""
	for _, u := range updates {
		kind, text, _ := strings.Cut(u, " ")
		text = strings.Join(strings.Fields(text), "")
		switch {
		case kind == "agent_message_chunk" && kind == last:
			out[len(out)-1] += text
		case slices.Contains([]string{"user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"}, kind):
			out = append(out, kind+" "+text)
		}
		last = kind
	}
	return out
}

// check compares what was replayed with what was seen: what is promised is there,
// as it was, in its order and once.
func (h *thread) check(t *testing.T, when string, replayed []string) {
	t.Helper()
	var got []seen
	for _, update := range conversation(replayed) {
		if prompt, ok := strings.CutPrefix(update, "user_message_chunk "); ok {
			got = append(got, seen{prompt: prompt})
		} else if n := len(got); n > 0 {
			got[n-1].updates = append(got[n-1].updates, update)
		} else {
			t.Errorf("%s, before the first prompt there is %q", when, update)
		}
	}
	for _, want := range h.turns {
		if len(got) == 0 || got[0].prompt != want.prompt {
			if !want.maybe {
				t.Fatalf("%s the thread has not, where it should be, %q, but %+v; replayed is %q", when, want.prompt, got, replayed)
			}
			continue
		}
		if want.acknowledged && !slices.Equal(got[0].updates, want.updates) {
			t.Fatalf("%s the turn %q is %q, and was %q", when, want.prompt, got[0].updates, want.updates)
		}
		got = got[1:]
	}
	if len(got) > 0 {
		t.Fatalf("%s the thread has more than there was: %+v", when, got)
	}
}

// strike kills a process of the session.
func (w *world) strike(e *editor, victim string) {
	w.t.Helper()
	mine := map[string]func(p proc) bool{
		"agent": func(p proc) bool {
			return strings.HasSuffix(p.args, " acp") && strings.Contains(p.program, w.cell.agent.name)
		},
		"supervisor": func(p proc) bool {
			return strings.HasSuffix(p.args, "gander supervise")
		},
	}[victim]
	eventually(w.t, "the "+victim+" to run", func() bool {
		for _, p := range w.below(e) {
			if mine(p) {
				p.kill(w.t)
				return true
			}
		}
		return false
	})
}
