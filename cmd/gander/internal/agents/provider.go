package agents

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
)

// ProviderCommand returns the command gander provider.
func ProviderCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "which model endpoints are configured",
	}
	cmd.AddCommand(providerList(a))
	cli.Group(cmd)
	return cmd
}

// providerRow is what is configured for an agent, as gander provider list prints it.
type providerRow struct {
	Agent string `json:"agent"`
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

func providerList(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the model endpoint, model and key of each agent, never the key itself",
		Long: `list shows what each agent's model calls would use in this directory: the endpoint, the
model, where the key comes from, and the names of headers that go with it. gander
doctor tries whether that works.`,
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
	key, _ := cfg.Key() // Endpoint says what is wrong with it
	for _, name := range cfg.AgentNames() {
		e, err := cfg.Endpoint(name)
		r := providerRow{Agent: name, Host: e.BaseURL, Model: e.Model, Key: key.Value != "", KeySource: key.Source, Headers: slices.Sorted(maps.Keys(e.Headers))}
		if err != nil {
			r.Missing = err.Error()
		}
		rows = append(rows, r)
	}
	return rows
}

func printProviders(a *cli.App, rows []providerRow) error {
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tENDPOINT\tMODEL\tKEY")
	for _, r := range rows {
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Agent, cmp.Or(r.Host, "-"), cmp.Or(r.Model, "-"), key)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Missing != "" {
			fmt.Fprintf(a.Err, "%s: %s\n", r.Agent, r.Missing)
		}
	}
	return nil
}
