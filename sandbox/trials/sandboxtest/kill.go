package sandboxtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

// shape is a way to escape being killed. The script prints "ready" when it has
// done what it does, and its processes carry the mark of its environment.
type shape struct {
	name   string
	script string
}

func shapes() []shape {
	return []shape{
		{"plain", `sleep 1000 & echo ready; wait`},
		{"setsid", `setsid sleep 1000 & setsid sh -c 'setsid sleep 1000 & sleep 1000' & sleep 0.1; echo ready; wait`},
		{"nohup", `nohup sleep 1000 >/dev/null 2>&1 & echo ready; exit 0`},
		{"double fork", `(setsid sh -c '(sleep 1000 >/dev/null 2>&1 &) ; exit 0' &) ; sleep 0.1; echo ready; exit 0`},
		{"daemon", `(setsid sh -c 'cd /; exec </dev/null >/dev/null 2>&1; (setsid sleep 1000 &) & exit 0' &) & sleep 0.1; echo ready; exit 0`},
		{"trap", `trap '' TERM HUP INT QUIT; sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' & echo ready; while :; do sleep 1; done`},
		{"fan-out", `i=0; while [ $i -lt 50 ]; do setsid sleep 1000 & i=$((i+1)); done; echo ready; wait`},
		{"stopped", `sleep 1000 & kill -STOP $!; echo ready; wait`},
		{"respawn", `respawn() { while :; do sleep 1000; done; }; respawn & respawn & echo ready; wait`},
		{"runner", runner + ` echo ready; wait`},
		{"runners", runner + runner + runner + ` echo ready; wait`},
	}
}

// runner replaces itself by a child all the time.
const runner = `run() { sh -c "$RUN" & exit 0; }; RUN='sh -c "$RUN" & exit 0'; export RUN; (setsid sh -c "$RUN" </dev/null >/dev/null 2>&1 &);`

func testKillShapes(t *testing.T, sb sandbox.Sandbox) {
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			mark := Mark()
			p := Start(t, sb, s.script, mark)
			readLine(t, p.Stdout())
			Eventually(t, "the shape lives", patience, func() bool { return len(Survivors(mark)) > 0 })
			begin := time.Now()
			Kill(t, p)
			t.Logf("killed in %v", time.Since(begin))
			if left := Survivors(mark); len(left) > 0 {
				t.Errorf("survivors: %q", left)
			}
			Wait(t, p)
		})
	}
}

// testKillTogether kills commands at the same moment, that fork all the time and
// have stopped what watches them, and starts others afterwards.
func testKillTogether(t *testing.T, sb sandbox.Sandbox) {
	for round := range 3 {
		mark := Mark()
		var ps []sandbox.Process
		for range 4 {
			p := Start(t, sb, runner+` kill -STOP $PPID; echo ready; wait`, mark)
			readLine(t, p.Stdout())
			ps = append(ps, p)
		}
		var wg sync.WaitGroup
		for _, p := range ps {
			wg.Go(func() { Kill(t, p) })
		}
		wg.Wait()
		if left := Survivors(mark); len(left) > 0 {
			t.Errorf("round %d: survivors: %q", round, left)
		}
		for range 3 { // more than wait for a command
			p := Start(t, sb, "echo ready", mark)
			readLine(t, p.Stdout())
			Wait(t, p)
		}
	}
}

// testStopped stops everything from inside; the sandbox serves on. Without a
// namespace that would be everything on this machine.
func testStopped(t *testing.T, sb sandbox.Sandbox) {
	if !sb.Info().Isolated {
		t.Fatal("this would stop everything on the machine")
	}
	mark := Mark()
	stopper := Start(t, sb, `trap '' TERM; kill -STOP -1; echo stopped; wait`, mark)
	readLine(t, stopper.Stdout())
	p := Start(t, sb, "echo ready", mark)
	readLine(t, p.Stdout())
	Wait(t, p)
	Kill(t, stopper)
	if left := Survivors(mark); len(left) > 0 {
		t.Errorf("survivors: %q", left)
	}
}

// testKillSince spares what is older than the mark, and infrastructure, but
// nothing that these started later.
func testKillSince(t *testing.T, sb sandbox.Sandbox) {
	old, late, infra := Mark(), Mark(), Mark()
	agent := StartCommand(t, sb, sandbox.Command{
		Args: []string{"/bin/sh", "-c", `while read -r mark; do GANDER_TEST_MARK=$mark setsid sleep 1000 & echo done; done`},
		Env:  Env(), Infrastructure: true,
	})
	older := StartCommand(t, sb, sandbox.Command{Args: []string{"sleep", "1000"}, Env: Env(old)})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := sb.Mark(ctx)
	if err != nil {
		t.Fatal(err)
	}
	later := Start(t, sb, "setsid sleep 1000 & echo ready; wait", late)
	readLine(t, later.Stdout())
	helper := StartCommand(t, sb, sandbox.Command{Args: []string{"sleep", "1000"}, Env: Env(infra), Infrastructure: true})
	_, _ = agent.Stdin().Write([]byte(late[len("GANDER_TEST_MARK="):] + "\n"))
	readLine(t, agent.Stdout())

	r, err := sb.KillSince(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	if left := Survivors(late); len(left) > 0 {
		t.Errorf("born after the mark and alive: %q", left)
	}
	if r.Killed < 3 || r.Duration <= 0 {
		t.Errorf("report %+v, want at least 3 killed", r)
	}
	for what, mark := range map[string]string{"older": old, "infrastructure": infra} {
		if len(Survivors(mark)) != 1 {
			t.Errorf("%s processes were killed", what)
		}
	}
	if st := Wait(t, later); st.Signal != "KILL" {
		t.Errorf("the later command: %+v", st)
	}
	_, _ = agent.Stdin().Write([]byte("x\n"))
	if got := readLine(t, agent.Stdout()); got != "done" {
		t.Errorf("the agent answers %q", got)
	}
	for _, p := range []sandbox.Process{agent, older, helper} {
		Kill(t, p)
	}
	if left := Survivors(old); len(left) > 0 {
		t.Errorf("after Kill: %q", left)
	}
}

func testKillSinceShapes(t *testing.T, sb sandbox.Sandbox) {
	agent := StartCommand(t, sb, sandbox.Command{
		Args: []string{"/bin/sh", "-c", `while read -r line; do sh -c "$SCRIPT"; done`}, Env: Env(), Infrastructure: true,
	})
	defer Kill(t, agent)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			mark := Mark()
			m, err := sb.Mark(ctx)
			if err != nil {
				t.Fatal(err)
			}
			p := Start(t, sb, s.script, mark)
			readLine(t, p.Stdout())
			r, err := sb.KillSince(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("killed %d in %v", r.Killed, r.Duration)
			if left := Survivors(mark); len(left) > 0 {
				t.Errorf("survivors: %q", left)
			}
			Kill(t, p)
		})
	}
}
