package goose

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// OneShot implements sandbox.OneShot; Events reads what the command prints. Nobody is
// there to be asked, so that a mode of the configuration does not count.
func (a *Agent) OneShot(_ context.Context, sb sandbox.Sandbox, p sandbox.SessionParams) (sandbox.Command, error) {
	mode := cmp.Or(p.Mode, "auto")
	s, err := a.In(sb, &p)
	if err != nil {
		return sandbox.Command{}, err
	}
	return sandbox.Command{
		Args: acpagent.Instructed(s.Instructions, OneShotArgs(s.Command...)),
		Env:  environment(s, sb.Info().Home, p.ModelAddr, p.ModelToken, cmp.Or(p.Model, s.Model), mode),
		Dir:  p.WorkingDir,
	}, nil
}

// OneShotArgs is goose's command line for one instruction, which it reads from stdin.
// Nothing is kept of it.
func OneShotArgs(command ...string) []string {
	return append(slices.Clone(command), "run", "--quiet", "--output-format", "stream-json", "--no-session", "-i", "-")
}

// PlainEnvironment is environ with what goose needs outside of a sandbox of gander's, as
// in a container that was started by hand. What is set already stays, but for a /v1 at
// the end of OPENAI_HOST, which goose adds itself.
func PlainEnvironment(environ []string, host, key, model string) []string {
	env := slices.Clone(environ)
	for i, v := range env {
		if address, is := strings.CutPrefix(v, "OPENAI_HOST="); is {
			env[i] = "OPENAI_HOST=" + strings.TrimSuffix(strings.TrimRight(address, "/"), "/v1")
		}
	}
	return acpagent.Default(env,
		"OPENAI_HOST="+host, "OPENAI_API_KEY="+key, "GOOSE_MODEL="+model, "GOOSE_PROVIDER=openai", "GOOSE_MODE=auto",
		"GOOSE_DISABLE_KEYRING=1", "GOOSE_DISABLE_SESSION_NAMING=true", "GOOSE_TELEMETRY_OFF=1")
}

var _ sandbox.OneShot = (*Agent)(nil)
