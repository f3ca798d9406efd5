package agents

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/clients"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/team/presets"
	"gander.dev/gander/sandbox/team/roster"
)

func agentAdd(a *cli.App) *cobra.Command {
	var name, program string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add [PRESET]",
		Short: "make a known program an agent; alone, list the programs that are known",
		Long: `add writes an entry into agents of config.json for a program that is on this
machine: how it is started in a sandbox, and how it finds the model there. Nothing is
installed; where the program is missing, add says how npm installs it.`,
		Example:           "  gander agent add\n  gander agent add qwen-code\n  gander agent add codex-acp --name codex --program ~/bin/codex-acp",
		ValidArgsFunction: cli.CompleteFirst(presetNames),
		RunE: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return listPresets(a, asJSON)
			case 1:
				return addPreset(a, args[0], name, program, asJSON)
			}
			return cli.UsageError("name one preset: %s", strings.Join(presetNames(), ", "))
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "what the agent is called (default: the preset's name)")
	cmd.Flags().StringVar(&program, "program", "", "the program's file (default: the one on PATH)")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func presetNames() []string {
	var names []string
	for _, p := range presets.All() {
		names = append(names, p.Name)
	}
	return names
}

func listPresets(a *cli.App, asJSON bool) error {
	if asJSON {
		return a.PrintJSON(presets.All())
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	for _, p := range presets.All() {
		state := fmt.Sprintf("%s, by %s, tried %s", p.NPM(), p.Protocol, p.Tried)
		if p.Note != "" {
			state += " " + p.Note
		}
		if p.OneShot {
			state += ", started for each prompt"
		}
		if p.Not != "" {
			state = "not: " + p.Not
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p.Title, state)
	}
	return w.Flush()
}

// entry holds what config.json has of an agent that was added.
type entry struct {
	Command       []string          `json:"command"`
	Env           map[string]string `json:"env,omitempty"`
	Mode          string            `json:"mode,omitempty"`
	OneShot       bool              `json:"oneShot,omitempty"`
	Protocol      string            `json:"protocol,omitempty"`
	ReadOnlyPaths []string          `json:"readOnlyPaths,omitempty"`
}

func addPreset(a *cli.App, preset, name, program string, asJSON bool) error {
	p, known := presets.Find(preset)
	name = cmp.Or(name, p.Name)
	switch {
	case !known:
		return cli.UsageError("gander knows no program %q; it knows %s; another one is added by agents.NAME.command in config.json", preset, strings.Join(presetNames(), ", "))
	case p.Not != "":
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s cannot be added: %s", p.Name, p.Not)}
	case roster.CheckID(name) != "":
		return &cli.ExitError{Code: cli.ExitUsage, Err: errors.New(roster.CheckID(name))}
	case len(a.Config.Agents[name].Command) > 0 || slices.Contains(cli.AgentNames(), name):
		return cli.UsageError("there is an agent %s already; gander agent remove %[1]s takes it away, or choose another name with --name", name)
	}
	files, err := filesOf(a, p, program)
	if err != nil {
		return err
	}
	command := slices.Concat(files, p.Args)
	if p.Script != "" {
		command = append([]string{"/bin/sh", "-c", p.Script, p.Name}, command...)
	}
	e := entry{Command: command, Env: p.Env, Mode: p.Mode, OneShot: p.OneShot, Protocol: p.Speaks, ReadOnlyPaths: besides(command[0], files)}
	file, err := setEntry(a, name, e)
	if err != nil {
		return err
	}
	if asJSON {
		return a.PrintJSON(map[string]any{"name": name, "file": file, "entry": e})
	}
	_, err = fmt.Fprintf(a.Out, "added %s to %s; gander agent test %[1]s tries it\n", name, file)
	return err
}

// setEntry writes an agent's entry into config.json, or takes it out, where e is nil.
func setEntry(a *cli.App, name string, e any) (file string, err error) {
	file = filepath.Join(a.Config.Home, config.UserFile)
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	text, err := clients.SetValues(old, []clients.Value{{Path: []string{"agents", name}, Value: e}})
	if err != nil {
		return file, fmt.Errorf("%s: %w", file, err)
	}
	if err := config.Check(file, text, a.Environ); err != nil {
		return file, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if err := os.MkdirAll(a.Config.Home, 0o700); err != nil {
		return file, fmt.Errorf("making gander's home: %w; %s", err, cli.HomeAdvice)
	}
	if err := clients.Replace(file, text); err != nil {
		return file, fmt.Errorf("writing %s: %w; %s", file, err, cli.HomeAdvice)
	}
	return file, nil
}

// filesOf returns what starts a preset's program: its file, behind the node that is on PATH where
// it is a script of Node's.
func filesOf(a *cli.App, p presets.Preset, program string) ([]string, error) {
	program = cmp.Or(program, a.LookPath(p.Program))
	if program == "" {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s is not on PATH; install it with npm install -g %s (it needs %s), or name its file with --program", p.Program, p.NPM(), cmp.Or(p.Needs, "Node.js"))}
	}
	named := program
	program, err := filepath.Abs(named)
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if info, failed := os.Stat(program); err != nil || failed != nil || !info.Mode().IsRegular() {
		return nil, cli.UsageError("--program: %s is not a file", named)
	}
	if !isNodeScript(program) {
		return []string{program}, nil
	}
	node := a.LookPath("node")
	if node == "" {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s is a script for node, which is not on PATH; install Node.js", program)}
	}
	if node, err = filepath.EvalSymlinks(node); err != nil {
		return nil, err
	}
	return []string{node, program}, nil
}

// besides returns the paths that a sandbox has to show for files to be started, besides the
// program of the command, which it shows anyway. Of what npm has installed that is all.
func besides(program string, files []string) (paths []string) {
	modules := filepath.Join("/", "node_modules")
	for _, file := range files {
		if at := strings.Index(file, modules+string(filepath.Separator)); at >= 0 {
			paths = append(paths, file[:at+len(modules)])
		} else if file != program {
			paths = append(paths, file)
		}
	}
	return paths
}

// isNodeScript reports whether a file says that node runs it.
func isNodeScript(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	line, _ := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	return strings.HasPrefix(string(line), "#!") && strings.HasSuffix(strings.TrimSpace(string(line)), "node")
}

func agentRemove(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "take an agent's program away: what gander has installed, or its entry in config.json",
		Long: `remove takes away what gander agent install has put below gander's home, or the entry that
gander agent add has written. An agent's manifest stays, and so do its conversations; gander
agent delete removes a manifest. Programs that others have installed are not touched.`,
		Example:           "  gander agent remove goose\n  gander agent remove qwen-code",
		ValidArgsFunction: cli.CompleteFirst(a.AgentsForShell),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one agent, as in: gander agent remove %s", cli.AgentNames()[0])
			}
			removed, err := removeProgram(a, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(map[string]any{"name": args[0], "removed": removed})
			}
			for _, what := range removed {
				fmt.Fprintln(a.Out, "removed", what)
			}
			for _, m := range a.Config.Team() {
				if m.Provider == args[0] {
					fmt.Fprintf(a.Err, "%s runs %s, and does not start until that is there again\n", m.ID, args[0])
				}
			}
			return nil
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// removeProgram takes away what gander has put there of an agent, and returns what that was.
func removeProgram(a *cli.App, name string) (removed []string, err error) {
	if why := roster.CheckID(name); why != "" {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: errors.New(why)}
	}
	if !slices.Contains(cli.AgentNames(), name) && len(a.Config.Agents[name].Command) > 0 {
		file, err := setEntry(a, name, nil)
		if err != nil {
			return nil, err
		}
		removed = append(removed, fmt.Sprintf("agents.%s of %s", name, file))
	}
	dir := a.Config.AgentDir(name)
	if info, err := os.Lstat(dir); err == nil && info.IsDir() { // no link is followed
		for _, part := range []string{"node_modules", "package.json", "package-lock.json", ".npmrc", "bin"} {
			path := filepath.Join(dir, part)
			if _, err := os.Lstat(path); err != nil {
				continue
			}
			if err := os.RemoveAll(path); err != nil {
				return removed, fmt.Errorf("removing %s: %w; %s", path, err, cli.HomeAdvice)
			}
			removed = append(removed, path)
		}
		_ = os.Remove(dir) // unless a manifest is in it
	}
	if len(removed) == 0 {
		return nil, cli.UsageError("gander has installed or added nothing called %q; gander agent list shows the agents, gander agent delete removes a manifest", name)
	}
	return removed, nil
}
