package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// TestPorts checks that a person opens and closes ports of a run, and nobody else does.
func TestPorts(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	s.Fleet.Listening = []int{5173}
	run := begin(t, s, nil)
	path := "/api/runs/" + run + "/ports"
	is := func(body map[string]any, text string) {
		t.Helper()
		if raw, err := json.Marshal(body); err != nil || string(raw) != text {
			t.Errorf("%s, %v, want %s", raw, err, text)
		}
	}
	const closed = `{"listening":[5173],"open":[]}`
	is(want(t, s, 200, "GET", path, nil).body, closed)
	is(want(t, s, 200, "POST", path, json.RawMessage(`{"open":"8080:5173"}`)).body,
		fmt.Sprintf(`{"listening":[],"open":[{"heard":true,"port":5173,"url":"http://loop-%s.localhost:8080"}]}`, strings.ToLower(run)))
	for _, bad := range []string{`{}`, `{"open":"x"}`, `{"open":"0.0.0.0:80"}`, `{"open":"80","close":80}`} {
		want(t, s, 422, "POST", path, json.RawMessage(bad))
	}
	if code := askAs(t, s, s.Fleet.RunToken(run), path, `{"open":"22"}`); code != http.StatusForbidden {
		t.Errorf("a sandbox opens its own port: %d", code)
	}
	is(want(t, s, 200, "POST", path, json.RawMessage(`{"close":5173}`)).body, closed)
	want(t, s, 404, "GET", "/api/runs/none/ports", nil)
	want(t, s, 200, "POST", "/api/sandbox/stop", map[string]string{"runId": run})
	is(want(t, s, 200, "GET", path, nil).body, `{"listening":[],"open":[]}`)
	want(t, s, 409, "POST", path, json.RawMessage(`{"open":"5173"}`))
}

// TestPortsUnderCompat checks that none is opened where everybody is taken for the person.
func TestPortsUnderCompat(t *testing.T) {
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) { o.Compat = true }})
	run := begin(t, s, nil)
	for token, status := range map[string]int{s.Token: http.StatusForbidden, "": http.StatusUnauthorized} {
		for _, order := range []string{`{"open":"5173"}`, `{"close":5173}`} {
			if code := askAs(t, s, token, "/api/runs/"+run+"/ports", order); code != status {
				t.Errorf("%s with the token %q: %d", order, token, code)
			}
		}
	}
}
