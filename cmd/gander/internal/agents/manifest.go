package agents

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/sandbox/team/roster"
)

func agentCreate(a *cli.App) *cobra.Command {
	m := roster.Manifest{Discoverable: true, Delegation: roster.Delegation{CanReceive: true}, Priority: 50}
	var noReceive, hidden, asJSON bool
	var instructions string
	cmd := &cobra.Command{
		Use:   "create NAME --provider PROVIDER",
		Short: "make an agent of your own: a program or a model under a name, with instructions",
		Long: `create writes a manifest, agents/NAME/AGENTS.md in gander's home: who answers under this
name (--provider), with which model, and the agent's instructions, which are put in front
of the first prompt of each conversation. The agent can be chosen in editors, by --agent,
and, where a program answers, in unattended runs. Edit the file, or change it with gander agent set.`,
		Example: `  gander agent create reviewer --provider opencode --description "Reads changes"
  gander agent create writer --provider goose --model qwen3 --tags docs,style --instructions writer.md`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name the agent, as in: gander agent create reviewer --provider goose")
			}
			m.ID, m.Discoverable, m.Delegation.CanReceive = args[0], !hidden, !noReceive
			var err error
			if m.Instructions, err = readInstructions(a, instructions); err != nil {
				return err
			}
			if err := a.Config.Fits(m); err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			err = a.Config.Roster().Create(m)
			if _, is := errors.AsType[*fs.PathError](err); is {
				return fmt.Errorf("making the agent %s: %w; %s", m.ID, err, cli.HomeAdvice)
			}
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			return wrote(a, m.ID, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&m.Provider, "provider", "", "who answers: a program that is an agent (goose, opencode, one of the configuration), or an endpoint")
	fl.StringVar(&m.Name, "name", "", "its name for people (default: NAME)")
	fl.StringVar(&m.Description, "description", "", "what it is for, in a sentence")
	fl.StringSliceVar(&m.Tags, "tags", nil, "words to find it by, with commas between them")
	fl.StringVar(&m.Endpoint, "endpoint", "", "whose models it uses: a name of gander provider list (default: as its provider)")
	fl.StringVar(&m.Model, "model", "", "the model (default: as its provider has it)")
	fl.StringVar(&m.Mode, "mode", "", "the mode, by the program's own id")
	fl.StringVar(&m.Access, "access", "", "read has its sandboxes show the project read-only (default: write)")
	fl.StringVar(&m.WorkspaceAccess, "workspace", "", "internal gives it a directory of its own that stays; external and auto none")
	fl.IntVar(&m.Priority, "priority", 50, "who comes first of those that fit, from -1000 to 1000")
	fl.BoolVar(&noReceive, "no-receive", false, "others give it no work")
	fl.BoolVar(&hidden, "hidden", false, "others do not find it by its description")
	fl.StringVar(&instructions, "instructions", "", "the file with its instructions; - reads stdin")
	cli.CompleteFlag(cmd, "access", roster.AccessRead, roster.AccessWrite)
	cli.CompleteFlag(cmd, "workspace", roster.WorkspaceInternal, roster.WorkspaceExternal, roster.WorkspaceAuto)
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// maxInstructions bounds the instructions of an agent, in bytes.
const maxInstructions = 128 << 10

func readInstructions(a *cli.App, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	in := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", cli.UsageError("--instructions: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInstructions+1))
	if err != nil {
		return "", cli.UsageError("--instructions %s: %w", file, err)
	}
	if len(text) > maxInstructions {
		return "", cli.UsageError("--instructions %s: larger than %d KiB", file, maxInstructions>>10)
	}
	return string(text), nil
}

// wrote shows a manifest that was written.
func wrote(a *cli.App, id string, asJSON bool) error {
	m, err := a.Config.Roster().Load(id)
	if err != nil {
		return err
	}
	if asJSON {
		return a.PrintJSON(m)
	}
	_, err = fmt.Fprintln(a.Out, "wrote", m.Path)
	return err
}

