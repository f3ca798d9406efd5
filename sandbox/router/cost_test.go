package router

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"gander.dev/gander/acp"
)

// TestCostIsShown: editors see what a session has cost by the person's prices, with
// what the agent says that it has used, also what was counted after the agent's last
// word; where nothing has a price the agent's own words stay.
func TestCostIsShown(t *testing.T) {
	for name, tt := range map[string]struct {
		priced bool
		want   []string
	}{
		"prices":    {true, []string{`"cost":{"amount":1,"currency":"EUR"}`, `"cost":{"amount":3,"currency":"EUR"}`}},
		"no prices": {false, []string{`"cost":{"amount":0,"currency":"USD"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var spent atomic.Int64
			r := newRig(t, func(r *rig) {
				r.terms.cost = func(_ acp.SessionID, cwd string) *acp.Cost {
					if !tt.priced || cwd == "" {
						return nil
					}
					return &acp.Cost{Amount: float64(spent.Load()), Currency: "EUR"}
				}
				r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
					spent.Add(1)
					c.update(`{"sessionUpdate":"usage_update","used":5,"size":9,"cost":{"amount":0,"currency":"USD"}}`)
					spent.Add(2)
					return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
				}
			})
			s := r.open(t)
			r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
			var got []string
			for _, n := range r.editor.Updates(s.SessionID) {
				if acp.UpdateKind(n) == "usage_update" {
					got = append(got, string(n))
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("the editor got %q", got)
			}
			for i, want := range tt.want {
				if !strings.Contains(strings.ReplaceAll(got[i], " ", ""), want) || !strings.Contains(got[i], `"used":5`) {
					t.Errorf("the editor got %s, want %s", got[i], want)
				}
			}
		})
	}
}
