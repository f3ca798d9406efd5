package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// annotation says, under the key "needs", what a command cannot do without.
const annotation = "needs"

// noConfig is for commands that work with a broken configuration.
const noConfig = "nothing"

// Unconfigured marks a command as one that works with a broken configuration.
func Unconfigured() map[string]string { return map[string]string{annotation: noConfig} }

// need is what a command, or one above it, cannot do without. Cobra's own
// commands (help, completion) need nothing.
func need(cmd *cobra.Command) string {
	if cmd.HasSubCommands() {
		return noConfig // it prints its help
	}
	for c := cmd; c != nil; c = c.Parent() {
		if n := c.Annotations[annotation]; n != "" {
			return n
		}
		if slices.Contains([]string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, c.Name()) {
			return noConfig
		}
	}
	return ""
}

// forPrograms reports whether a program starts a command, and reads its log.
func forPrograms(cmd *cobra.Command) bool {
	for c := cmd; c != nil; c = c.Parent() {
		if slices.Contains([]string{"acp", "mcp", "replay", "serve", "loop"}, c.Name()) {
			return true
		}
	}
	return false
}

// NoArgs rejects arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UsageError("%s takes no argument, got %q; see %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// Exclusive makes two flags exclude each other.
func Exclusive(cmd *cobra.Command, one, other string) {
	cmd.MarkFlagsMutuallyExclusive(one, other) // the shell completes only one of them
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
			return UsageError("--%s and --%s exclude each other; choose one", one, other)
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// Group makes a command one that only holds others: alone it prints its help.
func Group(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

func unknownCommand(cmd *cobra.Command, name string) error {
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		return UsageError("%s has no command %q; did you mean %s?", cmd.CommandPath(), name, strings.Join(similar, " or "))
	}
	return UsageError("%s has no command %q; see %[1]s --help", cmd.CommandPath(), name)
}

// addHelp adds the help command, which unlike cobra's own fails for unknown commands.
func addHelp(root *cobra.Command) {
	root.SuggestionsMinimumDistance = 2
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "what a command does",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			found, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range found.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	})
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		completion.Short = "print the completion script of a shell"
		Group(completion)
	}
}

// CompleteFlag gives a flag its values for the shell.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist: a mistake in this program
	}
}

// CompleteFirst gives a command's one argument its values for the shell.
func CompleteFirst(values func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteAgents gives --agent its values: what the configuration has when the
// shell asks.
func (a *App) CompleteAgents(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("agent", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.AgentsForShell(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist: a mistake in this program
	}
}

// AgentsForShell are the agents' names, for the shell.
func (a *App) AgentsForShell() []string {
	if a.Config == nil && a.Configure() != nil {
		return AgentNames()
	}
	return a.KnownAgents()
}
