package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The recipe for an image by itself, as it is printed, on Docker's usual network: a control
// plane that containers reach by their name for this machine, the person's token, and a
// container that runs iterations until docker stops it. Then its run is dismissed and deleted.
func TestLoopRecipe(t *testing.T) {
	c := cell{agents[0], drivers[1]}
	c.driver.need(t)
	w := newWorld(t, c, 0)
	gateway := strings.TrimSpace(docker(t, "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", "bridge"))
	free, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
	need(t, err == nil, fmt.Sprintf("a network of Docker's by which containers reach this machine: %v", err))
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	inside := "host.docker.internal:" + port

	text, code := w.run(t, w.ganderEnv(nil), needGander(t), "loop", "recipe", "docker")
	serve := regexp.MustCompile(`(?m)^gander serve --listen 0\.0\.0\.0:3000 --allow-host host\.docker\.internal:3000$`)
	start := regexp.MustCompile(`(?ms)^export LLM_HOST=.*goku-sandbox-goose$`).FindString(text)
	if code != 0 || !serve.MatchString(text) || start == "" || strings.Count(start, ":3000") != 1 {
		t.Fatalf("gander loop recipe docker: %d, %s", code, text)
	}
	p := w.serve(t, "--listen", address, "--allow-host", inside)
	p.ask("PUT", "/api/prompt", map[string]string{"content": script(t, c.runs("echo wood >> log; cp log .memory.md; env; id -u"), says("Sawn."))}, nil, 200)

	work := w.mkdir("work")
	if err := os.Chmod(work, 0o777); err != nil { // the image's user is 1000
		t.Fatal(err)
	}
	name := "recipe-" + filepath.Base(w.dir)
	for _, r := range [][2]string{
		{"host.docker.internal:3000", inside},
		{"host.docker.internal:8000", modelOn(t, w, gateway)},
		{"LLM_API_KEY=", "LLM_API_KEY=" + canary},
		{"MODEL=NAME", "MODEL=scripted"},
		{"docker run --rm", "docker run --rm --name " + name},
		{"SLEEP=2", "SLEEP=0.1"},
	} {
		if !strings.Contains(start, r[0]) {
			t.Errorf("the recipe has no %q", r[0])
		}
		start = strings.Replace(start, r[0], r[1], 1)
	}
	var said bytes.Buffer
	cmd := exec.Command("bash", "-euc", start)
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, &said, &said
	cmd.Env = append(os.Environ(), "GANDER_HOME="+w.ganderHome())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = exec.Command("docker", "rm", "--force", "--volumes", name).Run()
		if ended != nil {
			<-ended
			t.Logf("docker run: %s", said.String())
		}
	})

	r := &run{p, "by-hand-1", c}
	eventually(t, "the container's run", func() bool {
		var list struct{ Runs []struct{ RunID string } }
		p.ask("GET", "/api/runs", nil, &list, 200)
		return len(list.Runs) == 1 && list.Runs[0].RunID == r.id
	})
	result := r.await("the result of a command", 0, func(e told) bool { return e.Type == "tool_result" })
	if !strings.Contains(result.Content, "1000") || strings.Contains(result.Content, p.token) {
		t.Errorf("the command says %q", result.Content)
	}
	first := r.await("an iteration", 0, completed)
	r.await("another one", first.Seq, completed)
	docker(t, "stop", "--time", "30", name)
	err, ended = <-ended, nil
	if err != nil {
		t.Errorf("docker run: %v: %s", err, said.String())
	}
	r.await("the end", first.Seq, func(e told) bool { return e.State == "stopped" })
	for _, step := range []string{"dismiss", "delete"} {
		if out, code := w.run(t, w.ganderEnv(nil), needGander(t), "loop", step, r.id); code != 0 {
			t.Errorf("gander loop %s %s: %d %s", step, r.id, code, out)
		}
	}
}

// modelOn has the world's model answer at another address of this machine, too.
func modelOn(t *testing.T, w *world, ip string) string {
	t.Helper()
	to, err := url.Parse(w.host)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(to))
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Listener, err = net.Listen("tcp", net.JoinHostPort(ip, "0")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return "host.docker.internal:" + port
}
