package router

import (
	"testing"

	"gander.dev/gander/acp"
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
		model  Model
		agents acp.StopReason
		want   acp.StopReason
	}{
		{"cut off", &finished{reason: "length"}, acp.StopEndTurn, acp.StopMaxTokens},
		{"at its end", &finished{reason: "stop"}, acp.StopEndTurn, acp.StopEndTurn},
		{"refused", &finished{reason: "length"}, acp.StopRefusal, acp.StopRefusal},
		{"a model that does not say", &fakeModel{}, acp.StopEndTurn, acp.StopEndTurn},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := &acp.PromptResponse{StopReason: tt.agents, Usage: []byte("{}")}
			got := (&backend{model: tt.model}).honest(resp)
			if got.StopReason != tt.want || string(got.Usage) != "{}" || resp.StopReason != tt.agents {
				t.Errorf("%s, want %s", got.StopReason, tt.want)
			}
		})
	}
}
