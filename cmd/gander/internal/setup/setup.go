// Package setup asks for what gander needs, and writes its entry into editors' files.
package setup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/clients"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/install"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/team/providers"
)

// setupFlags are the flags of gander setup.
type setupFlags struct {
	nonInteractive, storeKey, noCheck, install bool
	host, model, keyEnv, keyFile, provider     string
}

// Command returns the command gander setup.
func Command(a *cli.App) *cobra.Command {
	var f setupFlags
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "first run: write the model endpoint, key, agent and sandbox to the configuration",
		Long: `setup asks for what gander needs, tries it, and writes it to config.json in gander's
home, where every editor finds it. What is there already is offered as the answer;
a second time with the same answers changes nothing.

The key itself never goes into config.json. It stays in a variable that config.json
names (an editor must then see that variable), or in a file that only you can read:
one of yours (--api-key-file), or ` + wire.KeyFileName + ` in gander's home (--store-key, which takes
it from the variable once).

With --provider the endpoint is one of those that gander provider list shows: its address
and where its key usually is are known, and what is its own in the address is asked for,
or given as the whole address by --host.

With --non-interactive nothing is asked: flags count first, then the variables LLM_HOST,
GOOSE_MODEL and so on, then what is configured. Editors that know ACP's terminal
authentication start this too, as gander acp --setup.`,
		Example: `  gander setup
  gander setup --provider openrouter
  gander setup --non-interactive --host https://api.openai.com --model gpt-4o --api-key-env OPENAI_API_KEY
  LLM_API_KEY=… gander setup --non-interactive --host https://llm.example --model qwen3 --store-key --install`,
		Args:        cli.NoArgs,
		Annotations: cli.Unconfigured(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return setup(cmd.Context(), a, f) },
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.nonInteractive, "non-interactive", false, "ask nothing; take flags, the environment and what is configured")
	fl.StringVar(&f.provider, "provider", "", "the model endpoint, by its name in gander provider list")
	fl.StringVar(&f.host, "host", "", "the model endpoint, OpenAI-compatible (LLM_HOST)")
	fl.StringVar(&f.model, "model", "", "the model's name ("+strings.Join(modelVariables(), ", ")+")")
	fl.StringVar(&f.keyEnv, "api-key-env", "", "the key is in the variable of this name")
	fl.StringVar(&f.keyFile, "api-key-file", "", "the key is in this file, which only you can read")
	fl.BoolVar(&f.storeKey, "store-key", false, "copy the key from its variable to a file in gander's home that only you can read")
	fl.BoolVar(&f.noCheck, "no-check", false, "write without asking the endpoint whether it answers")
	fl.BoolVar(&f.install, "install", false, "install the agent when it is missing")
	a.RouteFlags(cmd)
	cli.CompleteFlag(cmd, "provider", usableProviders()...)
	cli.Exclusive(cmd, "api-key-env", "api-key-file")
	cli.Exclusive(cmd, "store-key", "api-key-file")
	return cmd
}

// answers are what setup has found out.
type answers struct {
	host, model    string
	keyEnv         string // the variable that the key is in
	keyFile        string // the file that it is in, or is written to when there is a newKey
	newKey         config.Secret
	agent, sandbox string
	// provider is nil where an address is the endpoint.
	provider *providers.Provider
}

// setup is the command: find out, try, write, say what is next.
func setup(ctx context.Context, a *cli.App, f setupFlags) error {
	cfg, err := setupConfig(a)
	if err != nil {
		return err
	}
	person := cli.IsTerminal(a.In)
	if !person && !f.nonInteractive {
		return cli.UsageError("setup asks questions on a terminal, and there is none here; use --non-interactive with --host and --model, see gander setup --help")
	}
	found, err := given(a, cfg, f)
	if err != nil {
		return err
	}
	var p *show.Prompter
	if !f.nonInteractive {
		p = show.NewPrompter(a.In, a.Err)
		if err := interview(ctx, a, p, cfg, &found); err != nil {
			return err
		}
	}
	if err := found.complete(); err != nil {
		return err
	}
	edit, err := plan(a, cfg, found)
	if err != nil {
		return err
	}
	if err := checkAnswers(ctx, a, found, f, p); err != nil {
		return err
	}
	if err := writeAnswers(a, edit, found); err != nil {
		return err
	}
	return afterSetup(ctx, a, p, found, f)
}

