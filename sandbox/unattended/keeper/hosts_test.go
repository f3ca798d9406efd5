package keeper

import (
	"net/http"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/telemetry"
)

// TestHostsAreAsked checks that the person is asked once on the page about a host that no rule
// names, where the policy asks, that the program inside does not wait for it, and that the answer
// is kept for the project.
func TestHostsAreAsked(t *testing.T) {
	unruled := egress.Tally{Decision: egress.Explain(nil, "api.example", 443), Times: 1}
	if !unruled.Unruled() {
		t.Fatalf("%+v", unruled)
	}
	for _, asks := range []bool{true, false} {
		r := newRig(t, obey)
		var said int
		r.plane.says = func() (int, string) { // the plane's lock is held
			if said++; said < 3 {
				return http.StatusAccepted, `{"status":"waiting"}`
			}
			return http.StatusOK, `{"optionId":"project"}`
		}
		r.terms.ask = asks
		allowed := make(chan string, 10)
		r.o.AllowHost = func(address string) error {
			allowed <- address
			return nil
		}
		r.terms.openEgress = func(way confine.Way) confine.Egress {
			for range 3 {
				way.Decided(unruled)
			}
			way.Decided(refused) // by a rule
			return fakeEgress{way.Decided}
		}
		r.start()
		if asks {
			await(t, "the answer", func() bool {
				return r.plane.count(func(e telemetry.Event) bool {
					return e.Type == Notice && strings.Contains(e.Content, "You have allowed api.example:443 for this project")
				}) == 1
			})
			if got := <-allowed; got != "api.example:443" {
				t.Errorf("allowed was %s", got)
			}
		}
		r.stop()
		if err := r.gone(); err != nil {
			t.Fatal(err)
		}
		if len(allowed) > 0 || said != map[bool]int{true: 3, false: 0}[asks] {
			t.Errorf("where the policy asks (%v) there were %d questions, and %d answers more", asks, said, len(allowed))
		}
	}
}
