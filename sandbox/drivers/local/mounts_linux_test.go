package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/trials/sandboxtest"
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

// What a link in the project leads to is not shown: the agent that wrote it would choose.
func TestLinksOfTheProjectShowNothing(t *testing.T) {
	for name, shown := range map[string]func(*local.Options, *sandbox.Spec, string){
		"of the project's file": func(_ *local.Options, s *sandbox.Spec, path string) { s.Mounts = []sandbox.Mount{{Path: path}} },
		"of the person's":       func(o *local.Options, _ *sandbox.Spec, path string) { o.ReadOnlyPaths = []string{path} },
		"of the editor": func(_ *local.Options, s *sandbox.Spec, path string) {
			s.Mounts = []sandbox.Mount{{Path: path, Writable: true}}
		},
	} {
		for _, refused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, namespaces refused %v", name, refused), func(t *testing.T) {
				o, spec := options(t), sandboxtest.Spec(t, -1)
				o.RefuseNamespaces, spec.Rules = refused, &sandbox.Rules{Optional: refused}
				docs := filepath.Join(spec.WorkingDir, "docs")
				if err := os.Symlink(t.TempDir(), docs); err != nil {
					t.Fatal(err)
				}
				shown(&o, &spec, docs)
				sb, err := local.New(o).Create(t.Context(), spec)
				if err == nil {
					_ = sb.Close()
				}
				if err == nil || !strings.Contains(err.Error(), docs+" is a link in ") {
					t.Errorf("a sandbox with what a link leads to: %v", err)
				}
			})
		}
	}
}

// The devices are the machine's, and what is covered by one is it, too.
func TestDevicesKeepTheirModes(t *testing.T) {
	sb := sandboxtest.Create(t, newLocal(t), sandboxtest.Spec(t, -1))
	for inside, outside := range map[string]string{"/dev/full": "/dev/full", "/dev/tty": "/dev/tty", "/proc/kallsyms": "/dev/null"} {
		before, err := os.Stat(outside)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(outside, before.Mode().Perm()) }) // fails for who could not change it
		if out, _, _ := sandboxtest.Run(t, sb, "chmod 667 "+inside+" 2>/dev/null || echo refused"); out != "refused\n" {
			t.Errorf("chmod of %s: %q", inside, out)
		}
		if after, err := os.Stat(outside); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s had %v, has %v, %v", outside, before.Mode(), after.Mode(), err)
		}
	}
	if out, errs, _ := sandboxtest.Run(t, sb, "echo x > /dev/null && head -c1 /dev/zero | wc -c && head -c1 /dev/urandom | wc -c"); out != "1\n1\n" {
		t.Errorf("the devices are of no use: %q %s", out, errs)
	}
}

// What the machine replaces, or makes, while a sandbox of its owner runs is as private as
// what it had before.
func TestPrivateLater(t *testing.T) {
	spec := sandboxtest.Spec(t, -1)
	if os.Geteuid() != 0 { // who can make no such file; the kernel closes what there is
		sb := sandboxtest.Create(t, newLocal(t), spec)
		if out, errs, _ := sandboxtest.Run(t, sb, "cat /etc/shadow"); out != "" || errs == "" {
			t.Errorf("/etc/shadow reads as %q, %q", out, errs)
		}
		return
	}
	spec.Rules = &sandbox.Rules{}
	dir, err := os.MkdirTemp("/etc", "gander-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	plant := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("content\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	plant("shadow", 0o600)
	sb := sandboxtest.Create(t, newLocal(t), spec)
	plant("shadow-", 0o600)
	if err := os.Rename(filepath.Join(dir, "shadow-"), filepath.Join(dir, "shadow")); err != nil {
		t.Fatal(err)
	}
	plant("key", 0o600)
	plant("passwd", 0o644)
	for name, want := range map[string]string{"shadow": "", "key": "", "passwd": "content\n"} {
		if out, errs, _ := sandboxtest.Run(t, sb, "cat "+filepath.Join(dir, name)); out != want {
			t.Errorf("%s reads as %q: %s", name, out, errs)
		}
	}
}
