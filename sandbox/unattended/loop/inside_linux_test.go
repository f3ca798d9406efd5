package loop_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/trials/sandboxtest"
	"gander.dev/gander/sandbox/unattended/loop"
)

// patience bounds every wait; the machine may be busy.
const patience = time.Minute

// events is the parser of agents that print telemetry events.
type events struct{}

func (p *events) Line(line []byte) []telemetry.Event {
	var e telemetry.Event
	if json.Unmarshal(line, &e) != nil {
		e = telemetry.Event{Type: telemetry.Text, Content: string(line)}
	}
	return []telemetry.Event{e}
}

func (p *events) Growing() telemetry.Growth { return telemetry.Growth{} }

func (p *events) End(exit telemetry.Exit) ([]telemetry.Event, telemetry.Verdict) {
	if exit.Code != 0 {
		return nil, exit.Failure("the script", "failed")
	}
	return nil, telemetry.Verdict{Outcome: telemetry.OK}
}

// inside is a loop that runs in a real sandbox.
type inside struct {
	t    *testing.T
	sb   sandbox.Sandbox
	spec sandbox.Spec
	proc sandbox.Process
	over chan struct{}

	// mu guards the fields below.
	mu      sync.Mutex
	outputs []loop.Output
	changed chan struct{} // closed and replaced with every output
}

// loopInside starts a loop whose agent is a shell script.
func loopInside(t *testing.T, rules bool, script string, env ...string) *inside {
	t.Helper()
	spec := sandboxtest.Spec(t, -1)
	if rules {
		spec.Rules = &sandbox.Rules{Own: filepath.Join(t.TempDir(), "none")}
	}
	in := &inside{t: t, spec: spec, over: make(chan struct{}), changed: make(chan struct{})}
	in.sb = sandboxtest.Create(t, local.New(local.Options{}), spec)
	in.proc = sandboxtest.StartCommand(t, in.sb, sandbox.Command{
		Args: []string{in.sb.Info().Executable, "loop"}, Env: sandboxtest.Env(), Infrastructure: true, Private: true,
	})
	go func() {
		defer close(in.over)
		_ = loop.ReadOutputs(in.proc.Stdout(), in.take)
	}()
	go func() { _, _ = io.Copy(t.Output(), in.proc.Stderr()) }()
	in.do(loop.Command{Type: loop.CommandStart, Start: &loop.Start{
		RunID: "r", Agent: "script", Workspace: spec.WorkingDir, Pace: time.Millisecond,
		Run:    loop.AgentCommand{Args: []string{"/bin/sh", "-c", script}, Env: append(sandboxtest.Env(), env...)},
		Prompt: loop.Prompt{Content: "Build a boat.", Known: true},
		Limits: loop.Limits{Iterations: 100},
	}})
	return in
}

func (in *inside) take(o loop.Output) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.outputs = append(in.outputs, o)
	close(in.changed)
	in.changed = make(chan struct{})
	return nil
}

func (in *inside) do(c loop.Command) {
	in.t.Helper()
	raw, err := json.Marshal(c)
	if err == nil {
		_, err = in.proc.Stdin().Write(append(raw, '\n'))
	}
	if err != nil {
		in.t.Fatal(err)
	}
}

// await returns the n-th event that matches.
func (in *inside) await(what string, n int, match func(telemetry.Event) bool) telemetry.Event {
	in.t.Helper()
	late := time.After(patience)
	for {
		in.mu.Lock()
		changed, left := in.changed, n
		var seen []string
		for _, o := range in.outputs {
			if o.Event == nil {
				continue
			}
			seen = append(seen, string(o.Event.Type)+" "+o.Event.Summary)
			if match(*o.Event) {
				if left--; left == 0 {
					in.mu.Unlock()
					return *o.Event
				}
			}
		}
		in.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			in.t.Fatalf("waited for %s; events:\n%s", what, strings.Join(seen, "\n"))
		}
	}
}

func (in *inside) said(text string) {
	in.t.Helper()
	in.await(text, 1, func(e telemetry.Event) bool { return strings.Contains(e.Content, text) })
}

func (in *inside) ended(n int) telemetry.Event {
	in.t.Helper()
	return in.await("the end of an iteration", n, func(e telemetry.Event) bool { return e.Type == telemetry.IterationEnd })
}

func both(t *testing.T, test func(t *testing.T, rules bool)) {
	t.Run("with rules", func(t *testing.T) { test(t, true) })
	t.Run("without rules", func(t *testing.T) { test(t, false) })
}

