package setup

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/clients"
	"gander.dev/gander/cmd/gander/internal/config"
)

// configFlags are the flags of gander config.
type configFlags struct {
	write, remove      bool
	schema             bool
	file, name, plugin string
	agent, sandbox     string
}

func targetNames() []string {
	var names []string
	for _, t := range clients.Targets() {
		names = append(names, t.Name)
	}
	return names
}

// ConfigCommand returns the command gander config.
func ConfigCommand(a *cli.App) *cobra.Command {
	var f configFlags
	known := targetNames()
	cmd := &cobra.Command{
		Use:   "config TARGET",
		Short: "the entry that makes an editor or another client use gander",
		Long: `config prints the configuration entry of a client on stdout, and on stderr where it
belongs. With --write it puts the entry into the client's file: comments, order and
layout stay, what was there before is kept beside it as FILE.before-gander, a second
time changes nothing. An entry of gander's that has to change keeps what you added to it;
the file with the old one is kept as FILE.before-gander-1, -2 and so on. --remove takes
the entry out again.

` + targetTable() + `
goose and opencode get gander's developer tools as an MCP server; the others start
gander acp.

--schema prints the JSON schema of gander's own config.json and .gander.json instead.`,
		Example: `  gander config zed                          print the entry
  gander config zed --write                  put it into ~/.config/zed/settings.json
  gander config zed --write --name "Gander (opencode)" --agent opencode
  gander config neovim --plugin avante
  gander config vscode --remove              take it out again
  gander config --schema > config.schema.json`,
		Annotations:       cli.Unconfigured(),
		ValidArgsFunction: cli.CompleteFirst(func() []string { return known }),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.schema && len(args) == 0 {
				_, err := a.Out.Write(config.Schema())
				return err
			}
			if f.schema {
				return cli.UsageError("--schema is about gander's own configuration; leave %q out", args[0])
			}
			if len(args) != 1 {
				return cli.UsageError("name one client: %s", strings.Join(known, ", "))
			}
			t := clients.Find(args[0])
			if t == nil {
				return cli.UsageError("gander config does not know the client %q; it knows %s", args[0], strings.Join(known, ", "))
			}
			return configureClient(a, t, f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.write, "write", false, "put the entry into the client's file")
	fl.BoolVar(&f.remove, "remove", false, "take the entry out of the client's file")
	fl.StringVar(&f.file, "file", "", "the client's file (default: where the client looks for it)")
	fl.StringVar(&f.name, "name", "", "what the client calls gander (default: Gander, or what the client is used to)")
	fl.StringVar(&f.plugin, "plugin", "", "of neovim: codecompanion or avante (default codecompanion)")
	fl.StringVar(&f.agent, "agent", "", "who answers: "+cli.AgentWords()+" or an agent of the configuration (default: the configuration's)")
	fl.StringVar(&f.sandbox, "sandbox", "", "where: auto, local, docker or off (default: the configuration's)")
	fl.BoolVar(&f.schema, "schema", false, "print the JSON schema of config.json and .gander.json")
	cli.Exclusive(cmd, "schema", "write")
	cli.Exclusive(cmd, "schema", "remove")
	cli.CompleteFlag(cmd, "plugin", clients.Find("neovim").Plugins...)
	a.CompleteAgents(cmd)
	cli.CompleteFlag(cmd, "sandbox", cli.SandboxChoices()...)
	return cmd
}

// targetTable is the clients for the help.
func targetTable() string {
	var out strings.Builder
	for _, t := range clients.Targets() {
		fmt.Fprintf(&out, "  %-10s %s\n", t.Name, t.Title)
	}
	return out.String()
}

// configureClient prints, writes or removes the entry of one client.
func configureClient(a *cli.App, t *clients.Target, f configFlags) error {
	if err := checkConfigFlags(a, t, f); err != nil {
		return err
	}
	e, err := entry(a, t, f)
	if err != nil {
		return err
	}
	file := cmp.Or(f.file, t.File(a.Clients(), cmp.Or(f.plugin, first(t.Plugins))))
	if f.file == "" && !filepath.IsAbs(file) {
		return cli.UsageError("%s, the client's file, is not an absolute path; set %s to your own directory, or name the file with --file", file, config.PersonalVariable())
	}
	switch {
	case f.write:
		err = writeEntry(a, t, file, e)
	case f.remove:
		err = removeEntry(a, t, file, e)
	default:
		fmt.Fprintf(a.Err, "for %s; \"gander config %s --write\" puts it there:\n", file, t.Name)
		_, err = a.Out.Write(t.Document(e))
		sayNext(a, t, file, e)
	}
	if err == nil && !f.remove {
		warnOfShell(a, t)
	}
	return err
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func checkConfigFlags(a *cli.App, t *clients.Target, f configFlags) error {
	switch {
	case f.write && f.remove:
		return cli.UsageError("--write and --remove exclude each other; choose one")
	case f.file != "" && !f.write && !f.remove:
		return cli.UsageError("--file names the file for --write or --remove; without one of them the entry is only printed")
	case f.plugin != "" && len(t.Plugins) == 0:
		return cli.UsageError("--plugin is for neovim; %s has no plugins to choose from", t.Name)
	case f.plugin != "" && !slices.Contains(t.Plugins, f.plugin):
		return cli.UsageError("--plugin %q: choose one of %s", f.plugin, strings.Join(t.Plugins, ", "))
	case t.MCP && f.agent != "":
		return cli.UsageError("--agent is for clients that start gander acp; %s gets gander's tools and is the agent itself", t.Name)
	case t.MCP && f.sandbox != "":
		return cli.UsageError("--sandbox is for clients that start gander acp; in %s gander's tools run where %[1]s runs", t.Name)
	case f.sandbox != "" && !slices.Contains(cli.SandboxChoices(), f.sandbox):
		return cli.UsageError("--sandbox %q: choose one of %s", f.sandbox, strings.Join(cli.SandboxChoices(), ", "))
	case f.agent != "" && !slices.Contains(a.KnownAgents(), f.agent):
		return cli.UsageError("--agent %q: choose one of %s", f.agent, strings.Join(a.KnownAgents(), ", "))
	}
	return nil
}

// entry is gander as the client is to start it.
func entry(a *cli.App, t *clients.Target, f configFlags) (clients.Entry, error) {
	command, err := a.Executable()
	if err != nil {
		return clients.Entry{}, err
	}
	args := []string{"acp"}
	if t.MCP {
		args = []string{"mcp", "developer"}
	}
	if f.agent != "" {
		args = append(args, "--agent", f.agent)
	}
	if f.sandbox != "" {
		args = append(args, "--sandbox", f.sandbox)
	}
	if home := cmp.Or(a.Home, cli.Variable(a.Environ, "GANDER_HOME")); home != "" && !t.MCP { // the tools need no home
		absolute, err := filepath.Abs(home)
		if err != nil {
			return clients.Entry{}, cli.UsageError("--home %s: %v", home, err)
		}
		if absolute != filepath.Join(a.Clients().Home, ".gander") {
			args = append(args, "--home", absolute)
		}
	}
	return clients.Entry{Name: f.name, Command: command, Args: args, Plugin: f.plugin}, nil
}

func writeEntry(a *cli.App, t *clients.Target, file string, e clients.Entry) error {
	c, err := clients.Put(t, file, e)
	if err != nil {
		return fmt.Errorf("the entry was not written: %w", err)
	}
	switch {
	case !c.Changed:
		fmt.Fprintf(a.Out, "%s has the entry already\n", c.File)
	case c.Backup != "":
		fmt.Fprintf(a.Out, "wrote the entry into %s; what was there before is in %s\n", c.File, c.Backup)
	default:
		fmt.Fprintf(a.Out, "wrote %s\n", c.File)
	}
	sayNext(a, t, c.File, e)
	return nil
}

func removeEntry(a *cli.App, t *clients.Target, file string, e clients.Entry) error {
	c, err := clients.Take(t, file, e)
	if err != nil {
		return fmt.Errorf("the entry was not taken out: %w", err)
	}
	switch {
	case c.Removed:
		fmt.Fprintf(a.Out, "removed %s; nothing else was in it\n", c.File)
		if t.Loaded() {
			fmt.Fprintln(a.Err, "a line of your init file may load it: take that out, or let it do nothing without the file, as gander config "+t.Name+" prints it")
		}
	case c.Changed:
		fmt.Fprintf(a.Out, "took the entry out of %s\n", c.File)
	default:
		fmt.Fprintf(a.Out, "%s has no such entry\n", c.File)
	}
	return nil
}

func sayNext(a *cli.App, t *clients.Target, file string, e clients.Entry) {
	if next := t.Next(file, e); next != "" {
		fmt.Fprintln(a.Err, next)
	}
}

// warnOfShell names what only this shell knows and the client will not see.
func warnOfShell(a *cli.App, t *clients.Target) {
	names := shellOnly(a)
	if len(names) == 0 || t.MCP {
		return
	}
	file := filepath.Join(cmp.Or(homeDir(a), "~/.gander"), config.UserFile)
	var next []string
	for _, name := range names {
		does := "gander setup writes the endpoint and the model to " + file
		switch {
		case name == usualKey || a.Config != nil && name == a.Config.Model.APIKeyEnv:
			does = "gander setup --store-key keeps the key in a file"
		case strings.HasSuffix(name, "_CMD"):
			agent := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "GANDER_"), "_CMD"))
			does = fmt.Sprintf("agents.%s.command in %s names the program", agent, file)
		}
		if !slices.Contains(next, does) {
			next = append(next, does)
		}
	}
	fmt.Fprintf(a.Err, "%s set in this shell only, which an editor may not see;\n%s\n", cli.IsOrAre(names), strings.Join(next, ", "))
}

