package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
)

// image is what the container rows run in.
const image = "goku-sandbox-goose:latest"

// needDocker ends the test where no daemon answers or an image is missing.
func (b *bench) needDocker() {
	b.t.Helper()
	err := exec.Command("docker", "image", "inspect", image, "goku-sandbox-opencode:latest").Run()
	need(b.t, err == nil, "there is no Docker daemon with the agents' images (make images)")
}

// opencodeConfig is a bare opencode's way to the model.
const opencodeConfig = `{"provider":{"custom":{"npm":"@ai-sdk/openai-compatible","name":"Custom",
"options":{"baseURL":"{env:LLM_BASE_URL}","apiKey":"{env:LLM_API_KEY}"},"models":{"gpt-4o":{"name":"gpt-4o"}}}},
"model":"custom/gpt-4o","enabled_providers":["custom"],"share":"disabled","autoupdate":false,"snapshot":false,
"agent":{"title":{"disable":true}}}`

// opencodeACP is opencode acp as an editor would start it.
func (w *world) opencodeACP() *exec.Cmd {
	return w.command([]string{
		"OPENCODE_CONFIG_CONTENT=" + opencodeConfig, "LLM_BASE_URL=" + w.host + "/v1", "LLM_API_KEY=" + w.key,
		"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
	}, w.opencode, "acp")
}

// ganderIn is bin/gander acp with an agent in a kind of sandbox.
func (w *world) ganderIn(agent, driver string) *exec.Cmd {
	cmd := w.ganderACP(w.goose)
	cmd.Args = append(cmd.Args, "--agent", agent, "--sandbox", driver)
	cmd.Env = append(cmd.Env, "GANDER_OPENCODE_CMD="+w.opencode, "OPENCODE_MODEL=gpt-4o")
	return cmd
}

// sameOpencode measures the start beside the slower agent.
func (b *bench) sameOpencode() {
	var ours, theirs samples
	side := func(cmd func() *exec.Cmd, s *samples) func() {
		return func() {
			c := start(b.t, cmd())
			defer c.stop()
			c.initialize()
			s.took(c.begun)
		}
	}
	gander := side(func() *exec.Cmd { return b.ganderIn("opencode", "local") }, &ours)
	opencode := side(b.opencodeACP, &theirs)
	gander()
	opencode()
	ours, theirs = nil, nil
	alternate(b.runs(11), gander, opencode)
	b.table.atMost(0.02, pair{"spawn → `initialize` reply, beside `opencode acp`", ours, theirs, inMS})
}

// samePromptInDocker is samePrompt with the agent in a container.
func (b *bench) samePromptInDocker() {
	ours, theirs := b.warm(b.ganderIn("goose", "docker")), b.warm(b.gooseACP())
	defer ours.stop()
	defer theirs.stop()
	var with, without samples
	side := func(c *client, s *samples) func() {
		return func() {
			begun := time.Now()
			c.finish("Hello.", nil)
			s.took(begun)
		}
	}
	alternate(b.runs(60), side(ours, &with), side(theirs, &without))
	b.table.within(20, pair{"prompt round trip in a container, beside `goose acp` outside", with, without, inMS})
}

// openContainer makes a sandbox that is a container.
func (b *bench) openContainer() sandbox.Sandbox {
	b.t.Helper()
	driver := docker.New(docker.Options{Executable: b.gander, Image: func(string) string { return image }})
	sb, err := driver.Create(b.t.Context(), sandbox.Spec{ID: "bench-container", WorkingDir: b.mkdir("contained"), Home: b.mkdir("contained-home")})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = sb.Close() })
	return sb
}

// sameContainerStart measures a process in a container that runs already.
func (b *bench) sameContainerStart() {
	sb := b.openContainer()
	defer sb.Close()
	id := b.plainContainer()
	var inside, plain samples
	ours := func() {
		begun := time.Now()
		b.finishIn(sb, "bash", "-c", "true")
		inside.took(begun)
	}
	theirs := func() {
		begun := time.Now()
		_, err := exec.Command("docker", "exec", id, "bash", "-c", "true").CombinedOutput()
		plain.took(begun)
		if err != nil {
			b.t.Fatal(err)
		}
	}
	alternate(2, ours, theirs)
	b.table.atMost(0.2, b.bounded(0.2, func() pair {
		inside, plain = nil, nil
		alternate(b.rounds(30, 9), ours, theirs)
		return pair{"process start to end in a warm container, beside `docker exec`", inside, plain, inMS}
	}))
}