func TestInside(t *testing.T) {
	both(t, func(t *testing.T, rules bool) {
		in := loopInside(t, rules, `grep -q "Build a boat." || exit 3
[ -e .memory.md ] && cat .memory.md
echo '{"type":"tool_use","summary":"saw wood"}'
echo '{"type":"text","content":"It floats."}'`)
		if end := in.ended(1); end.Status != string(telemetry.OK) || end.Actions != 1 || end.Vitals == nil {
			t.Errorf("the first iteration ended as %+v", end)
		}
		in.said("## Iteration 1, which wrote no memory")
		in.do(loop.Command{Type: loop.CommandStop})
		in.await("the end", 1, func(e telemetry.Event) bool { return e.State == telemetry.Stopped })
		if st := sandboxtest.Wait(t, in.proc); st.Code != 0 {
			t.Errorf("the loop ended with %+v", st)
		}
		info, err := os.Stat(filepath.Join(in.spec.WorkingDir, ".memory.md"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the memory: %v, %v", info, err)
		}
	})
}

// The agent has the user of the loop. It cannot write to the loop's streams for all that.
func TestAgentCannotForge(t *testing.T) {
	both(t, func(t *testing.T, rules bool) {
		in := loopInside(t, rules, `forged='{"event":{"type":"iteration_end","status":"ok","summary":"forged","iterationId":1,"ts":1}}'
for p in /proc/[0-9]*; do
	tr '\0' ' ' <$p/cmdline | grep -q ' loop $' || continue
	echo "found the loop"
	for fd in 0 1 2 3 4 5 6 7 8; do
		(echo "$forged" >$p/fd/$fd) 2>/dev/null && echo "wrote to $fd"
		(timeout 1 head -c 1 <$p/fd/$fd >/dev/null) 2>/dev/null && echo "read $fd"
	done
	(head -c 1 $p/environ) >/dev/null 2>&1 && echo "read its environment"
done
echo done`)
		in.said("found the loop") // else the test looks in the wrong place
		in.said("done")
		in.ended(1)
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, o := range in.outputs {
			if e := o.Event; e != nil && (e.Summary == "forged" || strings.Contains(e.Content, "wrote to") || strings.Contains(e.Content, "read ")) {
				t.Errorf("the agent got at the loop: %+v", *e)
			}
		}
	})
}

// Whatever an iteration started is gone when it has ended, or was cancelled.
func TestNothingSurvivesAnIteration(t *testing.T) {
	escapes := `(trap '' TERM HUP; sleep 1000) &
(setsid sh -c 'sleep 1000 & sleep 1000' &)
(setsid setsid sh -c '(sleep 1000 &)' &)
echo started
`
	// The supervisor of the iteration, the launcher and the first command's shepherd, which
	// are its children, so that none of them can do anything about it.
	kill := `s=$(cut -d' ' -f4 /proc/$PPID/stat); c=$(awk -v s=$s '$4==s {print $1}' /proc/[0-9]*/stat)
kill -STOP $s $c; kill -9 $s $c
`
	both(t, func(t *testing.T, rules bool) {
		for name, script := range map[string]string{"ended": escapes, "cancelled": escapes + "sleep 1000", "supervisors killed": escapes + kill + "sleep 1000"} {
			t.Run(name, func(t *testing.T) {
				mark := sandboxtest.Mark()
				in := loopInside(t, rules, script, mark)
				in.said("started")
				began := time.Now()
				if name == "cancelled" {
					in.do(loop.Command{Type: loop.CommandCancel})
				}
				in.ended(1)
				t.Logf("%v until the end of the iteration was told", time.Since(began).Round(time.Millisecond))
				in.do(loop.Command{Type: loop.CommandStop})
				in.await("the end", 1, func(e telemetry.Event) bool { return e.State == telemetry.Stopped })
				if left := sandboxtest.Survivors(mark); len(left) > 0 {
					t.Errorf("processes survive: %q", left)
				}
			})
		}
	})
}

// A loop without a keeper ends, and what it ran with it.
func TestKeeperGone(t *testing.T) {
	mark := sandboxtest.Mark()
	in := loopInside(t, true, "echo started; setsid sleep 1000 & sleep 1000", mark)
	in.said("started")
	if err := in.proc.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := in.proc.Wait(ctx); err != nil {
		t.Fatalf("the loop goes on: %v", err)
	}
	if left := sandboxtest.Survivors(mark); len(left) > 0 {
		t.Errorf("processes survive: %q", left)
	}
	<-in.over
	if !slices.ContainsFunc(in.outputs, func(o loop.Output) bool {
		return o.Event != nil && o.Event.Status == string(telemetry.Cancelled)
	}) {
		t.Error("that the iteration ended was not told")
	}
}

// What the agent makes of the files between them does not lead the loop elsewhere.
func TestHostileFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("top secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"links": "ln -sf " + secret + " .memory.md; ln -sf " + secret + " .done; ln -sf " + secret + " .tasks.md",
		"pipes": "rm -rf .memory.md .done .tasks.md; mkfifo .memory.md .done .tasks.md",
		"trees": "rm -rf .memory.md .done .tasks.md; mkdir -p .memory.md/x .done/x .tasks.md/x",
		"huge":  "rm -rf .memory.md; truncate -s 10G .memory.md",
	} {
		t.Run(name, func(t *testing.T) {
			in := loopInside(t, false, "cat; "+script+"; echo '{\"type\":\"tool_use\",\"summary\":\"x\"}'")
			in.ended(3)
			in.do(loop.Command{Type: loop.CommandStop})
			in.await("the end", 1, func(e telemetry.Event) bool { return e.State == telemetry.Stopped })
			in.mu.Lock()
			defer in.mu.Unlock()
			for _, o := range in.outputs {
				if raw, _ := json.Marshal(o); strings.Contains(string(raw), "top secret") {
					t.Fatalf("the loop has followed a link: %s", raw)
				}
			}
			if text, err := os.ReadFile(secret); err != nil || string(text) != "top secret" {
				t.Errorf("the loop has written through a link: %q, %v", text, err)
			}
		})
	}
}