// ForEditor asks for what gander needs, as an editor offers it.
func ForEditor(ctx context.Context, a *cli.App) error { return setup(ctx, a, setupFlags{}) }

// setupConfig is the configuration, or an empty one where there is none. One that
// is broken is not written over.
func setupConfig(a *cli.App) (*config.Config, error) {
	if a.ConfigErr != nil && !fromFile(a.ConfigErr) {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: a.ConfigErr}
	}
	if a.ConfigErr != nil {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%w\ncorrect that first, or move the file away; setup does not write over a configuration that it cannot read", a.ConfigErr)}
	}
	return a.Config, nil
}

// fromFile reports whether something in a file is wrong, and not only flags and variables.
func fromFile(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(several.Unwrap(), fromFile)
	}
	wrong, ok := errors.AsType[*config.Error](err)
	return ok && wrong.File != ""
}

// given is what flags, environment and configuration say, in this order.
func given(a *cli.App, cfg *config.Config, f setupFlags) (answers, error) {
	if f.provider != "" {
		return givenProvider(a, cfg, f)
	}
	endpoint, err := cfg.Endpoint(cfg.Agent) // as far as it goes
	if wrong, ok := errors.AsType[*config.Error](err); ok && f.host == "" && wrong.Path != "model.apiKeyEnv" && wrong.Path != "model.apiKeyFile" {
		return answers{}, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	g := answers{
		host: cmp.Or(f.host, plainHost(endpoint.BaseURL)), model: cmp.Or(f.model, endpoint.Model),
		agent: cfg.Agent, sandbox: cfg.Sandbox.Driver,
		keyEnv: cfg.Model.APIKeyEnv, keyFile: cfg.Model.APIKeyFile,
	}
	return withKey(a, cfg, f, g, usualKey, g.storedKey(cfg))
}

// withKey completes answers with where the key is: usual is the variable that holds it where
// nothing else is said, store is the file that it is copied to.
func withKey(a *cli.App, cfg *config.Config, f setupFlags, g answers, usual, store string) (answers, error) {
	switch {
	case f.keyEnv != "":
		g.keyEnv, g.keyFile = f.keyEnv, ""
		if cli.Variable(a.Environ, f.keyEnv) == "" {
			return g, cli.UsageError("--api-key-env: the variable %s is not set here; set it to the key, or choose another one", f.keyEnv)
		}
	case f.keyFile != "":
		path, err := filepath.Abs(f.keyFile)
		if err != nil {
			return g, cli.UsageError("--api-key-file %s: %v", f.keyFile, err)
		}
		if _, err := config.ReadKeyFile(path); err != nil {
			return g, cli.UsageError("--api-key-file: %w", err)
		}
		g.keyEnv, g.keyFile = "", path
	case cli.Variable(a.Environ, usual) != "" && (g.keyFile == "" || f.storeKey):
		g.keyEnv, g.keyFile = usual, ""
	}
	if !f.storeKey {
		return g, nil
	}
	key := cli.Variable(a.Environ, g.keyEnv)
	if key == "" {
		return g, cli.UsageError("--store-key takes the key from a variable, and %s is not set; set it, or name another one with --api-key-env", cmp.Or(g.keyEnv, usual))
	}
	g.keyEnv, g.keyFile, g.newKey = "", store, config.Secret(key)
	return g, nil
}

// usualKey is the variable that counts before every other place of the key.
const usualKey = "LLM_API_KEY"

// plainHost is an endpoint as all agents can use it.
func plainHost(host string) string { return strings.TrimSuffix(strings.TrimRight(host, "/"), "/v1") }

// modelVariables returns the agents' variables with the model's name.
func modelVariables() []string {
	var names []string
	for _, agent := range cli.AgentNames() {
		names = append(names, strings.ToUpper(agent)+"_MODEL")
	}
	return names
}

// complete fails for what is missing.
func (g *answers) complete() error {
	var missing []string
	if g.host == "" && g.provider != nil {
		missing = append(missing, "the address of "+g.provider.Title+" (--host "+g.provider.BaseURL+")")
	} else if g.host == "" {
		missing = append(missing, "the endpoint (--host or LLM_HOST)")
	}
	if p := g.provider; p != nil && p.KeyVariable != "" && g.keyEnv == "" && g.keyFile == "" {
		missing = append(missing, "the key ("+p.KeyVariable+", --api-key-env or --api-key-file)")
	}
	if g.model == "" {
		missing = append(missing, "the model (--model, "+strings.Join(modelVariables(), " or ")+")")
	}
	if len(missing) > 0 {
		return cli.UsageError("setup needs %s", strings.Join(missing, " and "))
	}
	if err := checkHostAnswer(g.host); err != nil {
		return cli.UsageError("the endpoint %q cannot be used: %w, as in https://llm.example", g.host, err)
	}
	return nil
}

// key is the key that the answers lead to.
func (g *answers) key(environ []string) (config.Secret, error) {
	switch {
	case g.newKey != "":
		return g.newKey, nil
	case g.keyFile != "":
		return config.ReadKeyFile(g.keyFile)
	}
	return config.Secret(cli.Variable(environ, g.keyEnv)), nil
}

// keySource is where the key is now.
func (g *answers) keySource() string {
	if g.newKey != "" {
		return "" // a variable, which the answers name no more
	}
	return cmp.Or(g.keyFile, g.keyEnv)
}

// setupTimeout bounds the questions to the endpoint.
const setupTimeout = 30 * time.Second

// checkAnswers asks the endpoint whether it answers and knows the model. A person
// may go on all the same.
func checkAnswers(ctx context.Context, a *cli.App, g answers, f setupFlags, p *show.Prompter) error {
	if f.noCheck {
		return nil
	}
	asking := show.Watch(a, "asking "+g.host, 0)
	err := tryEndpoint(ctx, a, g)
	asking.Done()
	if err == nil || ctx.Err() != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if p == nil {
		return fmt.Errorf("%w\nnothing was written; correct it, or write it all the same with --no-check", err)
	}
	fmt.Fprintln(a.Err, "✗", a.Secrets.HideIn(cli.MessageOf(err)))
	yes, askErr := p.Yes(ctx, "Write it all the same?", false)
	if askErr != nil || yes {
		return askErr
	}
	return errors.New("nothing was written; run gander setup again")
}

func tryEndpoint(ctx context.Context, a *cli.App, g answers) error {
	key, err := g.key(a.Environ)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	a.Secrets.Learn([]string{key.Reveal()})
	ctx, stop := context.WithTimeout(ctx, setupTimeout)
	defer stop()
	door, err := wire.New(a).Gateway(g.endpoint(a, key), nil)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	defer func() { _ = door.Close() }()
	if g.provider != nil {
		_, err := door.Try(ctx)
		return err
	}
	if err := door.Check(ctx); err != nil {
		return err
	}
	if models := wire.ListModels(ctx, door); len(models) > 0 && !slices.Contains(models, g.model) {
		return fmt.Errorf("%s answers, but does not list the model %q; it has %s", g.host, g.model, cli.SomeOf(models, 12))
	}
	return nil
}

// An edit is a file that is to be written.
type edit struct {
	file     string
	old, new []byte
}

// plan is config.json with the answers in it, which make sense there.
func plan(a *cli.App, cfg *config.Config, g answers) (edit, error) {
	e := edit{file: filepath.Join(cfg.Home, config.UserFile)}
	var err error
	if e.old, err = os.ReadFile(e.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return e, err
	}
	if e.new, err = clients.SetValues(e.old, g.values()); err != nil {
		return e, fmt.Errorf("%s: %w", e.file, err)
	}
	if err := config.Check(e.file, e.new, a.Environ); err != nil {
		return e, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("the answers do not fit together: %w", err)}
	}
	return e, nil
}

