package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenarioPatience bounds the scenarios of the example team together, on a busy machine.
const scenarioPatience = 8 * time.Minute

// The example team does what its scenarios say, with real agents and without a key or a network.
// When its description, prompt or limit changes, the scenario that is about that is red, and no other.
func TestScenarios(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		env := w.ganderEnv(agents[0].env(t))
		maps.Copy(env, agents[1].env(t))
		delete(env, "LLM_HOST")
		delete(env, "LLM_API_KEY")
		team := filepath.Join(w.mkdir("copy"), "team")
		if err := os.CopyFS(team, os.DirFS(fromRoot(t, "conformance", "team"))); err != nil {
			t.Fatal(err)
		}
		w.own(team)
		run := func(files ...string) (red []string, code int) {
			command := []string{needGander(t), "scenario", "run", "--json", "--sandbox", w.cell.driver.name}
			for _, f := range files {
				command = append(command, filepath.Join(team, "scenarios", f))
			}
			out, code := w.runFor(t, scenarioPatience, env, command...)
			var report struct {
				Scenarios []struct {
					Checks []struct {
						ID, State string
						Problems  []string
					}
				}
			}
			if err := json.Unmarshal([]byte(out), &report); err != nil {
				t.Fatalf("exit code %d, %v: %s", code, err, out)
			}
			for _, s := range report.Scenarios {
				for _, c := range s.Checks {
					if c.State != "pass" {
						red = append(red, c.ID)
						t.Logf("%s: %v", c.ID, c.Problems)
					}
				}
			}
			return red, code
		}
		if red, code := run("."); len(red) > 0 || code != 0 {
			t.Fatalf("the team as it is: exit code %d, red are %v", code, red)
		}
		change := func(file, from, to string) {
			path := filepath.Join(team, file)
			text := strings.Replace(w.read(path), from, to, 1)
			w.write(filepath.Dir(path), filepath.Base(path), text)
		}
		change("agents/developer/AGENTS.md", "Changes code and runs its tests.", "Does things.")
		change("agents/developer/AGENTS.md", "Run the tests", "Think")
		change("config.json", `"steps": 6`, `"steps": 5`)
		red, code := run("ask-the-developer.json", "stops-at-its-limit.json")
		want := []string{"ask-the-developer.told.developer", "ask-the-developer.told.orchestrator", "stops-at-its-limit.minSteps"}
		if !slices.Equal(red, want) || code != 1 {
			t.Errorf("the broken team: exit code %d, red are %v, want %v", code, red, want)
		}
	})
}
