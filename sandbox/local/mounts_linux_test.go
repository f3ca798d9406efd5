package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/sandboxtest"
)

// An agent may be installed below the project that it works on.
func TestMountInsideTheProject(t *testing.T) {
	spec := sandboxtest.Spec(t, -1)
	tool := filepath.Join(spec.WorkingDir, "tools", "agent")
	if err := os.MkdirAll(tool, 0o755); err != nil {
		t.Fatal(err)
	}
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Path: tool}, sandbox.Mount{Path: tool})
	sb := sandboxtest.Create(t, newLocal(t), spec)
	if !strings.Contains(sb.Info().Isolation, "namespaces as") {
		t.Fatalf("isolation %q, warnings %q", sb.Info().Isolation, sb.Info().Warnings)
	}
	out, _, _ := sandboxtest.Run(t, sb, "touch in-the-project && ! touch tools/agent/file 2>/dev/null && echo as it should be")
	if out != "as it should be\n" {
		t.Errorf("%q", out)
	}
}
