package policycmd

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/rules/permit"
)

// hostFlags say for which projects something is said about a host.
type hostFlags struct {
	cwd          string
	global, json bool
}

func (f *hostFlags) register(cmd *cobra.Command) {
	cli.CWDFlag(cmd, &f.cwd)
	cmd.Flags().BoolVar(&f.global, "global", false, "for every project")
	cli.Exclusive(cmd, "cwd", "global")
	cli.JSONFlag(cmd, &f.json)
}

// saidHost holds an answer as allow, deny and forget print it with --json.
type saidHost struct {
	Host    string `json:"host"`
	Answer  string `json:"answer"` // "allowed", "denied" or "forgotten"
	Project string `json:"project,omitempty"`
	Global  bool   `json:"global"`
}

// hostCommand is a command that says something about a host.
func hostCommand(a *cli.App, cmd *cobra.Command, answer string, say func(store *permit.Store, project, rule string) error) *cobra.Command {
	var f hostFlags
	name := cmd.Name()
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cli.UsageError("name one host, as in: gander policy %s github.com:443", name)
		}
		rule, err := egress.ParseRule(args[0])
		if err != nil {
			return &cli.ExitError{Code: cli.ExitUsage, Err: err}
		}
		said := saidHost{Host: rule.Text(), Answer: answer, Global: f.global}
		project, where := permit.Everywhere, "every project"
		if !f.global {
			dir, err := cli.ProjectDir(f.cwd)
			if err != nil {
				return err
			}
			project = permit.Canonical(dir)
			said.Project, where = project, project
		}
		if err := say(permit.Open(wire.PermissionsDir(a.Config)), project, rule.Text()); err != nil {
			return err
		}
		if f.json {
			return a.PrintJSON(said)
		}
		_, err = fmt.Fprintf(a.Out, "%s is %s in sandboxes of %s, also in those that run\n", rule.Text(), answer, cli.Printable(where))
		return err
	}
	f.register(cmd)
	return cmd
}

func remember(allow bool) func(*permit.Store, string, string) error {
	return func(store *permit.Store, project, rule string) error {
		if _, err := store.Add(project, confine.HostRule(rule, allow)); err != nil {
			return fmt.Errorf("%w; %s", err, cli.HomeAdvice)
		}
		return nil
	}
}

func policyAllowCommand(a *cli.App) *cobra.Command {
	return hostCommand(a, &cobra.Command{
		Use:   "allow HOST[:PORT]",
		Short: "let sandboxes of this project reach a host",
		Long: `allow lets sandboxes of this project, or of all, reach a host: by plain TCP, and through
the proxy inside. It is kept where your answers "Always allow" are, never in the project,
and counts at once. Without a port it is those of the web, 80 and 443; ":*" is any port.
An address needs its port, and is the only way to what is not public: 127.0.0.1:5432 is
a server of this machine.`,
		Example: `  gander policy allow packages.example.org
  gander policy allow git.example.org:22
  gander policy allow 127.0.0.1:5432
  gander policy allow --global '*.example.org'`,
	}, "allowed", remember(true))
}

func policyDenyCommand(a *cli.App) *cobra.Command {
	return hostCommand(a, &cobra.Command{
		Use:   "deny HOST[:PORT]",
		Short: "keep sandboxes of this project from a host, whatever else allows it",
		Long: `deny takes back what allow said about a host, and keeps sandboxes of this project, or of
all, from it, whatever policy.network and its presets allow: a denial wins. gander policy
forget takes that back.`,
		Example: `  gander policy deny packages.example.org
  gander policy deny --global telemetry.example.org`,
	}, "denied", remember(false))
}

func policyForgetCommand(a *cli.App) *cobra.Command {
	return hostCommand(a, &cobra.Command{
		Use:     "forget HOST[:PORT]",
		Short:   "take back what allow or deny said about a host",
		Long:    "forget takes back what gander policy allow or deny said, or you answered, about a host.",
		Example: "  gander policy forget packages.example.org\n  gander policy forget --global '*.example.org'",
	}, "forgotten", func(store *permit.Store, project, rule string) error {
		rules, err := store.Rules(project)
		if err != nil {
			return err
		}
		found := false
		for _, r := range rules {
			if r.Kind != permit.KindHost || r.Text != rule {
				continue
			}
			found = true
			if err := store.Revoke(project, r.ID); err != nil {
				return fmt.Errorf("%w; %s", err, cli.HomeAdvice)
			}
		}
		if !found {
			return fmt.Errorf("nothing was said about %s there; gander policy show has what was", rule)
		}
		return nil
	})
}

func policyPresetsCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "presets",
		Short: "the hosts that the names in policy.network.presets stand for",
		Long: `presets prints the hosts of each preset, the page that names them, and the day on which
the row was written.`,
		Example: "  gander policy presets\n  gander policy presets --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.PrintJSON(egress.PresetRows())
			}
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "PRESET\tHOST\tSOURCE\tWRITTEN")
			for _, r := range egress.PresetRows() {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Preset, r.Rule, r.Source, r.Written)
			}
			return w.Flush()
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// shownHost holds an answer of the person's about a host.
type shownHost struct {
	Host   string `json:"host"`
	Answer string `json:"answer"` // "allowed" or "denied"
	Global bool   `json:"global"`
}

// shownHosts are those of a project, and of all.
func shownHosts(store *permit.Store, project string) ([]shownHost, error) {
	all := []shownHost{}
	for _, where := range []string{project, permit.Everywhere} {
		rules, err := store.Rules(where)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if r.Kind == permit.KindHost {
				all = append(all, shownHost{r.Text, map[bool]string{true: "allowed", false: "denied"}[r.Allow], where == permit.Everywhere})
			}
		}
	}
	return all, nil
}

// how says where an answer is from, and what takes it back.
func (h shownHost) how() string {
	if h.Global {
		return "you, for every project (gander policy forget --global)"
	}
	return "you, for this project (gander policy forget)"
}