// writeAnswers writes the key's file, where there is one to write, and config.json.
func writeAnswers(a *cli.App, e edit, g answers) error {
	dirs := []string{filepath.Dir(e.file)}
	if g.newKey != "" {
		dirs = append(dirs, filepath.Dir(g.keyFile))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making gander's home: %w; %s", err, cli.HomeAdvice)
		}
	}
	if g.newKey != "" {
		if err := writeKey(g.keyFile, g.newKey); err != nil {
			return fmt.Errorf("writing the key to %s: %w; %s", g.keyFile, err, cli.HomeAdvice)
		}
		fmt.Fprintf(a.Out, "wrote the key to %s, which only you can read\n", g.keyFile)
	}
	if bytes.Equal(e.old, e.new) {
		_, err := fmt.Fprintf(a.Out, "%s is as it should be\n", e.file)
		return err
	}
	if err := clients.Replace(e.file, e.new); err != nil {
		return fmt.Errorf("writing %s: %w; %s", e.file, err, cli.HomeAdvice)
	}
	_, err := fmt.Fprintf(a.Out, "wrote %s\n", e.file)
	return err
}

// writeKey writes a key for its owner alone, also where others could read the file before.
func writeKey(file string, key config.Secret) error {
	if err := os.Chmod(file, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return clients.Replace(file, []byte(key.Reveal()+"\n"))
}

// values are the answers as config.json has them.
func (g *answers) values() []clients.Value {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	if g.provider != nil {
		return g.providerValues(text)
	}
	values := []clients.Value{
		{Path: []string{"agent"}, Value: g.agent},
		{Path: []string{"model", "host"}, Value: g.host},
		{Path: []string{"model", "provider"}},
		{Path: []string{"model", "model"}, Value: g.model},
		{Path: []string{"model", "apiKeyEnv"}, Value: text(g.keyEnv)},
		{Path: []string{"model", "apiKeyFile"}, Value: text(g.keyFile)},
		{Path: []string{"sandbox", "driver"}, Value: g.sandbox},
	}
	if g.keyEnv != "" || g.keyFile != "" {
		values = append(values, clients.Value{Path: []string{"model", "apiKey"}})
	}
	return values
}

// afterSetup says what holds now and what is still to do.
func afterSetup(ctx context.Context, a *cli.App, p *show.Prompter, g answers, f setupFlags) error {
	if a.ConfigErr = a.Configure(); a.ConfigErr != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: a.ConfigErr}
	}
	w := a.Out
	fmt.Fprintf(w, "endpoint  %s\nmodel     %s\nkey       %s\nagent     %s\nsandbox   %s\n", g.host, g.model, g.describeKey(), g.agent, g.sandbox)
	if names := stronger(a, g); len(names) > 0 {
		fmt.Fprintf(a.Err, "%s set to something else here and counts before the file; unset it to use what was written\n", cli.IsOrAre(names))
	}
	if err := offerAgent(ctx, a, p, g.agent, f); err != nil {
		return err
	}
	if err := offerEditor(ctx, a, p); err != nil {
		return err
	}
	if g.keyEnv != "" {
		fmt.Fprintf(a.Err, "editors must see the variable %s; where they do not, gander setup --store-key keeps the key in a file\n", g.keyEnv)
	}
	next := "next: gander doctor tries everything"
	if p == nil {
		next += ", gander config zed --write puts gander into an editor (or jetbrains, vscode, neovim, emacs)"
	}
	fmt.Fprintln(a.Err, next)
	return nil
}

