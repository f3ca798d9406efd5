// Package skillcmd lists, installs and removes the skills that agents find in their sandboxes.
package skillcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/team/skills"
)

// Command returns the command gander skill.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skill",
		Short: "list, install and remove what agents can look up: skills",
		Long: `A skill is a folder with a file SKILL.md, which says how something is done, and scripts
and other files beside it (agentskills.io). Agents list the skills to the model, which
reads one when it needs it. In a sandbox a skill can be read and not written, and its
scripts run there and nowhere else.

Shown are the skills that are installed with gander, for all agents or one, and your
own in ~/.agents/skills and ~/.claude/skills; "skills": {"user": false} hides those.
Those of a project are the project's.`,
	}
	cmd.AddCommand(list(a), info(a), install(a), remove(a))
	cli.Group(cmd)
	return cmd
}

// row is a skill as gander skill list prints it.
type row struct {
	skills.Skill
	// Shadowed says that another skill with this id counts.
	Shadowed bool           `json:"shadowed,omitempty"`
	Origin   *skills.Origin `json:"origin,omitempty"`
	// Changed says that its files are others than those that were installed.
	Changed bool `json:"changed,omitempty"`
}

// known returns the flag's agent; an error means that there is none of this name.
func known(a *cli.App, agent string) error {
	if agent != "" && !slices.Contains(a.Config.AgentNames(), agent) {
		return cli.UsageError("there is no agent %q; choose one of: %s", agent, strings.Join(a.Config.AgentNames(), ", "))
	}
	return nil
}

func agentFlag(a *cli.App, cmd *cobra.Command, agent *string, usage string) {
	cmd.Flags().StringVar(agent, "agent", "", usage)
	a.CompleteAgents(cmd)
}

func rows(a *cli.App, agent string, found skills.Found) []row {
	rows := []row{}
	add := func(all []skills.Skill, shadowed bool) {
		for _, s := range all {
			r := row{Skill: s, Shadowed: shadowed}
			store := a.Config.SkillStore("")
			if s.Source == "agent "+agent {
				store = a.Config.SkillStore(agent)
			}
			if filepath.Dir(s.Dir) == store.Dir || s.Source == "installed" {
				if o, ok := store.Origin(s.ID); ok {
					r.Origin = &o
					changed, err := store.Changed(s.ID)
					r.Changed = changed || err != nil
				}
			}
			rows = append(rows, r)
		}
	}
	add(found.Skills, false)
	add(found.Shadowed, true)
	return rows
}

func list(a *cli.App) *cobra.Command {
	var agent string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "the skills that sandboxes show, and what is wrong with others",
		Example: "  gander skill list\n  gander skill list --agent reviewer --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := known(a, agent); err != nil {
				return err
			}
			found := a.Config.FindSkills(agent)
			all := rows(a, agent, found)
			if asJSON {
				return a.PrintJSON(struct {
					Skills   []row            `json:"skills"`
					Problems []skills.Problem `json:"problems"`
				}{all, append([]skills.Problem{}, found.Problems...)})
			}
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			for _, r := range all {
				source := r.Source
				if r.Shadowed {
					source += ", shadowed"
				}
				if r.Changed {
					source += ", changed since"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", r.ID, cli.Printable(source), cli.Printable(brief(r.Description)))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			for _, p := range found.Problems {
				fmt.Fprintf(a.Err, "gander: not shown: %s\n", cli.Printable(p.String()))
			}
			if len(all)+len(found.Problems) == 0 {
				fmt.Fprintln(a.Err, "There are no skills; gander skill install FOLDER installs one.")
			}
			return nil
		},
	}
	agentFlag(a, cmd, &agent, "with those of this agent alone")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// brief is the beginning of a description, for a line.
