package local_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/trials/sandboxtest"
	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// stranger is a user that no machine has.
const stranger = 12345

func options(t *testing.T) local.Options {
	return local.Options{Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

func newLocal(t *testing.T) sandbox.Driver { return local.New(options(t)) }

func newOff(t *testing.T) sandbox.Driver { return local.NewOff(options(t)) }

func newRefused(t *testing.T) sandbox.Driver {
	o := options(t)
	o.RefuseNamespaces = true
	return weaker{local.New(o)}
}

// weaker is a driver whose sandboxes may be weaker.
type weaker struct{ sandbox.Driver }

func (d weaker) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if spec.Rules != nil {
		rules := *spec.Rules
		rules.Optional, spec.Rules = true, &rules
	}
	return d.Driver.Create(ctx, spec)
}

// owners are whom projects belong to in tests: oneself, and for root a stranger too.
func owners() map[string]int {
	if os.Geteuid() == 0 {
		return map[string]int{"root's project": -1, "user's project": stranger}
	}
	return map[string]int{"own project": -1}
}

// oneOwner returns the owner for tests whose result hardly depends on whom a project belongs
// to: for root the stranger, in soak both.
func oneOwner() map[string]int {
	all := owners()
	if !inFull() {
		delete(all, "root's project")
	}
	return all
}

// inFull reports whether tests run whose result does not depend on who runs them: for an
// ordinary user always, who is also in TestAsOrdinaryUser, and for root in soak.
func inFull() bool { return os.Geteuid() != 0 || sandboxtest.Everywhere() }

func needFull(t *testing.T) {
	t.Helper()
	if !inFull() {
		sandboxtest.OnlyEverywhere(t)
	}
}

// drivers are the kinds of sandboxes whose commands are started and killed.
func drivers() map[string]sandboxtest.NewDriver {
	if !inFull() {
		return map[string]sandboxtest.NewDriver{"local": newLocal}
	}
	return map[string]sandboxtest.NewDriver{"local": newLocal, "off": newOff, "refused": newRefused}
}

func TestDriver(t *testing.T) {
	for name, newDriver := range drivers() {
		for whose, owner := range owners() {
			t.Run(name+"/"+whose, func(t *testing.T) { sandboxtest.TestDriver(t, newDriver, owner) })
		}
	}
}

func TestKills(t *testing.T) {
	for name, newDriver := range drivers() {
		for whose, owner := range oneOwner() {
			t.Run(name+"/"+whose, func(t *testing.T) { sandboxtest.TestKills(t, newDriver, owner, nil) })
		}
	}
}

func TestRules(t *testing.T) {
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestRules(t, newLocal, owner) })
	}
	for whose, owner := range oneOwner() {
		t.Run(whose+", no namespaces", func(t *testing.T) { sandboxtest.TestRules(t, newRefused, owner) })
	}
}

func TestReadOnly(t *testing.T) {
	if inFull() {
		t.Run("controls", sandboxtest.TestReadOnlyControls)
	}
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestReadOnly(t, newLocal, owner) })
	}
	for name, newDriver := range map[string]sandboxtest.NewDriver{"off": newOff, "refused": newRefused} {
		t.Run(name, func(t *testing.T) {
			spec := sandboxtest.Spec(t, -1)
			spec.ReadOnly, spec.Rules = true, nil
			if _, err := newDriver(t).Create(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "cannot keep the project from being written") {
				t.Errorf("a sandbox was made that keeps nobody from writing: %v", err)
			}
		})
	}
}

func TestWrites(t *testing.T) {
	needFull(t)
	t.Run("controls", sandboxtest.TestWriteControls)
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestWrites(t, newLocal, owner) })
	}
	t.Run("no namespaces", func(t *testing.T) { sandboxtest.TestWrites(t, newRefused, -1) })
}

func TestCloseGit(t *testing.T) {
	for whose, owner := range oneOwner() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestCloseGit(t, newLocal, owner) })
	}
}

func TestOrdinaryWork(t *testing.T) {
	needFull(t)
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestOrdinaryWork(t, newLocal, owner) })
	}
}

func TestDownloads(t *testing.T) {
	needFull(t)
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestDownloads(t, newLocal, owner) })
	}
}

func TestHideGit(t *testing.T) {
	needFull(t)
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestHideGit(t, newLocal, owner, true) })
		t.Run(whose+", around it", func(t *testing.T) { sandboxtest.TestHideGitAround(t, newLocal, owner) })
	}
	t.Run("no namespaces", func(t *testing.T) { sandboxtest.TestHideGit(t, newRefused, -1, false) })
}

func TestHostEnvironment(t *testing.T) {
	for whose, owner := range oneOwner() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestHostEnvironment(t, newLocal, owner) })
	}
}

func TestRulesFollow(t *testing.T) {
	for whose, owner := range oneOwner() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestRulesFollow(t, newLocal, owner) })
	}
}

func TestIsolation(t *testing.T) {
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestIsolation(t, newLocal, owner) })
	}
}

