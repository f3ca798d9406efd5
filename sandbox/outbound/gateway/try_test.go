package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// picky is an endpoint below /api/v1 that takes one key in one header and has one model.
func picky(t *testing.T, header, key string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		inside, ours := strings.CutPrefix(r.URL.Path, "/api/v1/")
		switch {
		case !ours:
			http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
		case r.Header.Get(header) != key:
			http.Error(w, `{"error":{"message":"Incorrect API key provided."}}`, http.StatusUnauthorized)
		case inside == "models":
			fmt.Fprint(w, `{"data":[{"id":"duck"}]}`)
		default:
			var body [4096]byte
			n, _ := r.Body.Read(body[:])
			if !strings.Contains(string(body[:n]), `"model":"duck"`) {
				http.Error(w, `{"error":{"message":"There is no such model.","code":"model_not_found"}}`, http.StatusNotFound)
				return
			}
			fmt.Fprint(w, `{"choices":[{"message":{"content":"q"}}]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A wrong address, key, header and model are told apart, and the key is in no message.
func TestTry(t *testing.T) {
	const key = "sk-try-0123456789"
	bearer, own := picky(t, "Authorization", "Bearer "+key), picky(t, "X-Api-Key", key)
	tests := []struct {
		name string
		e    Endpoint
		want Part // empty: nothing is wrong
		says string
	}{
		{"right", Endpoint{BaseURL: bearer + "/api", APIKey: key, Model: "duck"}, "", ""},
		{"right without a model", Endpoint{BaseURL: bearer + "/api", APIKey: key}, "", ""},
		{"right in a header", Endpoint{BaseURL: own + "/api", APIKey: key, KeyHeader: "x-api-key", Model: "duck"}, "", ""},
		{"right and exact", Endpoint{BaseURL: bearer + "/api/v1/", Exact: true, APIKey: key, Model: "duck"}, "", ""},
		{"key", Endpoint{BaseURL: bearer + "/api", APIKey: "sk-no-0123456789", KeySource: "MY_KEY", Model: "duck"}, PartKey, "from MY_KEY"},
		{"no key", Endpoint{BaseURL: bearer + "/api", Model: "duck"}, PartKey, "wants a key"},
		{"header", Endpoint{BaseURL: own + "/api", APIKey: key, Model: "duck"}, PartHeader, "another header: X-Api-Key"},
		{"other header", Endpoint{BaseURL: bearer + "/api", APIKey: key, KeyHeader: "api-key", Model: "duck"}, PartHeader, "Authorization, as a bearer token"},
		{"model", Endpoint{BaseURL: bearer + "/api", APIKey: key, Model: "goose"}, PartModel, `does not know the model "goose"`},
		{"base", Endpoint{BaseURL: bearer + "/other", APIKey: key, Model: "duck"}, PartBase, "no API of models at"},
		{"exact base", Endpoint{BaseURL: bearer + "/api", Exact: true, APIKey: key, Model: "duck"}, PartBase, "no API of models at"},
		{"nobody", Endpoint{BaseURL: "http://127.0.0.1:1", APIKey: key, Model: "duck"}, PartBase, "cannot be reached"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := New(Options{Endpoint: tt.e})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			models, err := g.Try(t.Context())
			wrong, is := errors.AsType[*Wrong](err)
			if !is {
				wrong = &Wrong{}
			}
			if wrong.Part != tt.want || !strings.Contains(wrong.Message, tt.says) || strings.Contains(wrong.Message, tt.e.APIKey) && tt.e.APIKey != "" {
				t.Errorf("%q, %v; want %q with %q", wrong.Part, err, tt.want, tt.says)
			}
			if tt.want == "" && (len(models) != 1 || models[0] != "duck") {
				t.Errorf("models %v", models)
			}
		})
	}
}
