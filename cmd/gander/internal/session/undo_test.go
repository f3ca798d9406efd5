package session

import (
	"path/filepath"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/drivers/registry"
)

// Files are not put back while a sandbox runs that could move them; those that have
// ended, work elsewhere, or do not isolate are no hindrance.
func TestCheckIdle(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	self := registry.Self()
	for name, tt := range map[string]struct {
		record registry.Record
		idle   bool
	}{
		"in the project":  {registry.Record{Driver: "local", WorkingDir: root, Owner: self, Supervisor: self.Host}, false},
		"below":           {registry.Record{Driver: "local", WorkingDir: root + "/a/b", Owner: self, Supervisor: self.Host}, false},
		"above":           {registry.Record{Driver: "local", WorkingDir: filepath.Dir(root), Owner: self, Supervisor: self.Host}, false},
		"in a container":  {registry.Record{Driver: "docker", WorkingDir: root, Owner: self, Container: "c"}, false},
		"elsewhere":       {registry.Record{Driver: "local", WorkingDir: elsewhere, Owner: self, Supervisor: self.Host}, true},
		"of another name": {registry.Record{Driver: "local", WorkingDir: root + "2", Owner: self, Supervisor: self.Host}, true},
		"not isolated":    {registry.Record{Driver: "off", WorkingDir: root, Owner: self, Supervisor: self.Host}, true},
		"ended":           {registry.Record{Driver: "local", WorkingDir: root, Owner: self, Supervisor: registry.ProcessRef{PID: 1, Start: 1 << 60}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &cli.App{Config: &config.Config{Home: t.TempDir()}}
			tt.record.ID = "x"
			if _, err := registry.Register(a.Config.Home, tt.record); err != nil {
				t.Fatal(err)
			}
			if err := checkIdle(a, root); (err == nil) != tt.idle {
				t.Errorf("got %v", err)
			}
		})
	}
}
