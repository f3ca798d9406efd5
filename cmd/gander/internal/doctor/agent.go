package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/install"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/outbound/gateway"
)

// examinedAgents are the one that answers by default and those that are installed; of those
// with manifests their programs are. One that only talks starts nothing.
func examinedAgents(a *cli.App) []string {
	return slices.DeleteFunc(a.Config.AgentNames(), func(name string) bool {
		_, err := a.Config.FindAgent(name)
		return a.Config.OnlyTalks(name) || (err != nil || a.Config.Program(name) != name) && name != a.Config.Agent
	})
}

// examineTeam says which manifests are wrong, each by itself.
func examineTeam(a *cli.App, report func(Check)) {
	team := a.Config.Team()
	report(Check{ID: checkTeam, State: CheckOK, What: cli.Count(len(team), "agents") + " with manifests"})
	for _, p := range a.Config.TeamProblems() {
		report(Check{ID: checkTeam, State: checkWarn, What: p.Error(), Next: "correct that; an agent whose manifest is wrong is hidden"})
	}
	for _, m := range team {
		for _, warning := range m.Warnings {
			report(Check{ID: checkTeam, State: checkWarn, What: m.Path + ": " + warning, Next: "correct that, or take it out"})
		}
	}
}

// examineSkills says which skills and plugins have changed since they were installed, and which
// cannot be used.
func examineSkills(a *cli.App) Check {
	found := a.Config.FindSkills("")
	plugins, broken := a.Config.PluginStore().List()
	c := Check{ID: checkSkills, State: CheckOK, What: cli.Count(len(found.Skills), "skills") + ", " + cli.Count(len(plugins), "plugins")}
	var said []string
	for _, agent := range append([]string{""}, a.Config.AgentNames()...) {
		store := a.Config.SkillStore(agent)
		for _, id := range store.Installed() {
			if changed, err := store.Changed(id); err != nil || changed {
				said = append(said, filepath.Join(store.Dir, id)+" has changed since it was installed")
			}
		}
	}
	for _, p := range plugins {
		if changed, err := a.Config.PluginStore().Changed(p.ID); err != nil || changed {
			said = append(said, p.Dir+" has changed since it was installed")
		}
	}
	for _, p := range broken {
		said = append(said, "the plugin "+p.ID+": "+p.Reason)
	}
	for _, p := range found.Problems {
		said = append(said, p.String())
	}
	if len(said) > 0 {
		c.State, c.What, c.Next = checkWarn, strings.Join(said, "; "), "look at the files; gander skill remove and gander plugin remove take them away"
	}
	return c
}

// examineAgent starts an agent in its sandbox, with whatever model: it is not called.
func examineAgent(ctx context.Context, a *cli.App, name string) Check {
	id := checkAgent + name
	again := fmt.Sprintf("gander agent test %s --log-level debug shows more", name)
	if _, err := a.Config.FindAgent(name); err != nil {
		return missingAgent(a, id, name, err)
	}
	ag, model, err := standIn(a, name)
	if err != nil {
		return failedCheck(id, err, again)
	}
	began := time.Now()
	_, done, err := wire.OpenAgent(ctx, a, ag, model, "")
	if err != nil {
		return failedCheck(id, err, again)
	}
	took := cli.RoundDuration(time.Since(began))
	done()
	return Check{ID: id, State: CheckOK, What: fmt.Sprintf("%s opens a session in its sandbox after %s", name, took)}
}

// missingAgent is the check of an agent that is not there. It can be installed
// where nobody has named another place for it.
func missingAgent(a *cli.App, id, name string, err error) Check {
	c := failedCheck(id, err, fmt.Sprintf("gander agent install %s", name))
	switch {
	case wire.HasImages(a.Config) && errors.Is(err, config.ErrNoAgent):
		c.State, c.Next = checkSkip, fmt.Sprintf("its image has it, see %s%s; gander agent install %s puts it on this machine too", checkImage, name, name)
	case !errors.Is(err, config.ErrNoAgent):
		c.Next = "correct that, or take it out and use gander agent install " + name
	case slices.Contains(cli.AgentNames(), name):
		c.fix = func(ctx context.Context) error { return install.Agent(ctx, a, name) }
		c.again = func(ctx context.Context) Check { return examineAgent(ctx, a, name) }
	}
	return c
}

// standIn is an agent that can be started without a model being configured, and
// a way to a model that nobody takes.
func standIn(a *cli.App, name string) (sandbox.Agent, *gateway.Gateway, error) {
	endpoint := config.Endpoint{BaseURL: "http://127.0.0.1:9", Model: standInModelName}
	if configured, err := a.Config.Endpoint(name); err == nil {
		endpoint = configured
	}
	command, err := a.Config.FindAgent(name)
	if err != nil {
		return nil, nil, err
	}
	w := wire.New(a)
	model, err := w.Gateway(endpoint, nil)
	if err != nil {
		return nil, nil, err
	}
	return w.NewAgent(name, func() (wire.Settings, error) { return wire.SettingsWith(a.Config, name, command, endpoint) }), model, nil
}

