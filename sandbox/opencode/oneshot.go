package opencode

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strings"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// OneShot implements sandbox.OneShot; Events reads what the command prints. Nobody is
// there to be asked, so that a mode of the configuration does not count; what would
// have to be asked is refused.
func (a *Agent) OneShot(ctx context.Context, sb sandbox.Sandbox, p sandbox.SessionParams) (sandbox.Command, error) {
	mode := p.Mode
	s, err := a.In(sb, &p)
	if err != nil {
		return sandbox.Command{}, err
	}
	if p.Model != "" {
		s.Model = strings.TrimPrefix(p.Model, provider+"/")
	}
	found, err := prepare(ctx, sb, s, p.WorkingDir)
	if err != nil {
		return sandbox.Command{}, err
	}
	env, err := found.environment(s, sb.Info().Home, p.ModelAddr, p.ModelToken, rand.Text())
	if err != nil {
		return sandbox.Command{}, err
	}
	return sandbox.Command{Args: acpagent.Instructed(s.Instructions, OneShotArgs(mode, acpagent.Variable(env, "TMPDIR"), s.Command...)), Env: env, Dir: p.WorkingDir}, nil
}

// freshTemporary runs a command with an empty directory for temporary files: every start
// of opencode leaves a library of 5.6 MB there.
const freshTemporary = `rm -rf "$0" && mkdir -p "$0" && TMPDIR=$0 exec "$@"`

// OneShotArgs is opencode's command line for one instruction, which it reads from
// stdin. It has a title, which the model would otherwise be asked for. What is below the
// path temporary is removed each time, and it is the place of temporary files. (On
// Windows it is removed before the first time only.)
func OneShotArgs(mode, temporary string, command ...string) []string {
	args := slices.Clone(command)
	if !direct {
		args = append([]string{"sh", "-c", freshTemporary, temporary}, command...)
	}
	args = append(args, "run", "--format", "json", "--thinking", "--title", "gander loop")
	if mode != "" {
		args = append(args, "--agent", mode)
	}
	return args
}

// PlainEnvironment is environ with what opencode needs outside of a sandbox of gander's,
// as in a container that was started by hand. What is set already stays, as far as
// opencode understands it: a model needs its provider. An LLM_BASE_URL with a path is the
// address, where OPENCODE_LLM_HOST says nothing else.
func PlainEnvironment(environ []string, baseURL, key, model string) []string {
	model = cmp.Or(strings.TrimPrefix(acpagent.Variable(environ, "OPENCODE_MODEL"), provider+"/"), model)
	host := acpagent.Variable(environ, "OPENCODE_LLM_HOST")
	if own := acpagent.Variable(environ, "LLM_BASE_URL"); host == "" || host == own {
		if u, err := url.Parse(own); err == nil && strings.Trim(u.Path, "/") != "" {
			baseURL = own
		}
	}
	environ = acpagent.Without(environ, "OPENCODE_MODEL", "OPENCODE_MODEL_NAME", "OPENCODE_LLM_HOST")
	return acpagent.Default(environ,
		"OPENCODE_LLM_HOST="+cmp.Or(baseURL, host), "LLM_API_KEY="+key, "OPENCODE_MODEL="+quoted(modelID(model)), "OPENCODE_MODEL_NAME="+quoted(model),
		"OPENCODE_CONFIG_CONTENT="+string(template), "OPENCODE_PURE=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_DISABLE_SHARE=1")
}

var _ sandbox.OneShot = (*Agent)(nil)
