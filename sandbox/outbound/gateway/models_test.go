package gateway_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	"gander.dev/gander/sandbox/outbound/gateway"
)

// The endpoint's models are those that the policy permits and that can stand in a configuration. They
// are asked for once, and only of a vendor that lists none the agent's own list remains.
func TestModels(t *testing.T) {
	var asked atomic.Int32
	answer := `{"data":[{"id":"b"},{"id":"a"},{"id":"a"},{"id":"{file:/etc/passwd}"},{"id":""},{"id":"closed"}]}`
	serve := func(text string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if text == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(s.Close)
		return s
	}
	lists, silent, key := serve(answer), serve(""), rand.Text() // of no run before
	proxy, err := url.Parse(silent.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, base string
		allow      []string
		want       []string
		calls      int32
	}{
		{"all", lists.URL, nil, []string{"a", "b", "closed"}, 1},
		{"again, by a policy", lists.URL, []string{"a*", "b"}, []string{"a", "b"}, 0},
		{"none", silent.URL, nil, []string{}, 1},
		{"none of a vendor", "http://api.openai.com", nil, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := gateway.Options{Endpoint: gateway.Endpoint{BaseURL: tt.base, APIKey: key}, Models: tt.allow}
			if tt.base != lists.URL && tt.base != silent.URL {
				o.Proxy = func(*http.Request) (*url.URL, error) { return proxy, nil }
			}
			g, err := gateway.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			before := asked.Load()
			if got := g.Models(t.Context()); !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) || asked.Load()-before != tt.calls {
				t.Errorf("it offers %q after %d calls, want %q after %d", got, asked.Load()-before, tt.want, tt.calls)
			}
		})
	}
}
