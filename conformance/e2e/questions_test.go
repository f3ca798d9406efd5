package e2e

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestQuestionsOnThePage answers on the control plane's page what a session of an editor asks: a
// permission, a form of a server and a host. The editor, which does not answer, is told so. Under
// --compat no question gets there, and the editor answers.
func TestQuestionsOnThePage(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"policy": {"network": {"ask": true}}}`)
		p := w.serve(t)
		type question struct {
			ID, Kind, Title, SessionID string
			Options                    []struct{ OptionID, Kind string }
		}
		var list struct{ Questions []question }
		last := ""
		asked := func(what string) question {
			t.Helper()
			eventually(t, "a question on the page, other than "+last, func() bool {
				p.ask("GET", "/api/questions", nil, &list, http.StatusOK)
				return len(list.Questions) == 1 && list.Questions[0].ID != last
			})
			if !strings.Contains(list.Questions[0].Title, what) {
				t.Errorf("the page asks %q, want %q", list.Questions[0].Title, what)
			}
			last = list.Questions[0].ID
			return list.Questions[0]
		}
		answer := func(q question, a map[string]any) {
			t.Helper()
			p.ask("POST", "/api/questions/"+q.ID+"/answer", a, nil, http.StatusOK)
		}
		s := w.openWith(serveTools(t))
		asks := script(t, step{"tool": w.toolOf("addressed", "ask"), "args": map[string]any{}}, step{"text": "{{last_tool_result}}"})

		turn := s.prompt(asks)
		q := asked("the MCP server addressed")
		if q.Kind != "permission" || q.SessionID != s.id {
			t.Errorf("the page shows %+v", q)
		}
		allow := func(q question) {
			t.Helper()
			i := slices.IndexFunc(q.Options, func(o struct{ OptionID, Kind string }) bool { return o.Kind == "allow_once" })
			if i < 0 {
				t.Fatalf("the page offers %+v", q)
			}
			answer(q, map[string]any{"optionId": q.Options[i].OptionID})
		}
		allow(q)
		answer(asked("Which colour?"), map[string]any{"action": "accept", "content": map[string]string{"colour": "teal-7"}})
		if got := turn.done("end_turn").text(); !strings.Contains(got, `accept {"colour":"teal-7"}`) {
			t.Errorf("the agent was told %q", got)
		}

		const host = "new.invalid:80"
		turn = s.prompt(script(t, w.shell(`exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; printf 'GET http://`+host+`/ HTTP/1.0\r\n\r\n' >&3; cat <&3`), says("done")))
		allow(asked(host))
		turn.done("end_turn")
		if !strings.Contains(encode(t, s.rec.frames), "502 Bad Gateway") { // allowed, and there is none
			t.Error("the command shows no answer of the proxy")
		}

		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		p.flags = []string{"--compat"}
		p.start()
		s.mu.Lock()
		before := len(s.asked)
		s.mu.Unlock()
		turn = s.prompt(asks)
		form := s.event("the form", func(e event) bool {
			return e.Ev == "asked" && e.Method == "elicitation/create" && e.N > before
		})
		p.ask("GET", "/api/questions", nil, &list, http.StatusOK)
		if len(list.Questions) != 0 {
			t.Errorf("under --compat the page shows %+v", list.Questions)
		}
		p.ask("POST", "/api/questions/"+last+"/answer", map[string]any{"action": "decline"}, nil, http.StatusForbidden)
		s.do("answer", map[string]any{"n": form.N, "result": map[string]any{"action": "decline"}})
		if got := turn.done("end_turn").text(); !strings.Contains(got, "decline") {
			t.Errorf("the agent was told %q", got)
		}
	})
}
