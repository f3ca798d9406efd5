package e2e

import (
	"debug/elf"
	"maps"
	"os"
	"testing"

	"gander.dev/gander/conformance/acp"
	"gander.dev/gander/conformance/harness"
)

// TestBinaryIsStatic looks for what a program that is linked statically does not have.
func TestBinaryIsStatic(t *testing.T) {
	f, err := elf.Open(needGander(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a dynamic linker")
		}
	}
	if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) > 0 {
		t.Errorf("it needs %q", libraries)
	}
}

// TestAgentConforms runs the checks of ACP that are about the connection, with goose in a
// local sandbox; soak runs all of them with each agent in each sandbox.
func TestAgentConforms(t *testing.T) {
	t.Parallel() // most of it is waiting
	dir := workspace(t)
	env := map[string]string{"PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "HOME": dir}
	maps.Copy(env, home.env(t))
	report, err := acp.Run(t.Context(), acp.Options{
		Command: append([]string{needGander(t), "acp"}, home.flags()...), Environ: list(env),
		Only: []string{"lifecycle", "transport", "hostile"}, Timeout: patience, Dir: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range report.Results {
		if res.ID == "lifecycle.unadvertised" && res.State == harness.NotApplicable {
			continue // gander offers every method of sessions
		}
		if res.State != harness.Pass {
			t.Errorf("%s: %s: %q", res.ID, res.State, res.Problems)
		}
	}
	if n := report.Count(harness.Pass); n < 20 {
		t.Errorf("%d checks passed: the run proves little", n)
	}
}