// examineVersion compares the version of an agent that gander pins with the pin.
func examineVersion(ctx context.Context, a *cli.App, name string, report func(Check)) {
	pin := pinnedVersion(name)
	command, err := a.Config.FindAgent(name)
	if pin == "" || err != nil {
		return // another agent, whose version is its owner's affair
	}
	id := checkAgent + name + checkVersion
	if real, err := filepath.EvalSymlinks(command[0]); err == nil {
		command[0] = real
	}
	said, err := runIn(ctx, a, wire.Place{Purpose: "doctor", Mounts: wire.ProgramMount(command[0])}, append(slices.Clone(command), "--version"))
	if err != nil {
		report(Check{ID: id, State: checkWarn, What: fmt.Sprintf("%s does not say its version: %v", name, cli.MessageOf(err)), Next: "gander agent install " + name + " installs " + pin})
		return
	}
	report(versionCheck(id, name, versionIn(said), pin, "gander agent install "+name+" installs that one"))
}

func versionCheck(id, name, is, pin, next string) Check {
	if is == pin {
		return Check{ID: id, State: CheckOK, What: fmt.Sprintf("%s is version %s, which gander is tested with", name, is)}
	}
	return Check{ID: id, State: checkWarn, What: fmt.Sprintf("%s is version %s; gander is tested with %s", name, is, pin), Next: next}
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)*`)

// versionIn is the first version in a text; "unknown" without one.
func versionIn(said string) string {
	if v := versionNumber.FindString(said); v != "" {
		return v
	}
	return "unknown"
}

// pinnedVersion is the version of an agent that gander is tested with; empty for
// agents that gander does not bring.
func pinnedVersion(name string) string {
	known, _ := agents.Find(name)
	return sandbox.Tested(slices.Collect(maps.Values(known.Packages))...)
}

// runIn runs a command in a sandbox of an empty directory and returns what it printed.
func runIn(ctx context.Context, a *cli.App, p wire.Place, command []string) (string, error) {
	dir, err := os.MkdirTemp("", "gander-doctor-")
	if err != nil {
		return "", err
	}
	defer wire.Remove(a, dir)
	p.CWD, p.Name = dir, "doctor-"+wire.RandomName()
	in, done, err := wire.OpenSandbox(ctx, a, p)
	if err != nil {
		return "", err
	}
	defer done()
	sb := in.Sandbox
	proc, err := sb.Start(ctx, sandbox.Command{Args: command, Env: append(sandbox.HomeEnvironment(sb.Info().Home), a.Config.InsideEnvironment()...)})
	if err != nil {
		return "", err
	}
	_ = proc.Stdin().Close()
	go func() { _, _ = io.Copy(io.Discard, proc.Stderr()) }() // ends with the sandbox
	out, err := io.ReadAll(io.LimitReader(proc.Stdout(), 1<<16))
	if err != nil {
		return "", err
	}
	status, err := proc.Wait(ctx)
	if err == nil && status.Code != 0 {
		err = fmt.Errorf("%s ended with code %d", strings.Join(command, " "), status.Code)
	}
	return string(out), err
}

// modelTimeout is how long an endpoint may take to say anything.
const modelTimeout = 20 * time.Second

// examineModel calls the model endpoint of an agent.
func examineModel(ctx context.Context, a *cli.App, agent string) Check {
	id := checkModel + agent
	endpoint, err := a.Config.Endpoint(agent)
	if err != nil {
		return failedCheck(id, err, "gander setup asks for what is missing; or export LLM_HOST (the endpoint without /v1), LLM_API_KEY and "+strings.ToUpper(agent)+"_MODEL")
	}
	if err := wire.PermittedModel(a.Config, endpoint.Model); err != nil {
		return failedCheck(id, err, "gander policy show says what else holds")
	}
	g, err := wire.New(a).Gateway(endpoint, nil)
	if err != nil {
		return failedCheck(id, err, "correct it with gander setup")
	}
	defer func() { _ = g.Close() }()
	slow := fmt.Errorf("the model endpoint %s did not answer within %s", endpoint.BaseURL, modelTimeout)
	asking, stop := context.WithTimeoutCause(ctx, modelTimeout, slow)
	defer stop()
	if err := g.Check(asking); err != nil {
		if context.Cause(asking) == slow {
			err = slow
		}
		return failedCheck(id, err, modelAdvice(err))
	}
	what := fmt.Sprintf("%s answers; the model is %s", endpoint.BaseURL, endpoint.Model)
	if models := wire.ListModels(asking, g); len(models) > 0 && !slices.Contains(models, endpoint.Model) {
		return Check{
			ID: id, State: checkFail, What: fmt.Sprintf("%s answers, but does not list the model %q", endpoint.BaseURL, endpoint.Model),
			Next: "choose one of " + cli.SomeOf(models, 8) + ", with gander setup or " + strings.ToUpper(agent) + "_MODEL",
		}
	}
	return Check{ID: id, State: CheckOK, What: what}
}

// modelAdvice is what to do about a kind of failure.
func modelAdvice(err error) string {
	found, ok := errors.AsType[*gateway.Error](err)
	if !ok {
		return "check the network of this machine and the proxy (HTTPS_PROXY)"
	}
	switch found.Kind {
	case gateway.BadKey:
		return "gander setup puts in another key; gander provider list says where this one comes from"
	case gateway.Untrusted:
		return "the address is right and the connection is not trusted: see clock, and SSL_CERT_FILE for an authority of your own"
	case gateway.Unreachable:
		return "check the address (gander provider list shows it), the network of this machine and the proxy (HTTPS_PROXY)"
	case gateway.RateLimited, gateway.ServerError:
		return "the endpoint is there and cannot serve you now; try again later"
	}
	return "check the address and the model's name: gander provider list shows them, gander setup changes them"
}
