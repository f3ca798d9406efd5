package e2e

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// finding is a check of gander doctor.
type finding struct{ ID, State, What, Next string }

// doctor runs gander doctor in a world and returns its findings by their ids.
func (w *world) doctor(t *testing.T, env map[string]string, args ...string) (found map[string]finding, code int) {
	t.Helper()
	all := w.ganderEnv(nil)
	maps.Copy(all, env)
	out, code := w.run(t, all, append([]string{needGander(t), "doctor", "--json"}, args...)...)
	var report struct{ Checks []finding }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found = map[string]finding{}
	for _, f := range report.Checks {
		found[f.ID] = f
	}
	return found, code
}

// Where containers are wanted, doctor starts them, says what is wrong with the
// daemon and the image, and clears away what a killed gander left.
func TestDoctorLooksAfterContainers(t *testing.T) {
	gooseDocker.run(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"sandbox": {"driver": "docker"}}`)
		model := map[string]string{"GOOSE_MODEL": "scripted"}
		expect := func(env map[string]string, wantCode int, want finding, args ...string) {
			t.Helper()
			maps.Copy(env, model)
			found, code := w.doctor(t, env, args...)
			got := found[want.ID]
			if code != wantCode || got.State != want.State || !strings.Contains(got.What, want.What) || !strings.Contains(got.Next, want.Next) {
				t.Errorf("exit code %d, want %d: %+v, want %+v", code, wantCode, got, want)
			}
		}
		expect(map[string]string{}, 0, finding{"docker.image.goose", "ok", "goose in goku-sandbox-goose:latest is version", ""})
		expect(map[string]string{"DOCKER_HOST": "unix:///nowhere/docker.sock"}, 1,
			finding{"docker.daemon", "fail", "/nowhere/docker.sock", "start it, or name its socket in DOCKER_HOST"})

		e := w.gander(nil)
		e.dies = true
		e.initialize()
		e.session(w.mkdir("project")).prompt(script(t, says("hello"))).done("end_turn")
		e.do("kill", map[string]any{"signal": "SIGKILL"})
		e.exit()
		expect(map[string]string{}, 0, finding{"leftovers", "warn", "a killed gander left goose-", "gander sandbox gc"})
		expect(map[string]string{}, 0, finding{"leftovers", "ok", "nothing is left over", ""}, "--fix")
		if dirs := left(t, w); len(dirs) > 0 {
			t.Errorf("left are %q", dirs)
		}
		w.noContainers()

		w.write(w.mkdir("gander"), "config.json", `{"sandbox": {"driver": "docker", "image": "gander-no-such-image:1"}}`)
		expect(map[string]string{}, 1, finding{"docker.image.goose", "fail", "there is no image gander-no-such-image:1", ""})
	})
}
