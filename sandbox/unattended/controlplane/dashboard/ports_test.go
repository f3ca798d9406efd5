package dashboard_test

import (
	"fmt"
	"testing"

	"gander.dev/gander/conformance/browsertest"
)

// TestPortsOnThePage checks that a person sees on the page where servers listen, opens a port there
// with a link to it, and closes it.
func TestPortsOnThePage(t *testing.T) {
	w := newWorld(t)
	w.Fleet.Listening = []int{3000, 5173}
	run := w.run("goose")
	p := w.page(browsertest.Options{})
	p.Click("#tab-ports")
	p.WaitText("#view-ports li", "Port 3000 listens inside.")
	p.Click(`#view-ports [aria-label="Open port 5173"]`)
	p.WaitText("#view-ports a", fmt.Sprintf("http://loop-%s.localhost:5173", run))
	p.Fill("#view-ports input", "8080:4000")
	p.ClickText("#view-ports", "Open the port")
	p.WaitText("#view-ports li", "Nothing listens there now.")
	p.Wait("a link that shares nothing with this page", fmt.Sprintf(`document.querySelector('#view-ports a[rel="noopener noreferrer"][target=_blank][href="http://loop-%s.localhost:8080"]')`, run))
	p.Shot("ports")
	p.Click(`#view-ports [aria-label="Close port 5173"]`)
	p.WaitText("#view-ports li", "Port 5173 listens inside.")
	w.ask("POST", "/api/runs/"+run+"/ports", map[string]int{"close": 4000}, nil)
	p.Wait("what was closed elsewhere", `document.querySelectorAll("#view-ports a").length === 0`)
	w.ask("POST", "/api/sandbox/stop", map[string]string{"runId": run}, nil)
	p.WaitText("#view-ports", "Nothing listens inside, and no port is open.")
	p.Clean(w.URL)
}
