package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clerk is an agent that costs nothing: a shell that does what stands behind the last "do: " of
// a task. Its entry in config.json is clerkConfig.
var clerk = &agent{name: "clerk"}

const clerkConfig = `{"agents": {"clerk": {"oneShot": true, "model": "gpt-4o", "command": ["/bin/sh", "-c", "sed -n 's/.*do: //p' | tail -n 1 | sh"]}}}`

// A run that is killed with gander at any of its steps loses nothing that the editor was
// told. Its trace says that it was interrupted, and the next prompt goes on with its threads.
// check kills at some moments, soak at all.
func TestOrchestratorKilled(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", clerkConfig)
		steps := []step{
			{"tool": "write_workspace_file", "args": map[string]any{"path": "run/plan.md", "content": "Fix, look, fix."}},
			task(clerk, "fix", "", "do: echo fixed >> calc.txt; echo It is fixed."),
			{"tools": []step{task(clerk, "look", "read", "do: cat calc.txt"), task(clerk, "see", "read", "do: wc -l < calc.txt")}},
			task(clerk, "fix", "", "do: echo last >> calc.txt; echo It is added."),
			{"tool": "install_skill", "args": map[string]any{"skillName": "tidy", "targetAgentId": "clerk", "description": "Sorts.", "content": "Sort."}},
			{"text": "All of it is done, and looked at."},
		}
		hang := map[string]any{"hang": "forever"}
		moments := []moment{{at: 4}} // the person is asked
		for at := range steps {
			moments = append(moments, moment{at, hang})
		}
		for _, at := range []int{1, 2, 3} { // an agent works
			moments = append(moments, moment{at: at})
		}
		moments = append(moments, moment{5, map[string]any{"hang": "forever", "after": 3}})
		for i, m := range moments {
			if everywhere || i%4 == 0 {
				t.Run(fmt.Sprintf("step %d, %v", m.at, m.model), func(t *testing.T) { m.kill(t, w.in(t), w.mkdir(fmt.Sprint("project-", i)), slices.Clone(steps)) })
			}
		}
	})
}

// A moment is one of a run: its planner's model does not answer at a step, or, where model is
// nil, what the step begins goes on.
type moment struct {
	at    int
	model map[string]any
}

// kill kills gander at the moment, and looks at what the next one has of the run.
func (m moment) kill(t *testing.T, w *world, project string, steps []step) {
	steps[m.at] = maps.Clone(steps[m.at])
	maps.Copy(steps[m.at], m.model)
	asks := m.at == 4 && m.model == nil
	if m.model == nil && !asks {
		steps[m.at] = task(clerk, "fix", "", "do: touch begun; sleep 600")
	}
	start := func() *editor {
		e := w.gander(map[string]string{"ORCHESTRATOR_MODEL": "gpt-4o"}, "--agent", "orchestrator")
		e.initialize()
		return e
	}
	e := start()
	e.dies = true
	s := e.session(project)
	p := s.prompt(plan(t, steps...))
	if m.at > 4 || asks {
		if ask := e.permission(1); !asks {
			e.choose(ask, "reject_once")
		}
	}
	switch {
	case m.model != nil:
		if err := w.model.WaitHanging(soon(t), 1); err != nil {
			t.Fatal(err)
		}
	case !asks:
		eventually(t, "the task", func() bool { return exists(filepath.Join(project, "begun")) })
	}
	e.do("kill", map[string]any{"signal": "SIGKILL"})
	e.exit()

	e = start()
	s, replayed := e.load(s.id, project)
	for _, u := range p.turn.updates {
		said := strings.TrimSpace(u.SessionUpdate + " " + u.Title + u.text())
		if (u.final() || slices.Contains([]string{"tool_call", "plan"}, u.SessionUpdate)) && !slices.Contains(replayed, said) {
			t.Errorf("lost is %q; there is %q", said, replayed)
		}
	}
	turn := s.prompt(plan(t, task(clerk, "fix", "", "do: echo It went on."), says("All is well."))).done("end_turn")
	if !strings.Contains(everything(turn), "It went on.") {
		t.Errorf("the task that goes on was not done: %s", everything(turn))
	}
	e.end()
	runs := w.runsOf(t, s.id)
	if len(runs) != 2 || runs[0].Status != "interrupted" || runs[1].Status != "ok" {
		t.Fatalf("the traces are %+v", runs)
	}
	for _, before := range runs[0].Orchestration.Threads {
		if was := runs[1].Orchestration.Threads[0]; before.TaskKey == "fix" && before.SessionID != was.SessionID {
			t.Errorf("the task goes on in session %s, and was in %s", was.SessionID, before.SessionID)
		}
	}
	want := []int{0, 0, 1, 3, 3, 3}[m.at] // threads, before the step
	if m.at == 1 && m.model == nil {
		want = 1
	}
	if n := len(runs[0].Orchestration.Threads); n != want {
		t.Errorf("the trace of the run has %d threads, want %d", n, want)
	}
}

type tracedRun struct {
	Status        string
	Session       struct{ SessionID string }
	Orchestration planned
}

// runsOf reads the traces of a session, the oldest first.
func (w *world) runsOf(t *testing.T, session string) (all []tracedRun) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(w.ganderHome(), "runs", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		var run tracedRun
		if err := json.Unmarshal([]byte(w.read(name)), &run); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if run.Session.SessionID == session {
			all = append(all, run)
		}
	}
	return all
}
