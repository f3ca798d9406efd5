package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Two ganders have one home and work at the same time: they answer in sessions of their
// own, and list, rename and fork each other's. Nothing is lost, mixed up or there twice.
func TestTwoGandersOneHome(t *testing.T) {
	gooseLocal.run(t, func(t *testing.T, w *world) {
		const rounds, each = 4, 3
		cwd := w.mkdir("project")
		ganders := []*editor{w.gander(nil), w.gander(nil)}
		type kept struct {
			id, title string
			all       *thread
		}
		var open []*session
		var own, forks []*kept
		for i := range each * len(ganders) {
			e := ganders[i%2]
			if i < 2 {
				e.initialize()
			}
			open = append(open, e.session(cwd))
			own = append(own, &kept{id: open[i].id, all: &thread{}})
		}
		err := ganders[1].request("session/load", map[string]any{"sessionId": open[0].id, "cwd": cwd, "mcpServers": []any{}}, nil)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(ganders[0].pid())) {
			t.Errorf("what one has open the other loads: %v; want an error that names the process", err)
		}
		for round := range rounds {
			var turns []*pending
			for i, s := range open {
				turns = append(turns, s.prompt(fmt.Sprintf("question-%d-%d. ", i, round)+script(t, w.shell(fmt.Sprintf("seq 200; echo output-%d-%d.", i, round)), says(fmt.Sprintf("answer-%d-%d.", i, round)))))
			}
			for i, k := range own {
				other := ganders[1-i%2]
				k.title = fmt.Sprintf("Title %d of %d", round, i)
				if err := other.request("session/set_title", map[string]any{"sessionId": k.id, "title": k.title}, nil); err != nil {
					t.Fatal(err)
				}
				if n := len(other.list(map[string]any{"cwd": cwd})); n < len(own) {
					t.Fatalf("%d sessions are listed, of %d at least", n, len(own))
				}
			}
			for i, p := range turns {
				p.done("end_turn")
				own[i].all.finish(p)
				if i%len(ganders) != round%len(ganders) {
					continue
				}
				var fork newSession
				if err := ganders[1-i%2].request("session/fork", map[string]any{"sessionId": own[i].id, "cwd": cwd, "mcpServers": []any{}}, &fork); err != nil {
					t.Fatal(err)
				}
				forks = append(forks, &kept{id: fork.SessionID, all: &thread{turns: own[i].all.turns}})
			}
		}
		for _, e := range ganders {
			e.end()
		}

		e := w.gander(nil)
		e.initialize()
		titles := map[string]string{}
		for _, l := range e.list(map[string]any{"cwd": cwd}) {
			titles[l.SessionID] = l.Title
		}
		if len(titles) != len(own)+len(forks) {
			t.Errorf("%d sessions are listed, want %d", len(titles), len(own)+len(forks))
		}
		for _, k := range append(own, forks...) {
			_, thread := e.load(k.id, cwd)
			k.all.check(t, "in "+k.id, thread)
			if k.title != "" && titles[k.id] != k.title {
				t.Errorf("session %s is called %q, want %q", k.id, titles[k.id], k.title)
			}
		}
	})
}
