package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// What is killed, at a random moment of a turn.
var victims = []string{"gander", "agent", "supervisor"}

// A session holds every acknowledged entry, once, whatever was killed when: gander,
// the agent or the supervisor. GANDER_CRASH_RUNS says how many kills there are.
func TestCrashes(t *testing.T) {
	runs := count(t, "GANDER_CRASH_RUNS", 12)
	for i, c := range localCells() {
		share := runs - runs/3 // goose starts sooner
		if i > 0 {
			share = runs / 3
		}
		c.run(t, 0, func(t *testing.T, w *world) { testCrashes(t, w, share) })
	}
}

func testCrashes(t *testing.T, w *world, runs int) {
	cwd := w.mkdir("project")
	e, s := w.gander(nil), (*session)(nil)
	e.initialize()
	s = e.session(cwd)
	for i := range runs {
		said := fmt.Sprintf("answer-%d.", i)
		s.prompt(fmt.Sprintf("question-%d. ", i) + script(t, w.shell(fmt.Sprintf("echo output-%d.", i)), says(said))).done("end_turn")
		victim := victims[i%len(victims)]
		busy := s.prompt(fmt.Sprintf("crash-%d. ", i) + script(t, w.shell("for i in $(seq 100); do echo line; sleep 0.02; done"), says("never mind")))
		e.dies = true
		time.Sleep(rand.N(time.Second)) // the moment is the point of this test, and nothing waits for it
		if victim == "gander" {
			e.do("kill", map[string]any{"signal": "SIGKILL"})
			e.exit()
		} else {
			w.strike(e, victim)
			busy.end()
			s.prompt("and on. " + script(t, says("still here."))).done("end_turn")
			e.end()
		}
		e = w.gander(nil)
		e.initialize()
		var thread []string
		s, thread = e.load(s.id, cwd)
		text := strings.Join(thread, "\n")
		for k := range i + 1 {
			for _, entry := range []string{fmt.Sprintf("question-%d. ", k), fmt.Sprintf("agent_message_chunk answer-%d.", k), fmt.Sprintf("crash-%d. ", k)} {
				if n := strings.Count(text, "\nuser_message_chunk "+entry) + strings.Count(text, entry); n == 0 {
					t.Fatalf("after the %s was killed in round %d the thread has lost %q:\n%s", victim, i, entry, text)
				}
			}
		}
		for _, update := range thread {
			if strings.Count(text, update) > 1 && (strings.HasPrefix(update, "user_message_chunk question-") || strings.HasPrefix(update, "agent_message_chunk answer-")) {
				t.Fatalf("after the %s was killed in round %d this is there twice: %q", victim, i, update)
			}
		}
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
			return strings.Contains(p.args, "gander supervise") && !strings.Contains(p.args, "launcher")
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
