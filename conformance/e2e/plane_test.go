package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A plane is bin/gander serve in a world, which it may survive.
type plane struct {
	w          *world
	env        map[string]string
	flags      []string // more than it needs
	cmd        *exec.Cmd
	url, token string
	said       *bytes.Buffer // stderr
	ended      chan struct{}
}

// loopEnv is the environment of a control plane whose runs may be of every agent and
// in every kind of sandbox.
func (w *world) loopEnv(t *testing.T) map[string]string {
	env := w.ganderEnv(map[string]string{"ITERATION_SLEEP": "1"})
	for _, a := range agents {
		maps.Copy(env, a.env(t))
	}
	for _, d := range drivers {
		maps.Copy(env, d.env())
	}
	return env
}

// serve starts a control plane. When the test ends, no run is left.
func (w *world) serve(t *testing.T, flags ...string) *plane {
	t.Helper()
	p := &plane{w: w, env: w.loopEnv(t), flags: flags}
	t.Cleanup(func() { p.clear() })
	p.start()
	return p
}

// start starts it, again if need be, and reads the one line that it prints.
func (p *plane) start() {
	t := p.w.t
	t.Helper()
	p.cmd, p.said, p.ended = exec.Command(needGander(t), append([]string{"serve", "--listen", "127.0.0.1:0"}, p.flags...)...), &bytes.Buffer{}, make(chan struct{})
	p.cmd.Dir, p.cmd.Stderr = p.w.dir, p.said
	for k, v := range p.env {
		p.cmd.Env = append(p.cmd.Env, k+"="+v)
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10)
	go func() {
		defer close(p.ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		_ = p.cmd.Wait() // how it ended is for the tests that ask
	}()
	select {
	case line := <-lines:
		address, fragment, ok := strings.Cut(line, "/#token=")
		if !ok {
			t.Fatalf("gander serve prints %q", line)
		}
		p.url, p.token = address, fragment
	case <-soon(t).Done():
		t.Fatalf("gander serve prints no address: %s", p.said)
	}
}

// kill kills it, and nothing that it has started.
func (p *plane) kill() {
	p.w.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.w.t.Fatal(err)
	}
	<-p.ended
}

