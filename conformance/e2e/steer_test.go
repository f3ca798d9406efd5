package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A run is steered from a terminal: pause, say, step, cancel, resume, stop. While it is
// paused no iteration begins that nobody asked for. What its sandbox uses is told in an
// iteration, too.
func TestLoopSteered(t *testing.T) {
	w := newWorld(t, home, 0)
	p := w.serve(t)
	work := w.mkdir("work")
	in, goOn := filepath.Join(work, "in"), filepath.Join(work, "go")
	// Until somebody lets it go on, the command holds 300 MB.
	command := "(head -c 300000000 /dev/zero; while [ ! -e go ]; do touch in; sleep 0.1; done) | tail -n 1 | wc -c"
	r := p.loop(home, script(t, home.runs(command), says("done with it.")), map[string]any{"workspace": work})
	loop := func(verb string, more ...string) {
		t.Helper()
		if out, code := w.run(t, p.env, append([]string{needGander(t), "loop", verb, r.id}, more...)...); code != 0 {
			t.Fatalf("gander loop %s ends with %d: %s", verb, code, out)
		}
	}
	inCommand := func() { eventually(t, "an iteration to be in its command", func() bool { return exists(in) }) }
	paused := func(after int64) told {
		return r.await("a pause", after, func(e told) bool { return e.State == "paused" })
	}
	// asked is what the model was asked since some request, and how many there were.
	asked := func(since int) (text string, n int) {
		all := w.model.Requests()
		for _, req := range all[since:] {
			text += string(req.Body)
		}
		return text, len(all)
	}

	inCommand()
	var uses struct {
		Vitals *struct{ CPU, Memory float64 }
	}
	eventually(t, "what the sandbox uses", func() bool {
		p.ask("GET", "/api/runs/"+r.id, nil, &uses, http.StatusOK)
		return uses.Vitals != nil && uses.Vitals.Memory > 300
	})
	if uses.Vitals.Memory > 1500 {
		t.Errorf("a sandbox with goose and a command of 300 MB uses %+v", *uses.Vitals)
	}
	loop("pause")
	w.write(work, "go", "")
	first := r.await("the end of the iteration", 0, completed)
	was := paused(first.Seq)

	loop("say", "Use", "oak.")
	_, before := asked(0)
	loop("step")
	second := r.await("the end of the step", was.Seq, completed)
	was = paused(second.Seq)
	text, sofar := asked(before)
	if second.Iteration != 2 || !strings.Contains(text, "# Message from the Operator") || !strings.Contains(text, "Use oak.") {
		t.Errorf("the step is iteration %d, asked %.3000s", second.Iteration, text)
	}

	_, _ = os.Remove(goOn), os.Remove(in)
	loop("step")
	inCommand()
	inside := slices.DeleteFunc(r.inside(), func(q proc) bool { return !strings.Contains(q.args, "touch in") })
	loop("cancel")
	third := r.await("the end of the iteration that is cancelled", was.Seq, func(e told) bool { return e.Type == "iteration_end" })
	if third.Iteration != 3 || third.Status != "cancelled" {
		t.Errorf("the iteration that is cancelled ends as %+v", third)
	}
	was = paused(third.Seq)
	gone(t, patience, stillAlive(inside))
	if len(inside) == 0 {
		t.Error("the command was not seen")
	}
	if text, _ := asked(sofar); text == "" || strings.Contains(text, "Use oak.") {
		t.Errorf("the message is there again, or nothing: %.3000s", text)
	}

	w.write(work, "go", "")
	loop("resume")
	if fourth := r.await("an iteration after the pause", was.Seq, completed); fourth.Iteration != 4 {
		t.Errorf("after the pause comes iteration %d", fourth.Iteration)
	}
	r.await("another one", was.Seq, func(e told) bool { return e.Type == "iteration_start" && e.Iteration == 5 })
	loop("stop")
	r.await("the end", 0, func(e told) bool { return e.State == "stopped" })
	gone(t, patience, p.keepers)
	r.checkWhole()
}
