package sandbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox"
)

func TestEnvironment(t *testing.T) {
	host := []string{"PATH=/usr/local/bin:/usr/bin:/opt/tools/bin", "LANG=de_DE.UTF-8", "SHELL=/bin/sh"}
	for name, tt := range map[string]struct {
		info sandbox.Info
		want []string
	}{
		"this machine's programs": {sandbox.Info{Env: []string{"PATH=/ignored"}}, host},
		"an image's": {
			sandbox.Info{Image: "golang", Env: []string{"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin", "GOPATH=/go", "LANG=C.UTF-8"}},
			[]string{"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/opt/tools/bin", "GOPATH=/go", "LANG=de_DE.UTF-8", "SHELL=/bin/sh"},
		},
		"an image's that sets nothing": {sandbox.Info{Image: "scratch"}, host},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.info.Environment(host)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			got[0] = "changed"
			if host[0] == "changed" || len(tt.info.Env) > 0 && tt.info.Env[0] == "changed" {
				t.Error("what was given has changed")
			}
		})
	}
}
