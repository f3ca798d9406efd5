package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/outbound/gateway"
)

// The person reads what an endpoint says of a limit and what the agent will do: it waits for
// a moment, and gets an error at which it stops when it would wait for long or in vain.
func TestLimitsInWords(t *testing.T) {
	tests := []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   int
		words  []string
		retry  bool
	}{
		{"a moment", 429, map[string]string{"Retry-After": "2", "X-RateLimit-Reset": "1790000000"}, `{"error":{"message":"slow down"}}`, 429, []string{"slow down", "wait 2s", "x-ratelimit-reset: 1790000000", "the agent will retry"}, true},
		{"an hour", 429, map[string]string{"Retry-After": "3600"}, `{"error":{"message":"daily quota, resets at 18:00"}}`, 402, []string{"daily quota, resets at 18:00", "wait 1h0m0s, until", "does not try again"}, false},
		{"a date", 429, map[string]string{"Retry-After": time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat)}, `{}`, 402, []string{"until", "does not try again"}, false},
		{"no money", 429, nil, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, 402, []string{"You exceeded your current quota", "does not try again"}, false},
		{"maintenance", 503, map[string]string{"Retry-After": "1800"}, `{"error":{"message":"back soon"}}`, 402, []string{"back soon", "wait 30m0s"}, false},
		{"too long", 400, nil, `{"error":{"message":"maximum context length is 131072 tokens"}}`, 400, []string{"131072", "/compact"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			})
			res, text := d.ask(`{"model":"m","stream":true}`)
			e := d.events.last(t, 2)
			if res.StatusCode != tt.want || e.Retry != tt.retry {
				t.Errorf("the agent gets %d, retry %v; want %d", res.StatusCode, e.Retry, tt.want)
			}
			for _, word := range tt.words {
				if !strings.Contains(e.Message, word) {
					t.Errorf("the person reads %q, without %q", e.Message, word)
				}
			}
			if tt.want == tt.status && text != tt.body {
				t.Errorf("the agent reads %q", text)
			}
		})
	}
}

// That an agent tries again is said only of agents that do.
func TestRetriesAreSaidOfAgentsThatDo(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	d := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: serve(t, h)}})
	d.ask(`{"model":"m"}`)
	if e := d.events.last(t, 2); strings.Contains(e.Message, "retry") {
		t.Errorf("the person reads %q", e.Message)
	}
}
