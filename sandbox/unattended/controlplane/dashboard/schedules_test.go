package dashboard_test

import (
	"testing"

	"gander.dev/gander/conformance/browsertest"
)

// TestScheduleOnThePage checks that a person schedules runs, sees them and removes them.
func TestScheduleOnThePage(t *testing.T) {
	w := newWorld(t)
	p := w.page(browsertest.Options{})
	p.Click("#start-button")
	p.WaitText("dialog", "Time, sandbox, model and limits")
	p.Fill("dialog textarea", "Tidy up.")
	p.Eval(`(() => {
		document.querySelector("dialog details").open = true;
		const when = [...document.querySelectorAll("dialog select")].find((el) => el.querySelector("[value=cron]"));
		when.value = "cron";
		when.dispatchEvent(new Event("change"));
	})()`, nil)
	p.Fill(`dialog input[placeholder="30 2 * * *"]`, "61 * * * *")
	p.Shot("schedule")
	p.ClickText("dialog", "Schedule")
	p.WaitText("dialog .warning", "61")
	p.Fill(`dialog input[placeholder="30 2 * * *"]`, "30 2 * * *")
	p.ClickText("dialog", "Schedule")
	p.WaitText("#toasts", "is to begin at")
	var all struct {
		Schedules []struct {
			Cron  string
			Start struct{ Prompt, AgentType string }
		}
	}
	w.ask("GET", "/api/schedules", nil, &all)
	if len(all.Schedules) != 1 || all.Schedules[0].Cron != "30 2 * * *" || all.Schedules[0].Start.Prompt != "Tidy up." {
		t.Fatalf("scheduled %+v", all)
	}
	p.Click("#history-button")
	p.WaitText("dialog .schedules", "cron 30 2 * * *")
	p.Shot("schedules")
	p.ClickText("dialog .schedules", "Remove")
	p.ClickText("dialog:last-of-type", "Remove")
	p.Wait("no schedule is left", `document.querySelector("dialog .schedules").hidden`)
	p.Clean(w.URL, "400")
}