// plainContainer starts a container without gander, and returns its id.
func (b *bench) plainContainer() string {
	b.t.Helper()
	out, err := exec.Command("docker", "run", "-d", "--rm", "--network", "none", image, "sleep", "3600").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	b.t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.WithoutCancel(b.t.Context()), patience)
		defer done()
		if err := exec.CommandContext(ctx, "docker", "kill", id).Run(); err != nil {
			b.t.Errorf("the plain container is left: %v", err)
		}
	})
	return id
}

// finishIn runs a command in a sandbox until all of it is known.
func (b *bench) finishIn(sb sandbox.Sandbox, args ...string) {
	b.t.Helper()
	p := b.run(sb, args...)
	_, outErr := io.Copy(io.Discard, p.Stdout())
	_, errErr := io.Copy(io.Discard, p.Stderr())
	status, err := p.Wait(b.t.Context())
	if err := errors.Join(outErr, errErr, err); err != nil || status.Code != 0 {
		b.t.Fatalf("%v in the sandbox: code %d, %v", args, status.Code, err)
	}
}

// bulk is how much goes through a program's stdin and stdout.
const bulk = 64 << 20

// sameStdio measures bytes through cat, in and out, in both kinds of sandbox.
func (b *bench) sameStdio() {
	local, container := b.openSandbox(), b.openContainer()
	defer local.Close()
	defer container.Close()
	var inLocal, inPipes, inContainer, attached samples
	bare := func() *exec.Cmd { return exec.Command("bash", "-c", "cat | cat") }
	attach := func() *exec.Cmd {
		return exec.Command("docker", "run", "-i", "--rm", "--network", "none", image, "cat")
	}
	sides := []func(){
		func() { inLocal.add(b.throughSandbox(local)) }, func() { inPipes.add(b.throughCommand(bare())) },
		func() { inContainer.add(b.throughSandbox(container)) }, func() { attached.add(b.throughCommand(attach())) },
	}
	alternate(b.runs(9), sides...)
	b.table.atLeast(0.3, pair{"stdio through a local sandbox, beside `cat | cat`", inLocal, inPipes, megabytesPerSecond})
	b.table.atLeast(0.5, pair{"stdio through a container, beside `docker run -i`", inContainer, attached, megabytesPerSecond})
}

func (b *bench) throughSandbox(sb sandbox.Sandbox) float64 {
	b.t.Helper()
	p, err := sb.Start(b.t.Context(), sandbox.Command{Args: []string{"cat"}, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		b.t.Fatal(err)
	}
	rate := b.through(p.Stdin(), p.Stdout())
	if status, err := p.Wait(b.t.Context()); err != nil || status.Code != 0 {
		b.t.Fatalf("cat in the sandbox: code %d, %v", status.Code, err)
	}
	return rate
}

func (b *bench) throughCommand(cmd *exec.Cmd) float64 {
	b.t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	rate := b.through(in, out)
	if err := cmd.Wait(); err != nil {
		b.t.Fatal(err)
	}
	return rate
}

// through echoes a byte, so that everything runs, and then measures the bytes per
// second that come back.
func (b *bench) through(in io.WriteCloser, out io.Reader) float64 {
	b.t.Helper()
	one := []byte{'x'}
	if _, err := in.Write(one); err != nil {
		b.t.Fatal(err)
	}
	if _, err := io.ReadFull(out, one); err != nil {
		b.t.Fatal(err)
	}
	begun := time.Now()
	wrote := make(chan error, 1)
	go func() { // ends with the writing, which is waited for below
		_, err := io.Copy(in, io.LimitReader(endless{}, bulk))
		wrote <- errors.Join(err, in.Close())
	}()
	n, err := io.Copy(io.Discard, out)
	took := time.Since(begun)
	if err := errors.Join(err, <-wrote); err != nil || n != bulk {
		b.t.Fatalf("%d of %d bytes came back, %v", n, bulk, err)
	}
	return bulk / took.Seconds()
}

// endless is a source of the same byte.
type endless struct{}

var manyBytes = bytes.Repeat([]byte{'x'}, 64<<10)

func (endless) Read(p []byte) (int, error) { return copy(p, manyBytes), nil }

func megabytesPerSecond(v float64) string { return inMB(v) + "/s" }

// coldStart tells how long a person waits for the first answer of all: from the
// start of gander to the end of the first turn.
func (b *bench) coldStart() {
	for _, driver := range []string{"local", "docker"} {
		for _, agent := range []string{"goose", "opencode"} {
			var s samples
			for range b.rounds(5, 1) { // it has no limit
				c := start(b.t, b.ganderIn(agent, driver))
				c.open(c.cmd.Dir)
				c.finish("Hello.", nil)
				s.took(c.begun)
				c.stop()
			}
			b.table.say("spawn → end of the first turn, "+agent+" in "+driver, s, inMS)
		}
	}
}