func brief(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func info(a *cli.App) *cobra.Command {
	var agent string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "info ID",
		Short:   "one skill: whose it is, where it came from, whether it has changed",
		Example: "  gander skill info release-notes",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name the skill, as gander skill list shows it")
			}
			if err := known(a, agent); err != nil {
				return err
			}
			all := rows(a, agent, a.Config.FindSkills(agent))
			i := slices.IndexFunc(all, func(r row) bool { return r.ID == args[0] })
			if i < 0 {
				return cli.UsageError("there is no skill %q; see gander skill list", args[0])
			}
			r := all[i]
			if asJSON {
				return a.PrintJSON(r)
			}
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			for _, line := range [][2]string{
				{"id", r.ID},
				{"description", r.Description},
				{"license", r.License},
				{"compatibility", r.Compatibility},
				{"wishes to use", r.AllowedTools},
				{"belongs to", r.Source},
				{"folder", r.Dir},
			} {
				if line[1] != "" {
					fmt.Fprintf(w, "%s\t%s\n", line[0], cli.Printable(line[1]))
				}
			}
			if r.Origin != nil {
				state := "as it was installed"
				if r.Changed {
					state = "changed since"
				}
				fmt.Fprintf(w, "installed\t%s, from %s, %s\n", r.Origin.Installed.Local().Format("2006-01-02 15:04"), cli.Printable(r.Origin.Source), state)
			}
			return w.Flush()
		},
	}
	agentFlag(a, cmd, &agent, "of those of this agent, too")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func install(a *cli.App) *cobra.Command {
	var agent, id string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "install FOLDER|ARCHIVE|SKILL.md|URL#COMMIT[:FOLDER]",
		Short: "install a skill for all agents, or for one",
		Long: `install copies a skill into gander's home: a folder, an archive (.tgz, .tar.gz, .tar, .zip),
a SKILL.md alone, or a folder of a git repository at a commit. Links, devices and odd names
are refused, and so is more than 500 files or 8 MiB. A skill is a stranger's instructions:
read it first. It can do what the sandbox of its agent leaves.

git fetches a repository, an https or ssh URL, in a sandbox that reaches no host but the
repository's and those that you allow everywhere; it takes no submodules and runs no filters.
Your own ssh connects to an ssh URL, so that your keys stay outside.`,
		Example: `  gander skill install ./release-notes
  gander skill install ~/Downloads/tidy.zip --agent reviewer
  gander skill install ./SKILL.md --as house-style
  gander skill install https://git.example.org/team/skills.git#3f1c…full…commit:release-notes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one folder, archive, SKILL.md, or URL#COMMIT of a repository")
			}
			if err := known(a, agent); err != nil {
				return err
			}
			s, err := installSkill(cmd.Context(), a, a.Config.SkillStore(agent), args[0], id)
			if err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(s)
			}
			whom := "all agents"
			if agent != "" {
				whom = agent
			}
			_, err = fmt.Fprintf(a.Out, "installed %s for %s, from their next session on\n", s.ID, whom)
			return err
		},
	}
	agentFlag(a, cmd, &agent, "for this agent alone")
	cmd.Flags().StringVar(&id, "as", "", "the skill's id (default: its own name)")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// installSkill installs what a person names. What is not there, or is no skill, is an error of usage.
func installSkill(ctx context.Context, a *cli.App, store skills.Store, source, id string) (s skills.Skill, err error) {
	if remote.MatchString(source) {
		s, err = installRepository(ctx, a, store, source, id)
	} else if source, err = filepath.Abs(source); err == nil {
		s, err = store.Install(source, id)
	}
	if _, coded := errors.AsType[*cli.ExitError](err); err != nil && !coded {
		err = cli.UsageError("the skill was not installed: %w", err)
	}
	return s, err
}

func remove(a *cli.App) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use:     "remove ID",
		Short:   "remove a skill that was installed",
		Example: "  gander skill remove release-notes",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name the skill, as gander skill list shows it")
			}
			if err := known(a, agent); err != nil {
				return err
			}
			err := a.Config.SkillStore(agent).Remove(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return cli.UsageError("no skill %q is installed there; see gander skill list", args[0])
			}
			if err != nil {
				return fmt.Errorf("removing the skill %s: %w; %s", args[0], err, cli.HomeAdvice)
			}
			_, err = fmt.Fprintln(a.Out, "removed", args[0])
			return err
		},
	}
	agentFlag(a, cmd, &agent, "that of this agent")
	return cmd
}