// agentDetails holds the fields that gander agent info prints.
type agentDetails struct {
	agentRow
	Model       string           `json:"model,omitempty"`
	ModelSource string           `json:"modelSource,omitempty"`
	Host        string           `json:"host,omitempty"`
	Mode        string           `json:"mode,omitempty"`
	Settings    *roster.Manifest `json:"settings,omitempty"`
	Workspace   string           `json:"workspace,omitempty"`
}

func agentInfo(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "info NAME",
		Short:             "what an agent is made of, and what decides each part",
		Example:           "  gander agent info reviewer\n  gander agent info goose --json",
		ValidArgsFunction: cli.CompleteFirst(a.AgentsForShell),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one agent, as in: gander agent info %s", cli.AgentNames()[0])
			}
			d, err := details(cmd, a, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(d)
			}
			return d.print(a.Out)
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func details(cmd *cobra.Command, a *cli.App, name string) (agentDetails, error) {
	for _, r := range agentRows(cmd.Context(), a) {
		if r.Name != name {
			continue
		}
		d := agentDetails{agentRow: r, Mode: a.Config.AgentSettings(name).Mode, ModelSource: a.Config.ModelSource(name), Settings: a.Config.Manifest(name)}
		e, _ := a.Config.Endpoint(name) // Missing says what is wrong with it
		d.Host, d.Model = e.BaseURL, e.Model
		if m := d.Settings; m != nil && m.WorkspaceAccess == roster.WorkspaceInternal {
			d.Workspace = a.Config.Roster().Workspace(name)
		}
		return d, nil
	}
	return agentDetails{}, cli.UsageError("there is no agent %q; gander agent list shows them", name)
}

func (d *agentDetails) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	line := func(name, value, source string) {
		if source != "" {
			source = "\t" + source
		}
		if value != "" {
			fmt.Fprintf(w, "%s\t%s%s\n", name, cli.Printable(cli.OneLine(value)), source)
		}
	}
	line("agent", d.Name, "")
	line("manifest", d.Manifest, "")
	if m := d.Settings; m != nil {
		line("name", m.Name, "")
		line("description", m.Description, "")
		line("provider", m.Provider, "")
		line("endpoint", m.Endpoint, "")
		line("tags", strings.Join(m.Tags, ", "), "")
		line("access", m.Access, "")
		line("receives", fmt.Sprint(m.Delegation.CanReceive), "")
		line("delegates", fmt.Sprint(m.Delegation.CanDelegate), "")
		line("priority", fmt.Sprint(m.Priority), "")
		line("instructions", m.Instructions, "")
		for _, warning := range m.Warnings {
			line("warning", warning, "")
		}
	}
	line("workspace", d.Workspace, "")
	line("model", d.Model, d.ModelSource)
	line("host", d.Host, "")
	line("mode", d.Mode, "")
	line("command", strings.Join(d.Command, " "), "")
	line("missing", d.Missing, "")
	return w.Flush()
}

func agentSet(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "set NAME KEY=VALUE…",
		Short: "change keys of an agent's manifest",
		Long: "set changes keys of the front matter of agents/NAME/AGENTS.md, and leaves the rest of the file\nas it is. An empty value takes the key out. The keys are\n" +
			strings.Join(roster.Keys()[1:8], ", ") + ",\n" + strings.Join(roster.Keys()[8:], ", ") + ".",
		Example:           "  gander agent set reviewer model=qwen3 access=read\n  gander agent set reviewer tags=go,tests delegation.canReceive=false",
		ValidArgsFunction: cli.CompleteFirst(a.AgentsForShell),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.UsageError("name the agent and what is to be set, as in: gander agent set reviewer model=qwen3")
			}
			values := map[string]string{}
			for _, arg := range args[1:] {
				key, value, ok := strings.Cut(arg, "=")
				if _, twice := values[key]; twice || !ok {
					return cli.UsageError("%q is not one key and its value, as in model=qwen3", arg)
				}
				values[key] = value
			}
			if err := setKeys(a.Config, args[0], values); err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			return wrote(a, args[0], asJSON)
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// setKeys changes a manifest, and back where it does not fit to the configuration then.
func setKeys(cfg *config.Config, id string, values map[string]string) error {
	s := cfg.Roster()
	path := filepath.Join(s.Agents, id, roster.File)
	before, _ := os.ReadFile(path) // Set says what is wrong with it
	if err := s.Set(id, values); err != nil {
		return err
	}
	m, err := s.Load(id)
	if err == nil {
		err = cfg.Fits(m)
	}
	if err != nil && before != nil {
		return errors.Join(err, os.WriteFile(path, before, 0o600))
	}
	return err
}