func (g *answers) describeKey() string {
	switch {
	case g.keyFile != "":
		return "in the file " + g.keyFile
	case g.keyEnv != "":
		return "in the variable " + g.keyEnv
	}
	return "none"
}

// stronger are the variables that say something else than what was written.
func stronger(a *cli.App, g answers) []string {
	var names []string
	for _, name := range []string{"LLM_HOST", strings.ToUpper(g.agent) + "_LLM_HOST"} {
		if v := cli.Variable(a.Environ, name); v != "" && plainHost(v) != plainHost(g.host) {
			names = append(names, name)
		}
	}
	if name := strings.ToUpper(g.agent) + "_MODEL"; cli.Variable(a.Environ, name) != "" && strings.TrimPrefix(cli.Variable(a.Environ, name), "custom/") != g.model {
		names = append(names, name)
	}
	return names
}

// offerAgent installs an agent that is missing, when that was asked for.
func offerAgent(ctx context.Context, a *cli.App, p *show.Prompter, name string, f setupFlags) error {
	_, missing := a.Config.FindAgent(name)
	if missing == nil {
		return nil
	}
	now := f.install
	if p != nil && !now && errors.Is(missing, config.ErrNoAgent) && slices.Contains(cli.AgentNames(), name) {
		yes, err := p.Yes(ctx, fmt.Sprintf("%s is not installed. Install it with npm now?", name), true)
		if err != nil {
			return err
		}
		now = yes
	}
	if now {
		return install.Agent(ctx, a, name)
	}
	fmt.Fprintf(a.Err, "still missing: %v\n", cli.MessageOf(missing))
	return nil
}
