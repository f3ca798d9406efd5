package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// An agent whose provider is an endpoint of models talks in the editor and on the terminal, by
// each protocol: what it says is streamed, it knows what was said before, also in the next
// process, it is cancelled, and there is no sandbox. Its key is gander's alone.
func TestPlainAgent(t *testing.T) {
	for _, protocol := range []string{"openai", "anthropic"} {
		both := map[string]string{"ORCHESTRATOR_MODEL": "gpt-4o"}
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, home, 0)
			w.write(w.mkdir("gander"), "config.json", fmt.Sprintf(`{"providers": {"lab": {"baseUrl": %q, "protocol": %q, "model": "scripted", "apiKeyEnv": "LLM_API_KEY"}}}`, w.host, protocol))
			w.write(w.mkdir("gander/agents/poet"), "AGENTS.md", "---\nprovider: lab\ndescription: Writes verse.\n---\nYou write verse.\n")
			start := func() *editor {
				e := w.gander(both, "--agent", "poet")
				e.initialize()
				return e
			}
			e := start()
			project := w.mkdir("project")
			s := e.session(project)
			first := s.prompt(script(t, step{"reasoning": "Hm.", "text": "one two three four five six.", "delay": 30})).done("end_turn")
			if first.text() != "one two three four five six." || !strings.Contains(strings.Join(first.kinds(), " "), "agent_thought_chunk") {
				t.Errorf("it said %q: %v", first.text(), first.kinds())
			}
			streamed(t, first)
			if u := first.answer.Usage; u == nil || u.TotalTokens == 0 || u.InputTokens == 0 {
				t.Errorf("the answer has the usage %+v", u)
			}
			s.prompt(script(t, says("Seven."))).done("end_turn")
			const answered = `six."` // the first answer, and not the script in the first prompt
			if asked := w.asked(1); !strings.Contains(asked, answered) || !strings.Contains(asked, "You write verse.") || strings.Contains(asked, `"tools"`) {
				t.Errorf("the model was asked %s", asked)
			}
			p := s.prompt(script(t, step{"text": "never", "hang": "forever"}))
			if err := w.model.WaitHanging(soon(t), 1); err != nil {
				t.Fatal(err)
			}
			s.cancel()
			p.done("cancelled")
			s.prompt(script(t, says("Eight."))).done("end_turn")
			if left := w.below(e); len(left) > 0 {
				t.Errorf("it started %+v", left)
			}
			e.end()

			e = start()
			s, _ = e.load(s.id, project)
			n := len(w.model.Requests())
			if got := s.prompt(script(t, says("Nine."))).done("end_turn").text(); got != "Nine." || !strings.Contains(w.asked(n), "Assistant: one two three") {
				t.Errorf("it said %q, and was asked %s", got, w.asked(n))
			}
			if _, err := s.setOption("agent", "orchestrator"); err != nil {
				t.Fatal(err)
			}
			if got := s.prompt(plan(t, task(&agent{name: "poet"}, "verse", "", script(t, says("Of ten."))), says("Told."))).done("end_turn"); !strings.Contains(everything(got), "Of ten.") || got.text() != "Told." {
				t.Errorf("as a task it said %s", everything(got))
			}
			e.end()
			out, code := w.run(t, w.ganderEnv(nil), needGander(t), "run", "--cwd", project, "--agent", "poet", "--format", "quiet", script(t, says("Ten.")))
			if out != "Ten.\n" || code != 0 {
				t.Errorf("gander run ended with %d: %s", code, out)
			}
		})
	}
}
