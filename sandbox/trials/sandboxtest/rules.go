package sandboxtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

// TestRules tests that files which rules close are closed to commands, and tells
// of it; owner is as for TestDriver.
func TestRules(t *testing.T, newDriver NewDriver, owner int) {
	const secret = "closed-by-rules-7391"
	spec := Spec(t, owner)
	own := filepath.Join(t.TempDir(), "own")
	plant := func(name, text string) {
		t.Helper()
		path := filepath.Join(spec.WorkingDir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(own, []byte("*.mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plant(".gooseignore", "*.pem\nprivate/\n")
	for _, name := range []string{"a.pem", "sub/b.pem", "private/key", "x.mine"} {
		plant(name, secret)
	}
	plant("open", "open")
	plant("ruled/.gooseignore", "key\n")
	plant("ruled/key", secret)
	plant("linked/mine", "key\n")
	plant("linked/key", secret)
	if err := os.Symlink("mine", filepath.Join(spec.WorkingDir, "linked/.gooseignore")); err != nil {
		t.Fatal(err)
	}
	denials := make(chan sandbox.Denial, 100)
	spec.Rules = &sandbox.Rules{Own: own, Denied: func(d sandbox.Denial) { denials <- d }}
	sb := Create(t, newDriver(t), spec)
	if e := sb.Info().Enforcement; e.Closed != sandbox.ByKernel || e.Protected != sandbox.ByKernel {
		t.Errorf("rules are said to be kept by %+v", e)
	}

	// A directory with rules that nobody has asked for yet, at a place that was known to have none.
	if out, errs, st := Run(t, sb, "mkdir known && echo x >known/x && cat known/x && rm -r known && mv ruled known && cat known/key"); strings.Contains(out, secret) || !strings.HasPrefix(out, "x") || st.Code == 0 {
		t.Errorf("a moved directory with rules of its own: %q, %q, %+v", out, errs, st)
	}
	if out, errs, st := Run(t, sb, "echo >linked/mine; sleep 0.5; cat linked/key"); strings.Contains(out, secret) || st.Code == 0 {
		t.Errorf("rules that are a link: %q, %q, %+v", out, errs, st)
	}
	for _, name := range []string{"a.pem", "sub/b.pem", "private/key", "x.mine"} {
		out, errs, st := Run(t, sb, "cat "+name)
		if strings.Contains(out, secret) || st.Code == 0 || !strings.Contains(errs, "Permission denied") {
			t.Errorf("reading %s: %q, %q, %+v", name, out, errs, st)
		}
	}
	told := func(path string) func() bool {
		return func() bool {
			select {
			case d := <-denials:
				return strings.HasSuffix(d.Path, path) && d.Operation == "open" && d.PID > 0
			default:
				return false
			}
		}
	}
	Eventually(t, "being told of a denial", 20*time.Second, told("/x.mine"))
	if out, errs, _ := Run(t, sb, "cat open; echo more > new; cat new"); out != "openmore\n" {
		t.Errorf("what is open: %q %q", out, errs)
	}
	if _, errs, st := Run(t, sb, "echo '!*.pem' >> .gooseignore"); st.Code == 0 {
		t.Errorf("the rules were changed from inside: %q", errs)
	}
	// An editor of the host saves a closed file, then one becomes closed.
	plant("new.pem", secret)
	if err := os.Rename(filepath.Join(spec.WorkingDir, "new.pem"), filepath.Join(spec.WorkingDir, "a.pem")); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := Run(t, sb, "cat a.pem"); strings.Contains(out, secret) {
		t.Error("a file that the host replaced can be read")
	}
	plant("later.txt", secret)
	plant(".gooseignore", "*.pem\n*.txt\nprivate/\n")
	Eventually(t, "new rules being kept", 20*time.Second, func() bool {
		out, _, _ := Run(t, sb, "cat later.txt")
		return !strings.Contains(out, secret)
	})
	if leaks := slices.Collect(leaks(t, sb, secret)); len(leaks) > 0 {
		t.Errorf("the closed content came out by %q", leaks)
	}
	if sb.Info().Isolated {
		movedAway(t, sb, spec.WorkingDir, secret)
	}
	holdsNames(t, sb)
	t.Run("private", func(t *testing.T) { testPrivate(t, sb) })
	plant("store/in/key", secret)
	plant("shown", secret)
	plant("node_modules/x/keep", "keep")
	plant(".gooseignore", "*.pem\n*.txt\nprivate/\nplans/new.key\nvault/\nnow-closed\n")
	plant("plans/keep", "keep")
	t.Run("planned", func(t *testing.T) { testPlannedLinks(t, sb) })
	t.Run("moved", func(t *testing.T) { testMovedRules(t, newDriver(t), owner) })
	t.Run("links", func(t *testing.T) { testClosedLinks(t, sb, spec.WorkingDir, secret) })
}

// testMovedRules tests that a sandbox moves no rules that it was not asked for yet: others
// may have seen just now that there are none at the new place.
func testMovedRules(t *testing.T, d sandbox.Driver, owner int) {
	spec := Spec(t, owner)
	spec.Rules = &sandbox.Rules{}
	if err := os.Mkdir(filepath.Join(spec.WorkingDir, "later"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".gooseignore", "later/.gooseignore"} {
		if err := os.WriteFile(filepath.Join(spec.WorkingDir, name), []byte("key\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sb := Create(t, d, spec)
	if _, err := sb.(sandbox.RuleKeeper).ProtectNamed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, errs, st := Run(t, sb, "mkdir own && mv own own2 && mv later moved"); st.Code == 0 || !strings.Contains(errs, "'later'") {
		t.Errorf("a directory with rules was moved: %q", errs)
	}
}

// testPlannedLinks tests that nothing inside has what will be closed come elsewhere, by a link
// in the place of a directory that it is to be in.
func testPlannedLinks(t *testing.T, sb sandbox.Sandbox) {
	Eventually(t, "new rules being kept", 20*time.Second, func() bool {
		_, _, st := Run(t, sb, "echo >now-closed")
		return st.Code != 0
	})
	for _, script := range []string{
		"mv plans old; mkdir mine; ln -s mine plans", "ln -s mine vault", "ln -s mine l; mv -T l vault", "ln -s mine l2; ln -P l2 vault",
	} {
		if _, errs, st := Run(t, sb, script); st.Code == 0 {
			t.Errorf("%s: it was done: %q", script, errs)
		}
	}
	if out, errs, st := Run(t, sb, "ln -s mine other-link && rm other-link"); st.Code != 0 {
		t.Errorf("another link: %q, %q", out, errs)
	}
}

// testClosedLinks tests that what closed links lead to is closed by any name, and stays where
// it is; not what is linked from among packages, or from a directory that is closed.
func testClosedLinks(t *testing.T, sb sandbox.Sandbox, dir, secret string) {
	keeper := sb.(sandbox.RuleKeeper)
	for link, target := range map[string]string{
		"a-link.pem": "shown", "sub/a-link.pem": "../between", "between": "store", "none.pem": "planned",
		"private/link": "../open", "node_modules/x.pem": "../open",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keeper.ProtectNamed(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{
		"cat a-link.pem", "cat shown", "cat sub/a-link.pem/in/key", "cat store/in/key", "cd store; cat in/key", "mv store other; cat other/in/key", "cp shown x; cat x",
		"ln -sfn private between && echo " + secret, "echo x >planned && echo " + secret, "ln shown y; cat y",
	} {
		if out, errs, _ := Run(t, sb, script); strings.Contains(out, secret) || errs == "" {
			t.Errorf("%s: %q, %q", script, out, errs)
		}
	}
	if out, errs, _ := Run(t, sb, "cat open node_modules/x.pem private/link"); out != "openopenopen" {
		t.Errorf("what is open: %q, %q", out, errs)
	}
	if got, err := keeper.Judge(t.Context(), []string{"shown", "store/in/key", "open"}); err != nil || !slices.Equal(got, []bool{true, true, false}) {
		t.Errorf("they are judged %v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "a-link.pem")); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.ProtectNamed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, errs, _ := Run(t, sb, "cat shown"); out != secret {
		t.Errorf("what no closed link leads to any more: %q, %q", out, errs)
	}
}

// testPrivate tests that the others cannot get at a command that is private, as they
// can at one that is not.
func testPrivate(t *testing.T, sb sandbox.Sandbox) {
	const attack = `p=$PID
head -c 1 "/proc/$p/environ" >/dev/null && echo environ
head -c 1 "/proc/$p/maps" >/dev/null && echo maps
(echo forged >"/proc/$p/fd/1") && echo "its stdout"
cd "/proc/$p/fd" && (echo forged >./1) && echo "its stdout, from beside it"
cd "/proc/$p/task/$p/fd" && (echo forged >1) && echo "its stdout, as a thread"
python3 -c 'import os, sys
copy = os.open("/proc/" + sys.argv[1] + "/fd/1", os.O_PATH)
os.write(os.open("/proc/self/fd/%d" % copy, os.O_WRONLY), b"forged\\n")
print("its stdout, by a descriptor of that")' "$p"
true`
	for private, want := range map[bool]bool{false: true, true: false} {
		victim := StartCommand(t, sb, sandbox.Command{Args: []string{"/bin/sh", "-c", `echo $$; read -r line; echo "$line"`}, Env: Env("X=secret"), Private: private})
		pid := strings.TrimSpace(readLine(t, victim.Stdout()))
		out, errs, st := Run(t, sb, attack, "PID="+pid)
		if got := strings.Contains(out, "its stdout"); got != want || private && out != "" || st.Code != 0 {
			t.Errorf("private %v: others get at %q, %q, %+v", private, out, errs, st)
		}
		if _, err := victim.Stdin().Write([]byte("mine\n")); err != nil {
			t.Fatal(err)
		}
		if line := strings.TrimSpace(readLine(t, victim.Stdout())); private && line != "mine" {
			t.Errorf("a private command printed %q", line)
		}
		Kill(t, victim)
	}
}

// movedAway tests that a closed directory, which the host moves out of the project,
// stays closed to who was in it.
func movedAway(t *testing.T, sb sandbox.Sandbox, dir, secret string) {
	t.Helper()
	p := Start(t, sb, `cd private && echo ready && read -r line; cat key; cat ./key /proc/self/cwd/key; exit 0`)
	readLine(t, p.Stdout())
	private, away := filepath.Join(dir, "private"), filepath.Join(filepath.Dir(dir), "away")
	if err := os.Rename(private, away); err != nil {
		t.Fatal(err)
	}
	_, _ = p.Stdin().Write([]byte("\n"))
	out := readAll(t, p.Stdout())
	if errs := readAll(t, p.Stderr()); strings.Contains(out, secret) || !strings.Contains(errs, "Permission denied") {
		t.Errorf("what the host moved away: %q, %q", out, errs)
	}
	Wait(t, p)
	if err := os.Rename(away, private); err != nil {
		t.Fatal(err)
	}
}

// holdsNames tests that names do not move while the host holds them.
func holdsNames(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	h, ok := sb.(sandbox.Holder)
	if !ok {
		t.Fatal("the sandbox cannot hold names")
	}
	release, err := h.Hold(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range []string{"ln -s / held1", "mv open held2", "ln open held3"} {
		if _, errs, st := Run(t, sb, "timeout 0.5 "+move); st.Code != 124 { // timeout's own, when it had to kill
			t.Errorf("while names are held: %s: %q, %+v", move, errs, st)
		}
	}
	if out, errs, _ := Run(t, sb, "echo x > fresh; cat fresh open; rm fresh; mkdir held4; rmdir held4"); out != "x\nopen" {
		t.Errorf("while names are held: %q %q", out, errs)
	}
	if !release() {
		t.Error("the hold was over before it was released")
	}
	if out, errs, st := Run(t, sb, "ls; ln -s / held5 && mv open held6 && mv held6 open"); st.Code != 0 || strings.Contains(out, "held1") || strings.Contains(out, "held2") || strings.Contains(out, "held3") {
		t.Errorf("after names were held: %q %q %+v", out, errs, st)
	}
	release, err = h.Hold(t.Context(), 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, st := Run(t, sb, "ln -s / held7"); st.Code != 0 {
		t.Errorf("after a hold that nobody released: %q %+v", errs, st)
	}
	if release() {
		t.Error("a hold that was over says that it lasted")
	}
}

// leaks are scripts that get at the secret all the same.
func leaks(t *testing.T, sb sandbox.Sandbox, secret string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, script := range []string{
			"find . -type f -exec cat {} +", "grep -r . .", "tar cf - . 2>/dev/null", "cat /proc/self/cwd/a.pem",
			"mv a.pem b; cat b", "ln a.pem c; cat c", "ln -s a.pem d; cat d", "mv private open2; cat open2/key", "cp a.pem /tmp/e; cat /tmp/e",
		} {
			if out, _, _ := Run(t, sb, script); strings.Contains(out, secret) && !yield(script) {
				return
			}
		}
	}
}
