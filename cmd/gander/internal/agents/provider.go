package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/team/providers"
)

// ProviderCommand returns the command gander provider.
func ProviderCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "which model endpoints are known and configured, and whether one answers",
	}
	cmd.AddCommand(providerList(a), providerInfo(a), providerTest(a))
	cli.Group(cmd)
	return cmd
}

// providerRow holds the facts about an agent's endpoint, or about one that is known, as gander
// provider list prints them.
type providerRow struct {
	// Agent is one of a program, whose kind is cli, or one that only talks; Provider is the name of an
	// endpoint. Both of these are of the kind http.
	Agent    string `json:"agent,omitempty"`
	Provider string `json:"provider,omitempty"`
	Kind     string `json:"kind"`
	Protocol string `json:"protocol"`
	// Capabilities say what may be expected of it.
	Capabilities capabilities `json:"capabilities"`
	// Host and Model are empty where nothing is configured.
	Host  string `json:"host,omitempty"`
	Model string `json:"model,omitempty"`
	// Key is whether there is one, KeySource where it comes from. Its value is
	// nowhere.
	Key       bool   `json:"key"`
	KeySource string `json:"keySource,omitempty"`
	// Headers are the names of those that go with it.
	Headers []string `json:"headers,omitempty"`
	// Missing says what is and how to get it.
	Missing string `json:"missing,omitempty"`
}

// capabilities say what a provider can do.
type capabilities struct {
	// Agent is whether it runs tools, Model whether its model can be chosen, Auth whether it wants
	// a sign-in of its own, Passthrough whether it takes arguments of its own.
	Agent       bool `json:"agent"`
	Model       bool `json:"model"`
	Auth        bool `json:"auth"`
	Passthrough bool `json:"passthrough"`
}

func (c capabilities) String() string {
	var names []string
	for _, can := range []struct {
		name string
		is   bool
	}{{"agent", c.Agent}, {"model", c.Model}, {"auth", c.Auth}, {"passthrough", c.Passthrough}} {
		if can.is {
			names = append(names, can.name)
		}
	}
	return strings.Join(names, ", ")
}

// The kinds of providers: a program in a sandbox, and an endpoint of models.
const (
	kindProgram  = "cli"
	kindEndpoint = "http"
)

func providerList(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the model endpoint, model and key of each agent, and the endpoints that are known",
		Long: `list shows what each agent's model calls would use in this directory: the endpoint, the
model, where the key comes from, and the names of headers that go with it, never a key
itself. Then it lists the endpoints that are known by name, each with what it can do
and whether a key is there. gander provider test tries one.`,
		Example: "  gander provider list\n  gander provider list --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := cli.ProjectDir(".")
			if err != nil {
				return err
			}
			cfg, err := a.Config.ForProject(dir)
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			rows := providerRows(cfg)
			if asJSON {
				return a.PrintJSON(rows)
			}
			return printProviders(a, rows)
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func providerRows(cfg *config.Config) []providerRow {
	var rows []providerRow
	for _, name := range cfg.AgentNames() {
		e, err := cfg.Endpoint(name)
		r := providerRow{
			Agent: name, Kind: kindProgram, Protocol: cmp.Or(cfg.Agents[cfg.Program(name)].Protocol, e.Protocol, providers.OpenAI), Capabilities: capabilities{Agent: true, Model: true, Passthrough: true},
			Host: e.BaseURL, Model: e.Model, Key: e.APIKey != "", KeySource: e.KeySource, Headers: slices.Sorted(maps.Keys(e.Headers)),
		}
		if cfg.OnlyTalks(name) {
			r.Kind, r.Capabilities = kindEndpoint, capabilities{Model: true}
		}
		if err != nil {
			r.Missing = err.Error()
		}
		rows = append(rows, r)
	}
	for _, name := range cfg.ProviderNames() {
		rows = append(rows, endpointRow(cfg, name))
	}
	return rows
}

// endpointRow returns the row of an endpoint.
func endpointRow(cfg *config.Config, name string) providerRow {
	row, _ := providers.Find(name)
	e, err := cfg.ProviderEndpoint(name)
	r := providerRow{
		Provider: name, Kind: kindEndpoint, Protocol: cmp.Or(e.Protocol, row.Protocol, providers.OpenAI), Capabilities: capabilities{Model: row.Not == "", Auth: row.Not != ""},
		Host: cmp.Or(e.BaseURL, row.BaseURL), Model: e.Model, Key: e.APIKey != "", KeySource: e.KeySource, Headers: slices.Sorted(maps.Keys(e.Headers)),
	}
	if err != nil {
		r.Missing = err.Error()
	}
	return r
}

func printProviders(a *cli.App, rows []providerRow) error {
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tENDPOINT\tMODEL\tKEY")
	for _, r := range rows {
		if r.Agent != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Agent, cmp.Or(r.Host, "-"), cmp.Or(r.Model, "-"), r.keyWords())
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Missing != "" && r.Agent != "" {
			fmt.Fprintf(a.Err, "%s: %s\n", r.Agent, r.Missing)
		}
	}
	fmt.Fprintln(w, "\nPROVIDER\tKIND\tPROTOCOL\tCAN\tKEY\tENDPOINT")
	for _, r := range rows {
		key := r.keyWords()
		if r.Capabilities.Auth {
			key = "refused: gander provider info " + r.Provider + " says why"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(r.Provider, r.Agent), r.Kind, r.Protocol, r.Capabilities, key, cmp.Or(r.Host, "-"))
	}
	return w.Flush()
}