// shellOnly are the variables that say here about the model what config.json does not.
func shellOnly(a *cli.App) []string {
	plain := func(value string) string { return strings.TrimPrefix(plainHost(value), "custom/") }
	var names []string
	for name, stored := range stored(a) {
		if value := cli.Variable(a.Environ, name); value != "" && plain(value) != plain(stored) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// stored is what config.json says in place of each variable.
func stored(a *cli.App) map[string]string {
	c := a.Config
	if c == nil {
		c = new(config.Config)
	}
	key := c.Model.APIKey
	if c.Model.APIKeyFile != "" {
		key, _ = config.ReadKeyFile(c.Model.APIKeyFile) // who needs it says what is wrong
	}
	stored := map[string]string{"LLM_HOST": c.Model.Host, usualKey: key.Reveal()}
	if c.Model.APIKeyEnv != "" {
		stored[c.Model.APIKeyEnv] = ""
	}
	for _, agent := range cli.AgentNames() {
		prefix := strings.ToUpper(agent)
		stored[prefix+"_LLM_HOST"] = c.Model.Host
		stored[prefix+"_MODEL"] = cmp.Or(c.Agents[agent].Model, c.Model.Model)
		stored["GANDER_"+prefix+"_CMD"] = strings.Join(c.Agents[agent].Command, " ")
	}
	return stored
}

// homeDir is gander's home; empty when the configuration is broken.
func homeDir(a *cli.App) string {
	if a.Config == nil {
		return ""
	}
	return a.Config.Home
}
