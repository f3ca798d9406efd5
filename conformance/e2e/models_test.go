package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// A session offers the models of its endpoint that the policy permits, and the configured one; each
// can be chosen by its name, and is the one that is called then.
func TestModelsOfTheEndpoint(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"policy": {"model": {"allow": ["gpt-4o", "a", "b"]}}}`)
		lists := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.model.ServeHTTP(out, r)
				return
			}
			_, _ = io.WriteString(out, `{"object":"list","data":[{"id":"b"},{"id":"a"},{"id":"forbidden"},{"id":"{file:/etc/passwd}"}]}`)
		}))
		t.Cleanup(lists.Close)
		e := w.gander(map[string]string{"LLM_HOST": lists.URL})
		e.initialize()
		s := e.session(w.mkdir("project"))
		if said := s.prompt(script(t, says("hello"))).done("end_turn").text(); !strings.Contains(said, "hello") {
			t.Fatalf("the agent says %q", said)
		}
		said := s.prompt("/model").done("end_turn").text()
		var offered []string
		for line := range strings.Lines(said) {
			if name, is := strings.CutPrefix(line, "- `"); is {
				name, _, _ = strings.Cut(name, "`")
				offered = append(offered, name[strings.LastIndexByte(name, '/')+1:])
			}
		}
		if !slices.Equal(offered, []string{"gpt-4o", "a", "b"}) {
			t.Errorf("/model offers %q: %s", offered, said)
		}
		before := len(w.model.Requests())
		if said := s.prompt("/model b").done("end_turn").text(); !strings.Contains(said, "b` (now)") {
			t.Errorf("/model b says %q", said)
		}
		s.prompt(script(t, says("it is b"))).done("end_turn")
		w.told(before, `"model":"b"`)
	})
}
