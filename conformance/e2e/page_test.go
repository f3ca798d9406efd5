package e2e

import (
	"fmt"
	"slices"
	"testing"

	"gander.dev/gander/conformance/browsertest"
)

// A person at the page, with the real agents: two runs are started and watched side by side, one is
// given another prompt, and both are stopped.
func TestPage(t *testing.T) {
	for pair := range slices.Chunk(spots(t), 2) {
		t.Run(pair[0].String()+" and "+pair[1].String(), func(t *testing.T) { testPage(t, pair) })
	}
}

func testPage(t *testing.T, pair []spot) {
	w := loopWorld(t)
	p := w.serve(t)
	b := browsertest.Start(t, browsertest.Options{Width: 1600, Height: 950})
	b.Open(p.url + "/#token=" + p.token)
	b.WaitText("#connection", "Live")
	var runs []*run
	for i, s := range pair {
		c := s.cell
		b.Click("#start-button")
		b.WaitText("dialog", c.agent.name)
		prompt := script(t, c.runs("echo seen-by-"+c.agent.name), says("the first work of "+c.agent.name+" is done."))
		b.Click(fmt.Sprintf(`dialog input[value=%q]`, c.agent.name))
		b.Eval(fmt.Sprintf(`(() => {
			document.querySelector("dialog textarea").value = %q;
			document.querySelector("dialog select").value = %q;
		})()`, prompt, c.driver.name), nil)
		b.ClickText("dialog", "Start")
		var list struct{ Runs []struct{ RunID string } }
		eventually(t, "a run of "+c.agent.name, func() bool {
			p.ask("GET", "/api/runs", nil, &list, 200)
			return len(list.Runs) == i+1
		})
		runs = append(runs, &run{p, list.Runs[0].RunID, c})
	}
	for _, r := range runs {
		r.await("an iteration", 0, completed)
		card := fmt.Sprintf(`[data-card="%s"]`, r.id)
		b.Wait("the card of "+r.c.agent.name, fmt.Sprintf(`document.querySelector('%s')`, card))
		b.Click(card)
		stream := fmt.Sprintf(`.stream[data-run="%s"]`, r.id)
		b.WaitText(stream, "the first work of "+r.c.agent.name+" is done.")
		b.WaitText(stream, "seen-by-"+r.c.agent.name)
		b.WaitText(stream+" .badge.completed", "done")
		b.WaitText("#view-iterations .outcome.ok", "OK")
	}
	b.ClickText("#top", "Side by side")
	b.Wait("two streams", `document.querySelectorAll(".stream").length === 2`)
	b.Shot("agents")
	b.Click("#tab-prompt")
	b.Wait("the editor of the prompt", `document.querySelector("#view-prompt textarea").value.startsWith("please")`)
	b.Fill("#view-prompt textarea", script(t, says("the second work is done.")))
	b.ClickText("#view-prompt", "Save")
	b.WaitText(".stream", "the second work is done.")
	for _, r := range runs {
		b.Click(fmt.Sprintf(`[data-card="%s"]`, r.id))
		b.Wait("the controls of "+r.c.agent.name, fmt.Sprintf(`document.querySelector("#controls b").innerText === %q`, r.c.agent.name))
		keeper := r.keeper()
		b.ClickText("#controls", "Stop")
		b.ClickText("dialog", "Stop the run")
		r.await("the end", 0, func(e told) bool { return e.State == "stopped" })
		gone(t, patience, stillAlive([]proc{keeper}))
		b.WaitText("#controls", "Stopped")
		r.checkWhole()
	}
	b.Clean(p.url)
}
