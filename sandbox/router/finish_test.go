package router

import (
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
)

type finished struct {
	fakeModel
	reason string
}

func (f *finished) LastFinish() string { return f.reason }

// Agents end a turn whose answer was cut off as if the model had come to an end.
func TestHonest(t *testing.T) {
	tests := []struct {
		name   string
		model  confine.Model
		agents acp.StopReason
		want   acp.StopReason
	}{
		{"cut off", &finished{reason: "length"}, acp.StopEndTurn, acp.StopMaxTokens},
		{"at its end", &finished{reason: "stop"}, acp.StopEndTurn, acp.StopEndTurn},
		{"refused", &finished{reason: "length"}, acp.StopRefusal, acp.StopRefusal},
		{"for a reason that ACP does not have", &fakeModel{}, "tool_calls", acp.StopEndTurn},
		{"the same, cut off", &finished{reason: "length"}, "tool_calls", acp.StopMaxTokens},
		{"a model that does not say", &fakeModel{}, acp.StopEndTurn, acp.StopEndTurn},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := &acp.PromptResponse{StopReason: tt.agents, Usage: []byte("{}")}
			got := (&backend{place: &confine.Place{Model: tt.model}}).honest(resp)
			if got.StopReason != tt.want || string(got.Usage) != "{}" || resp.StopReason != tt.agents {
				t.Errorf("%s, want %s", got.StopReason, tt.want)
			}
		})
	}
}

// failing is a model whose last call failed in the turn before, or in this one.
type failing struct {
	fakeModel
	why     string
	refused bool
	at      time.Time
}

func (f *failing) LastFailure(since time.Time) (string, bool) {
	if f.at.Before(since) {
		return "", false
	}
	return f.why, f.refused
}

// An agent's error is about the model call that failed: agents take what the policy
// refuses for a wrong key.
func TestAnErrorSaysWhatBecameOfTheCall(t *testing.T) {
	began := time.Now()
	now, before := began.Add(time.Second), began.Add(-time.Second)
	tests := []struct {
		name    string
		model   confine.Model
		err     error
		want    string
		refused bool
	}{
		{"refused, for a key", &failing{why: "not that model", refused: true, at: now}, acp.AuthRequired("Authentication required"), "not that model", true},
		{"refused, for something else", &failing{why: "not that model", refused: true, at: now}, acp.Internal("no", nil), "not that model", true},
		{"a wrong key", &failing{why: "the key from there", at: now}, acp.AuthRequired("Authentication required"), "the key from there", false},
		{"another failure", &failing{why: "the key from there", at: now}, acp.Internal("no", nil), "no", false},
		{"in the turn before", &failing{why: "not that model", refused: true, at: before}, acp.Internal("no", nil), "no", false},
		{"a model that does not say", &fakeModel{}, acp.AuthRequired("Authentication required"), "gander provider list", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &backend{
				place: &confine.Place{Model: tt.model}, agent: &fakeAgent{name: "duck"}, ctx: t.Context(),
				conv: &fakeConv{done: make(chan struct{})}, sb: &fakeSandbox{done: make(chan struct{})},
			}
			_, err := answer{err: tt.err}.result(b, began)
			if err == nil || !strings.Contains(err.Error(), tt.want) || Refused(err) != tt.refused {
				t.Errorf("%v, refused by the policy: %v", err, Refused(err))
			}
		})
	}
}
