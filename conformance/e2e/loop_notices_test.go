package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// Receivers of notices through a whole run: one that is slow, dead, redirecting or hostile
// neither delays nor spoils the run, nor keeps gander serve from ending. What they get are
// names and states.
func TestLoopReceivers(t *testing.T) {
	s := spots(t)[0]
	var astray atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { astray.Add(1) }))
	t.Cleanup(func() {
		elsewhere.Close()
		if n := astray.Load(); n > 0 {
			t.Errorf("a redirect was followed %d times", n)
		}
	})
	for what, answer := range map[string]http.HandlerFunc{
		"dead": nil,
		"slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"redirecting": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"hostile": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat("\x1b[2J<script>", 5000))); err != nil {
					return
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, s.cell, 0)
			came := make(chan string, 100)
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				came <- string(body)
				answer(w, r)
			}))
			if answer == nil {
				receiver.Close() // nobody listens there any more
			} else {
				t.Cleanup(receiver.Close)
			}
			w.write(w.mkdir("gander"), "config.json", fmt.Sprintf(`{"notify": {"url": %q}}`, receiver.URL+"/topic-of-mine"))
			p := w.serve(t)
			r := p.loop(s.cell, script(t, s.runs("echo seen"), says("a secret word")), map[string]any{"limits": map[string]any{"iterations": 2}})
			first := r.await("an iteration", 0, completed)
			r.await("another one", first.Seq, completed)
			r.await("the end", first.Seq, func(e told) bool { return e.State == "done" })
			r.checkWhole()
			if answer != nil {
				body := ""
				select {
				case body = <-came:
				case <-soon(t).Done():
					t.Fatal("nothing was told")
				}
				for _, want := range []string{`"state":"done"`, `"agent":"goose"`, `"runId":"` + r.id + `"`, `/#run=` + r.id} {
					if !strings.Contains(body, want) {
						t.Errorf("%s is missing in %s", want, body)
					}
				}
				if strings.Contains(body, "secret word") || strings.Contains(body, p.token) || strings.Contains(body, canary) {
					t.Errorf("there came %s", body)
				}
			}
			if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.ended:
			case <-soon(t).Done():
				t.Error("gander serve does not end")
			}
			if text := p.said.String(); strings.Contains(text, "topic-of-mine") {
				t.Errorf("the receiver's address is in the log: %s", text)
			}
		})
	}
}