// keyWords say where the key is from, and which headers go with it.
func (r *providerRow) keyWords() string {
	key := "none"
	switch {
	case r.Key:
		key = "from " + r.KeySource
	case r.KeySource != "":
		key = "missing in " + r.KeySource
	}
	if len(r.Headers) > 0 {
		key += ", with " + strings.Join(r.Headers, ", ")
	}
	return key
}

// endpointDetails are all that gander provider info says of an endpoint.
type endpointDetails struct {
	providerRow
	Title  string `json:"title,omitempty"`
	Header string `json:"keyHeader"`
	Note   string `json:"note,omitempty"`
	Not    string `json:"not,omitempty"`
	Source string `json:"source,omitempty"`
	Date   string `json:"date,omitempty"`
	// Agents use it, unless a project says otherwise.
	Agents []string `json:"agents,omitempty"`
}

func providerInfo(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "info NAME",
		Short:             "what is known of an endpoint, and which agents use it",
		Example:           "  gander provider info openrouter\n  gander provider info azure --json",
		ValidArgsFunction: cli.CompleteFirst(func() []string { return providerNames(a) }),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneProvider(a, args); err != nil {
				return err
			}
			cfg := a.Config
			row, _ := providers.Find(args[0])
			e, _ := cfg.ProviderEndpoint(args[0]) // the row says what is missing
			d := endpointDetails{
				providerRow: endpointRow(cfg, args[0]), Title: row.Title, Header: cmp.Or(e.KeyHeader, row.KeyHeader, bearer),
				Note: row.Note, Not: row.Not, Source: row.Source, Date: row.Date,
			}
			for _, agent := range cfg.AgentNames() {
				if e, _ := cfg.Endpoint(agent); e.Provider == args[0] {
					d.Agents = append(d.Agents, agent)
				}
			}
			if asJSON {
				return a.PrintJSON(d)
			}
			return d.print(a)
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// bearer names the header in which most endpoints take a key.
const bearer = "Authorization: Bearer"

func (d *endpointDetails) print(a *cli.App) error {
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, cli.Printable(cli.OneLine(value)))
		}
	}
	line("provider", d.Provider)
	line("title", d.Title)
	line("kind", d.Kind)
	line("can", d.Capabilities.String())
	line("protocol", d.Protocol)
	line("address", d.Host)
	if d.Not == "" {
		line("key", d.keyWords())
		line("sent in", d.Header)
	}
	line("model", d.Model)
	line("used by", strings.Join(d.Agents, ", "))
	line("note", d.Note)
	line("refused", d.Not)
	if d.Not == "" {
		line("missing", d.Missing)
	}
	if d.Source != "" {
		line("source", d.Source+", of "+d.Date)
	}
	return w.Flush()
}

// providerNames completes the names of providers.
func providerNames(a *cli.App) []string {
	if a.Config != nil {
		return a.Config.ProviderNames()
	}
	return new(config.Config).ProviderNames()
}

