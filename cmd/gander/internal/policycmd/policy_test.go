package policycmd

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/rules/policy"
)

func TestUnkept(t *testing.T) {
	for system, said := range map[string]bool{"linux": false, "darwin": false, "windows": true} {
		if got := wire.Unkept(system); (got != "") != said {
			t.Errorf("on %s it is said that %q", system, got)
		}
	}
}

// What a link of the project leads to, and where the project is, are names of others.
func TestPolicyIsPrintable(t *testing.T) {
	var out bytes.Buffer
	a := &cli.App{Stdio: cli.Stdio{Out: &out}, Secrets: cli.NewSecrets(nil)}
	origin := policy.Origin{File: "/\x1b[2J\n/.gander.json", Line: 1}
	err := errors.Join(
		printExplanation(a, explanation{Access: "read", Effect: "cannot be opened: lstat \x1b]0;mine\a"}, false, false),
		shownPolicy{Project: "/\x1b[2J", Settings: []shownSetting{{"git", "warn", origin}}, Refused: []policy.Request{{}}}.print(&out),
		printRequests(a, []policy.Request{{Origin: origin}}),
	)
	if err != nil || strings.ContainsAny(out.String(), "\x1b\a") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}