// TestAsOrdinaryUser runs this package's tests again as a user without rights, who can
// seldom make cgroups. Allowed hosts need a network that is closed off.
func TestAsOrdinaryUser(t *testing.T) {
	usertest.Run(t, usertest.Options{MaySkip: []string{"TestBoundsThatTheKernelDoesNotTake", "TestConsumption", "TestCPULimit", "TestOneBound", "TestSupervisorIsFree", "TestRealV2", "TestDriver/off/own_project/Road", "TestDriver/refused/own_project/Road", "TestDriver/off/own_project/Ports", "TestDriver/refused/own_project/Ports"}})
}

// TestRefusedSaysSo: the weaker sandbox must not look like the strong one.
func TestRefusedSaysSo(t *testing.T) {
	o := options(t)
	o.RefuseNamespaces = true
	sb0, err := local.New(o).Create(t.Context(), sandboxtest.Spec(t, -1))
	if err == nil {
		_ = sb0.Close()
		t.Error("a weaker sandbox was made although nobody permitted it")
	} else if !strings.Contains(err.Error(), "--allow-weaker") {
		t.Errorf("the refusal does not say what to do: %v", err)
	}
	sb := sandboxtest.Create(t, newRefused(t), sandboxtest.Spec(t, -1))
	info := sb.Info()
	if len(info.Weaker) == 0 || strings.Contains(info.Isolation, "network") || !strings.Contains(strings.Join(info.Warnings, " "), "NOT closed off") {
		t.Errorf("a weak sandbox says %q and warns %q", info.Isolation, info.Warnings)
	}
	if !strings.Contains(strings.Join(info.Warnings, " "), "that .gooseignore names are closed all the same") {
		t.Errorf("it does not say that closed files are: %q", info.Warnings)
	}
}

// TestEnforcement: what is said to keep closed files is what does.
func TestEnforcement(t *testing.T) {
	kernel, open := sandbox.Enforcement{Closed: sandbox.ByKernel, Protected: sandbox.ByKernel}, sandbox.Enforcement{Closed: sandbox.Open, Protected: sandbox.Open}
	for _, tt := range []struct {
		name      string
		newDriver sandboxtest.NewDriver
		rules     *sandbox.Rules
		want      sandbox.Enforcement
	}{
		{"local", newLocal, &sandbox.Rules{}, kernel},
		{"no namespaces", newRefused, &sandbox.Rules{}, kernel},
		{"no rules", newLocal, nil, open},
		{"off", newOff, &sandbox.Rules{}, open},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := sandboxtest.Spec(t, -1)
			spec.Rules = tt.rules
			if err := os.WriteFile(filepath.Join(spec.WorkingDir, ".env"), []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
			sb := sandboxtest.Create(t, tt.newDriver(t), spec)
			if got := sb.Info().Enforcement; got != tt.want {
				t.Errorf("it says %+v, want %+v", got, tt.want)
			}
			if out, _, _ := sandboxtest.Run(t, sb, "cat .env"); (out == "secret") != (tt.want == open) {
				t.Errorf("a closed file reads as %q", out)
			}
		})
	}
}

// TestSupervisorSaysWhyItEnds: who is asked to open a session learns why there is no sandbox.
func TestSupervisorSaysWhyItEnds(t *testing.T) {
	o := options(t)
	o.Executable = "/bin/ls" // which knows no such file
	dir := t.TempDir()
	_, err := local.NewOff(o).Create(t.Context(), sandbox.Spec{ID: "ends", WorkingDir: dir, Home: dir})
	if err == nil || !strings.Contains(err.Error(), "it said: ") || !strings.Contains(err.Error(), supervise.Verb) {
		t.Errorf("%v, want what ls said of %s", err, supervise.Verb)
	}
}

// TestHostDies kills the process that holds a sandbox: nothing may survive it.
func TestHostDies(t *testing.T) {
	for _, driver := range []string{"local", "off", "refused"} {
		t.Run(driver, func(t *testing.T) {
			mark := sandboxtest.Mark()
			spec := sandboxtest.Spec(t, -1)
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Env = []string{holderEnv + "=" + driver, "DIR=" + spec.WorkingDir, "SANDBOX_MARK=" + mark, "STATE=" + t.TempDir()}
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("the holder says %q: %v", line, err)
			}
			if len(sandboxtest.Survivors(mark)) == 0 {
				t.Fatal("nothing runs")
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			sandboxtest.Eventually(t, "everything is gone", 3*time.Second, func() bool { return len(sandboxtest.Survivors(mark)) == 0 })
		})
	}
}

const holderEnv = "GANDER_TEST_HOLDER"

// holdSandbox is the process that TestHostDies kills.
func holdSandbox() int {
	o := local.Options{StateDir: os.Getenv("STATE")}
	var d *local.Driver
	switch os.Getenv(holderEnv) {
	case "off":
		d = local.NewOff(o)
	case "refused":
		o.RefuseNamespaces = true
		fallthrough
	default:
		d = local.New(o)
	}
	ctx := context.Background()
	sb, err := d.Create(ctx, sandbox.Spec{ID: "held", WorkingDir: os.Getenv("DIR")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p, err := sb.Start(ctx, sandbox.Command{
		Args: []string{"/bin/sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &); sleep 0.1; echo ready; while :; do sleep 1; done"},
		Env:  sandboxtest.Env(os.Getenv("SANDBOX_MARK")),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(os.Stdout, p.Stdout())
	return 0
}