// oneProvider fails unless the argument is the name of a provider.
func oneProvider(a *cli.App, args []string) error {
	if len(args) != 1 {
		return cli.UsageError("name one provider, as in: gander provider info openrouter; gander provider list shows them")
	}
	if _, known := providers.Find(args[0]); !known {
		if err := a.Config.NotProvider(args[0]); err != nil {
			return &cli.ExitError{Code: cli.ExitUsage, Err: err}
		}
	}
	return nil
}

// tryTimeout bounds the questions to an endpoint.
const tryTimeout = 30 * time.Second

// triedProvider holds the result of gander provider test.
type triedProvider struct {
	Provider string `json:"provider"`
	Host     string `json:"host"`
	Model    string `json:"model,omitempty"`
	OK       bool   `json:"ok"`
	// Part names the wrong one: base, key, header, model or other.
	Part    gateway.Part `json:"part,omitempty"`
	Message string       `json:"message,omitempty"`
	Models  []string     `json:"models,omitempty"`
}

func providerTest(a *cli.App) *cobra.Command {
	var model string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "ask an endpoint for its models and one word, and say which part is wrong",
		Long: `test asks an endpoint for its models, and the model for one token, and tells a wrong
address, key, header of the key and model apart. Where the key is refused, it is sent to
the same endpoint in the other headers in which endpoints take keys. It exits with 1
where something is wrong.`,
		Example:           "  gander provider test openrouter\n  gander provider test groq --model llama-3.3-70b-versatile",
		ValidArgsFunction: cli.CompleteFirst(func() []string { return providerNames(a) }),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneProvider(a, args); err != nil {
				return err
			}
			e, err := a.Config.ProviderEndpoint(args[0])
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			e.Model = cmp.Or(model, e.Model)
			found, err := tryProvider(cmd.Context(), a, e)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.PrintJSON(found)
			} else {
				err = found.print(a)
			}
			if err == nil && !found.OK {
				return &cli.ExitError{Code: cli.ExitFailed}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&model, "model", "", "the model to ask (default: the provider's of config.json; without one none is asked)")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func tryProvider(ctx context.Context, a *cli.App, e config.Endpoint) (*triedProvider, error) {
	door, err := wire.New(a).Gateway(e, nil)
	if err != nil {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	defer func() { _ = door.Close() }()
	ctx, stop := context.WithTimeout(ctx, tryTimeout)
	defer stop()
	found := &triedProvider{Provider: e.Provider, Host: e.BaseURL, Model: e.Model, OK: true}
	found.Models, err = door.Try(ctx)
	if wrong, is := errors.AsType[*gateway.Wrong](err); is {
		found.OK, found.Part, found.Message = false, wrong.Part, wrong.Message
		if ctx.Err() != nil {
			found.Part, found.Message = gateway.PartOther, fmt.Sprintf("The endpoint %s did not answer within %s.", e.BaseURL, tryTimeout)
		}
	}
	return found, nil
}

func (t *triedProvider) print(a *cli.App) error {
	if !t.OK {
		_, err := fmt.Fprintf(a.Out, "%s: wrong %s: %s\n%s\n", t.Provider, t.Part, cli.Printable(t.Message), t.next())
		return err
	}
	what := "lists its models"
	if t.Model != "" {
		what = t.Model + " answers"
	}
	_, err := fmt.Fprintf(a.Out, "%s: %s at %s\n", t.Provider, cli.Printable(what), t.Host)
	if err == nil && len(t.Models) > 0 {
		_, err = fmt.Fprintf(a.Out, "it has %s\n", cli.Printable(cli.SomeOf(t.Models, 12)))
	}
	return err
}

// next says what to do about what is wrong.
func (t *triedProvider) next() string {
	switch key := "providers." + t.Provider; t.Part {
	case gateway.PartBase:
		return "check the address " + t.Host + " and the network; " + key + ".baseUrl of config.json sets another one"
	case gateway.PartKey:
		return "put another key there: gander setup --provider " + t.Provider
	case gateway.PartHeader:
		return "set " + key + ".keyHeader in config.json"
	case gateway.PartModel:
		return "choose another model with --model, and set it in " + key + ".model of config.json: " + cli.SomeOf(t.Models, 12)
	}
	return "try again later"
}
