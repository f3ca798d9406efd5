package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/conformance/model"
)

// A loop without a keeper, as the images run it, with the real agents: the first answers
// of the model fail, the loop says so and goes on by itself; the agent writes its memory
// in one iteration and reads it in the next.
func TestLoopRun(t *testing.T) {
	gander := needGander(t)
	for _, s := range spots(t) {
		agent := s.agent.name
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			program := os.Getenv("GANDER_" + strings.ToUpper(agent) + "_CMD")
			need(t, program != "", "GANDER_"+strings.ToUpper(agent)+"_CMD")
			scripted := model.New(model.Options{})
			t.Cleanup(func() { _ = scripted.Close() })
			var calls atomic.Int64
			away := int64(4) // as often as goose asks before it gives up; opencode goes on for longer
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && calls.Add(1) <= away {
					http.Error(w, `{"error":{"message":"out of order"}}`, http.StatusInternalServerError)
					return
				}
				scripted.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			home, work := t.TempDir(), t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, gander, "loop", "run", "--agent", agent, "--max-iterations", "3", "--prompt",
				"Work. "+model.Embed(`[{"tool":"shell|bash","args":{"command":"echo wood >> log; cp log .memory.md","description":"work"}},{"text":"Sawn."}]`))
			cmd.Dir, cmd.WaitDelay = work, 10*time.Second
			cmd.Env = []string{
				"HOME=" + home, "PATH=/usr/local/bin:/usr/bin:/bin", "LLM_HOST=" + server.URL, "LLM_API_KEY=loop-key", "GOOSE_MODEL=small", "OPENCODE_MODEL=custom/small",
				"GANDER_" + strings.ToUpper(agent) + "_CMD=" + program, "ITERATION_SLEEP=0.1",
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if agent == "goose" && !strings.Contains(string(out), "llm_unavailable: the model does not answer") {
				t.Errorf("that the model was away is not said:\n%s", out)
			}
			if !strings.Contains(string(out), "tool_use") || !strings.Contains(string(out), "done: the limit of 3 iterations is reached") || strings.Contains(string(out), "loop-key") {
				t.Errorf("the loop said:\n%s", out)
			}
			memory, err := os.ReadFile(filepath.Join(work, ".memory.md"))
			if err != nil || strings.Count(string(memory), "wood") < 2 {
				t.Errorf("memory %q, %v", memory, err)
			}
			var last string
			for _, r := range scripted.Requests() {
				last = string(r.Body)
			}
			if !strings.Contains(last, "# Memory (from previous iteration)") || !strings.Contains(last, "wood") {
				t.Errorf("the last instruction has no memory: %.2000s", last)
			}
		})
	}
}

// The images as docker run starts them, without gander outside: the loop runs, takes its
// prompt from a control plane, tells it everything, and ends when the container is stopped.
// Goose's alone: where the network leads nowhere, opencode looks for it half a minute long.
func TestLoopImages(t *testing.T) {
	for _, a := range agents[:1] {
		t.Run(a.name, func(t *testing.T) {
			c := cell{a, drivers[1]}
			c.driver.need(t)
			w := newWorld(t, c, 0)
			p := w.serve(t, "--compat") // so that it needs no token
			p.ask("PUT", "/api/prompt", map[string]string{"content": script(t, a.runs("echo wood >> log; cp log .memory.md; id -u"), says("Sawn."))}, nil, http.StatusOK)
			id := strings.TrimSpace(docker(t, "run", "--detach", "--network", "host", "--env", a.variable("_LLM_HOST")+"="+w.host, "--env", "LLM_API_KEY="+canary,
				"--env", a.variable("_MODEL")+"="+a.model,
				"--env", "CONTROL_PLANE_URL="+p.url, "--env", "ITERATION_SLEEP=0.1", "goku-sandbox-"+a.name+":latest"))
			t.Cleanup(func() { docker(t, "rm", "--force", "--volumes", id) })
			var list struct{ Runs []struct{ RunID string } }
			eventually(t, "a run that nobody has started here", func() bool {
				p.ask("GET", "/api/runs", nil, &list, http.StatusOK)
				return len(list.Runs) == 1
			})
			r := &run{p, list.Runs[0].RunID, c}
			if result := r.await("the result of a command", 0, func(e told) bool { return e.Type == "tool_result" }); !strings.Contains(result.Content, "1000") {
				t.Errorf("the command says %q", result.Content)
			}
			first := r.await("an iteration", 0, completed)
			r.await("another one", first.Seq, completed)
			docker(t, "stop", "--time", "30", id)
			r.await("the end", first.Seq, func(e told) bool { return e.State == "stopped" })
			if code := strings.TrimSpace(docker(t, "inspect", "--format", "{{.State.ExitCode}}", id)); code != "0" {
				t.Errorf("the container ends with %s: %s", code, docker(t, "logs", id))
			}
		})
	}
}