func agentDelete(a *cli.App) *cobra.Command {
	var keep, asJSON bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "remove an agent's manifest, and the directory of its own",
		Long: `delete removes agents/NAME/AGENTS.md, and workspaces/NAME unless --keep-workspace is given.
Its conversations stay. Programs that gander has installed stay too; gander agent remove
takes those away.`,
		Example:           "  gander agent delete reviewer\n  gander agent delete reviewer --keep-workspace",
		ValidArgsFunction: cli.CompleteFirst(a.AgentsForShell),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one agent, as in: gander agent delete reviewer")
			}
			err := a.Config.Roster().Delete(args[0], keep)
			if errors.Is(err, fs.ErrNotExist) {
				return cli.UsageError("there is no manifest of an agent %q; gander agent list shows them", args[0])
			}
			if err != nil {
				return fmt.Errorf("deleting the agent %s: %w; %s", args[0], err, cli.HomeAdvice)
			}
			if asJSON {
				return a.PrintJSON(map[string]any{"name": args[0], "deleted": true})
			}
			_, err = fmt.Fprintln(a.Out, "deleted", args[0])
			return err
		},
	}
	cmd.Flags().BoolVar(&keep, "keep-workspace", false, "leave the directory of its own")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// agentRun is gander run with the agent as its first argument.
func agentRun(a *cli.App, run *cobra.Command) *cobra.Command {
	inner, begin := run.RunE, run.PersistentPreRunE
	run.Use, run.Short = "run NAME [PROMPT…]", "one turn of an agent from a terminal: gander run --agent NAME"
	run.Long = "run has an agent answer one prompt, as gander run --agent NAME does, with the same flags."
	run.Example = "  gander agent run reviewer \"what is wrong with the last change?\"\n  git diff | gander agent run reviewer"
	run.ValidArgsFunction = cli.CompleteFirst(a.AgentsForShell)
	var asJSON bool
	run.Flags().BoolVar(&asJSON, "json", false, "print as JSON, each update in a line: --format json")
	run.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if asJSON {
			if err := cmd.Flags().Set("format", show.FormatJSON); err != nil {
				return err
			}
		}
		if len(args) > 0 && !cmd.Flags().Changed("agent") {
			a.Flags.Agent = args[0]
		}
		return begin(cmd, args)
	}
	run.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || cmd.Flags().Changed("agent") {
			return cli.UsageError("name the agent first, and not by --agent, as in: gander agent run reviewer \"what is wrong here?\"")
		}
		return inner(cmd, args[1:])
	}
	return run
}

func agentImport(a *cli.App) *cobra.Command {
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "import DIR",
		Short: "take over the agents of an OpenGoat home as manifests",
		Long: `import reads the agents of OpenGoat's directory (~/.opengoat): what their AGENTS.md says,
the provider that each is bound to, the files of their workspaces, skills, and sessions.
Nothing that is there is written over, and a second time changes nothing. Links are not
followed. Of keys only the names of their variables are read.`,
		Example: "  gander agent import ~/.opengoat --dry-run\n  gander agent import ~/.opengoat",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name the directory, as in: gander agent import ~/.opengoat")
			}
			found, err := a.Config.Roster().Import(args[0], a.Config.Agent, dry)
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			found = append(found, importSkills(a, args[0], dry)...)
			of, err := importSessions(cmd.Context(), a, args[0], dry)
			if err != nil {
				return err
			}
			found = append(found, of...)
			if asJSON {
				return a.PrintJSON(found)
			}
			for _, f := range found {
				fmt.Fprintln(a.Out, cli.Printable(f.String()))
			}
			if len(found) == 0 {
				fmt.Fprintln(a.Out, "no agents there")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be taken over, and write nothing")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}