// clear ends the runs that are left, and the control plane.
func (p *plane) clear() {
	for _, dir := range p.runDirs() {
		cmd := exec.Command(filepath.Join(staged.dir, "gander"), "--home", p.w.ganderHome(), "sandbox", "stop", "loop-"+filepath.Base(dir))
		_ = cmd.Run() // one that has ended cannot be stopped
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.ended
	gone(p.w.t, patience, p.keepers)
	if p.w.t.Failed() {
		for _, dir := range p.runDirs() {
			text, _ := os.ReadFile(filepath.Join(dir, "keeper.log"))
			p.w.t.Logf("%s:\n%s", dir, text)
		}
		p.w.t.Logf("gander serve: %s", p.said)
	}
}

func (p *plane) runDirs() []string {
	dirs, _ := filepath.Glob(filepath.Join(p.w.ganderHome(), "loop", "runs", "*"))
	return dirs
}

// keepers are the keepers' processes, of all runs of this home.
func (p *plane) keepers() []proc {
	return slices.DeleteFunc(processes(p.w.t), func(q proc) bool {
		return !strings.Contains(q.args, "loop keep") || !strings.Contains(q.args, p.w.ganderHome())
	})
}

// ask makes a request as the person and reads the answer into a value; the status is
// checked.
func (p *plane) ask(method, path string, body, into any, want int) {
	t := p.w.t
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(soon(t), method, p.url+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, text, err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

// A told is an event as the control plane has it.
type told struct {
	Seq       int64  `json:"seq"`
	RunID     string `json:"runId"`
	Iteration int64  `json:"iterationId"`
	Type      string `json:"type"`
	Summary   string `json:"summary"`
	Content   string `json:"content"`
	Status    string `json:"status"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
}

// A run is one that a test has started.
type run struct {
	p  *plane
	id string
	c  cell
}

// loop starts a run of a cell with a prompt.
func (p *plane) loop(c cell, prompt string, more map[string]any) *run {
	p.w.t.Helper()
	body := map[string]any{"agentType": c.agent.name, "sandbox": c.driver.name, "prompt": prompt, "pace": 1}
	maps.Copy(body, more)
	var started struct {
		RunID       string `json:"runId"`
		ContainerID string `json:"containerId"`
		Status      string `json:"status"`
	}
	p.ask("POST", "/api/sandbox/start", body, &started, http.StatusOK)
	if started.Status != "started" || started.ContainerID == "" {
		p.w.t.Fatalf("a start is answered with %+v", started)
	}
	return &run{p, started.RunID, c}
}

// events are all events of the run: 1, 2, 3, ..., or the test fails.
func (r *run) events() []told {
	r.p.w.t.Helper()
	var all []told
	for {
		var page struct{ Events []told }
		after := url.Values{"run": {r.id}, "after": {fmt.Sprint(len(all))}, "limit": {"500"}}
		r.p.ask("GET", "/api/telemetry/events?"+after.Encode(), nil, &page, http.StatusOK)
		if len(page.Events) == 0 {
			break
		}
		all = append(all, page.Events...)
	}
	for i, e := range all {
		if e.Seq != int64(i)+1 || e.RunID != r.id {
			r.p.w.t.Fatalf("event %d of %d is %+v", i+1, len(all), e)
		}
	}
	return all
}

// await waits for an event that fits, after some that are known, and returns it.
func (r *run) await(what string, after int64, fits func(told) bool) (found told) {
	r.p.w.t.Helper()
	var last []told
	defer func() {
		if found.Seq == 0 {
			for _, e := range last {
				r.p.w.t.Logf("%d %d %s %s %s %.300q", e.Seq, e.Iteration, e.Type, e.State, e.Status, e.Summary)
			}
		}
	}()
	eventually(r.p.w.t, fmt.Sprintf("%s of %v", what, r.c), func() bool {
		last = r.events()
		i := slices.IndexFunc(last, func(e told) bool { return e.Seq > after && fits(e) })
		if i >= 0 {
			found = last[i]
		}
		return i >= 0
	})
	return found
}

// newest is the newest event of a type.
func (r *run) newest(kind string) (found told) {
	r.p.w.t.Helper()
	for _, e := range r.events() {
		if e.Type == kind {
			found = e
		}
	}
	return found
}

// open is the beginning of the iteration that goes on, whose command waits: everything
// before it has been told when nothing comes any more.
func (r *run) open() (begun told) {
	r.p.w.t.Helper()
	const still = 500 * time.Millisecond
	known, since := -1, time.Now()
	eventually(r.p.w.t, "an iteration to be under way and told", func() bool {
		all := r.events()
		if len(all) != known {
			known, since = len(all), time.Now()
		}
		begun = told{}
		for _, e := range all {
			switch e.Type {
			case "iteration_start":
				begun = e
			case "iteration_end":
				begun = told{}
			}
		}
		return begun.Seq != 0 && time.Since(since) > still
	})
	return begun
}

// last is the number of the newest event.
func (r *run) last() int64 {
	r.p.w.t.Helper()
	return int64(len(r.events()))
}

// order tells the control plane to do something with the run.
func (r *run) order(what string) {
	r.p.w.t.Helper()
	r.p.ask("POST", "/api/sandbox/"+what, map[string]string{"runId": r.id}, nil, http.StatusOK)
}

// keeper is the process of the run's keeper.
func (r *run) keeper() proc {
	r.p.w.t.Helper()
	var all []proc
	eventually(r.p.w.t, "the run to have one keeper", func() bool { // a child that is still to become another program looks like one
		all = slices.DeleteFunc(r.p.keepers(), func(q proc) bool { return !strings.Contains(q.args, r.id) })
		return len(all) == 1
	})
	return all[0]
}

// inside are the processes of the run's sandbox.
func (r *run) inside() []proc {
	t := r.p.w.t
	t.Helper()
	all := descendants(t, r.keeper().pid)
	if r.c.driver.containers == nil {
		return all
	}
	for _, pid := range dockerRoots(t, r.containers()) {
		if p, ok := readProc(pid); ok {
			all = append(append(all, p), descendants(t, pid)...)
		}
	}
	return all
}

// containers are the run's.
func (r *run) containers() []string {
	return strings.Fields(docker(r.p.w.t, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label=gander.label.gander.run="+r.id))
}

// strike kills the first process inside whose arguments have a text.
func (r *run) strike(text string, but ...string) {
	t := r.p.w.t
	t.Helper()
	eventually(t, text+" to run", func() bool {
		for _, q := range r.inside() {
			if strings.Contains(q.args, text) && !slices.ContainsFunc(but, func(b string) bool { return strings.Contains(q.args, b) }) {
				q.kill(t)
				return true
			}
		}
		return false
	})
}

// ends are the numbers of iterations by how often they ended.
func ends(all []told) map[int64]int {
	n := map[int64]int{}
	for _, e := range all {
		if e.Type == "iteration_end" {
			n[e.Iteration]++
		}
	}
	return n
}

// checkWhole fails unless every iteration that began has ended once, in order, and the
// spool's last event is the control plane's.
func (r *run) checkWhole() {
	t := r.p.w.t
	t.Helper()
	all := r.events()
	var open int64
	for _, e := range all {
		switch e.Type {
		case "iteration_start":
			if open != 0 {
				t.Errorf("iteration %d begins while %d is open", e.Iteration, open)
			}
			open = e.Iteration
		case "iteration_end":
			if open != e.Iteration {
				t.Errorf("iteration %d ends while %d is open", e.Iteration, open)
			}
			open = 0
		}
	}
	for n, times := range ends(all) {
		if times != 1 {
			t.Errorf("iteration %d ends %d times", n, times)
		}
	}
	if open != 0 {
		t.Errorf("iteration %d never ends", open)
	}
	if kept := spooled(t, filepath.Join(r.p.w.ganderHome(), "loop", "runs", r.id, "spool")); kept != int64(len(all)) {
		t.Errorf("the spool has %d events, the control plane %d", kept, len(all))
	}
}

// spooled is the number of the last event that was ever in a spool.
func spooled(t *testing.T, dir string) (last int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no spool in %s: %v", dir, err)
	}
	slices.Sort(files)
	newest := files[len(files)-1]
	if _, err := fmt.Sscanf(filepath.Base(newest), "%d.jsonl", &last); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	return last - 1 + int64(bytes.Count(text, []byte("\n")))
}
