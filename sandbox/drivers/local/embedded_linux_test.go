//go:build embedded

package local_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// With or without namespaces, the supervisor is the small program that gander carries, and
// inside there is gander itself.
func TestEmbedded(t *testing.T) {
	for name, driver := range map[string]sandbox.Driver{
		"local": local.New(local.Options{}), "refused": local.New(local.Options{RefuseNamespaces: true}), "off": local.NewOff(local.Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			mark := sandboxtest.Mark()
			sb := sandboxtest.Create(t, driver, sandbox.Spec{ID: "embedded", WorkingDir: t.TempDir()})
			_ = sandboxtest.Start(t, sb, "sleep 1000", mark)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			inside, want := sb.Info().Executable, self
			if sb.Info().Isolated {
				want = "/run/gander/bin/gander"
			}
			if inside != want {
				t.Errorf("gander is %s inside", inside)
			}
			children := childrenOf(t, os.Getpid())
			if len(children) == 0 {
				t.Error("there is no supervisor")
			}
			for _, child := range children {
				// Whom it belongs to may not see what it runs; by this name it calls itself.
				if name, _ := os.ReadFile("/proc/" + child + "/comm"); string(name) != "gander\n" {
					t.Errorf("the supervisor is %q", name)
				}
			}
		})
	}
}

// childrenOf lists the children of all threads of a process.
func childrenOf(t *testing.T, pid int) (children []string) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		list, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + task.Name() + "/children")
		children = append(children, strings.Fields(string(list))...)
	}
	return children
}
