package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// An agent may act on the last bytes of an answer at once, so the reason must be
// known when they are read.
func TestLastFinish(t *testing.T) {
	stream := func(reason string) string {
		return "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n" +
			"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"" + reason + "\"}]}\n\ndata: [DONE]\n\n"
	}
	answers := []struct{ body, want string }{
		{stream("length"), "length"},
		{stream("stop"), "stop"},
		{`{"choices": [{"finish_reason" : "tool_calls"}]}`, "tool_calls"},
		{`{"choices": []}`, ""},
		{stream("length"), "length"},
		{"", "length"}, // a failure says nothing about the answer before it
	}
	next := 0
	d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		body := answers[next].body
		if next++; body == "" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		for i := range body { // in the smallest pieces
			_, _ = io.WriteString(w, body[i:i+1])
			_ = http.NewResponseController(w).Flush()
		}
	})
	for i, a := range answers {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			res, err := d.client.Do(d.request(t.Context(), strings.NewReader("{}")))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.ReadAll(res.Body); err != nil {
				t.Fatal(err)
			}
			if got := d.LastFinish(); got != a.want {
				t.Errorf("LastFinish = %q, want %q", got, a.want)
			}
		})
	}
}
