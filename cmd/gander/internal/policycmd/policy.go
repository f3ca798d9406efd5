// Package policycmd shows, explains and trusts a project's policy.
package policycmd

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/rules/toolchains"
	"gander.dev/gander/sandbox/rules/toolsettings"
	"gander.dev/gander/sandbox/team/skills"
)

// Command returns the command gander policy.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "what sandboxes may do: show, explain, check, trust, allow, deny",
		Long: `The policy is the section "policy" of config.json, and of a project's .gander.json. A
project's file may only tighten it, until you trust that file as it is.`,
		Example: `  gander policy show
  gander policy explain .env
  gander policy explain github.com:443
  gander policy allow git.example.org:22`,
	}
	cli.Group(cmd)
	cmd.AddCommand(policyShowCommand(a), policyExplainCommand(a), policyCheckCommand(a), policyTrustCommand(a),
		policyAllowCommand(a), policyDenyCommand(a), policyForgetCommand(a), policyPresetsCommand(a))
	return cmd
}

// projectConfig is the configuration of a project, for the commands of the policy.
func projectConfig(a *cli.App, dir string) (*config.Config, string, error) {
	cwd, err := cli.ProjectDir(dir)
	if err != nil {
		return nil, "", err
	}
	cfg, err := a.Config.ForProject(cwd)
	if err != nil {
		return nil, "", &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	return cfg, cwd, nil
}

func policyShowCommand(a *cli.App) *cobra.Command {
	var cwd string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "the policy that holds in a project, and where each part of it is from",
		Long: `show prints every setting of the policy that holds for sandboxes of this project, and
the file and line that it is from.`,
		Example: `  gander policy show
  gander policy show --cwd ~/project --json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, dir, err := projectConfig(a, cwd)
			if err != nil {
				return err
			}
			shown := showPolicy(cfg, dir)
			if shown.Hosts, err = shownHosts(permit.Open(wire.PermissionsDir(a.Config)), dir); err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(shown)
			}
			return shown.print(a.Out)
		},
	}
	cli.CWDFlag(cmd, &cwd)
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// shownPolicy is what gander policy show --json prints.
type shownPolicy struct {
	Project string `json:"project"`
	// Trusted says that the project's file is trusted as it is; it need not exist.
	Trusted bool          `json:"trusted"`
	Policy  policy.Policy `json:"policy"`
	// Protected are the groups of files that cannot be written.
	Protected []string `json:"protectedGroups"`
	// Settings are the parts of Policy that a file sets, with their place.
	Settings []shownSetting `json:"settings"`
	// Refused is what the project's file asks for and does not get.
	Refused []policy.Request `json:"refused"`
	// Hosts has the person's answers about hosts.
	Hosts []shownHost `json:"hosts,omitempty"`
	// Git has the settings of the person's git configuration that count inside, and
	// those that do not.
	Git shownGit `json:"gitSettings"`
	// Toolchains are those of the person's that sandboxes show.
	Toolchains shownToolchains `json:"toolchains"`
	// ToolSettings are the person's files of settings of tools.
	ToolSettings []toolsettings.File `json:"toolSettings"`
	// Skills are those that sandboxes show; an agent's own are not among them.
	Skills []skills.Skill `json:"skills"`
	// Authorities are the files of certificates that the person's variables name.
	Authorities []wire.Authorities `json:"certificates"`
	Unkept      string             `json:"unkept,omitempty"` // as of an explanation
}

type shownGit struct {
	Taken []gitconfig.Origin `json:"taken"`
	Left  []gitconfig.Origin `json:"leftOut"`
}

type shownToolchains struct {
	Shown []toolchains.Place `json:"shown"`
	// Unshown are directories of PATH below the home that are not shown.
	Unshown []string `json:"pathNotShown"`
}

type shownSetting struct {
	Key    string        `json:"key"`
	Value  string        `json:"value"`
	Origin policy.Origin `json:"origin"`
}

// words are the value for people: a zero says that nobody set it.
func (s shownSetting) words() string {
	unset := s.Value == "0" || s.Value == "0s"
	switch {
	case s.Value == "":
		return "-"
	case strings.HasPrefix(s.Key, "limits.") && unset:
		return "as the sandbox has it"
	case strings.HasPrefix(s.Key, "model.max") && unset, strings.HasPrefix(s.Key, "limits.") && strings.HasPrefix(s.Value, "-"):
		return "no limit"
	}
	return s.Value
}

func showPolicy(cfg *config.Config, dir string) shownPolicy {
	e := cfg.EffectivePolicy()
	s := shownPolicy{
		Project: dir, Trusted: cfg.ProjectTrusted(), Policy: e.Policy, Protected: e.Writes.Groups(),
		Settings: []shownSetting{}, Refused: append([]policy.Request{}, e.Refused...), Unkept: wire.Unkept(runtime.GOOS),
	}
	list := func(key string, values []string) {
		for _, v := range values {
			s.Settings = append(s.Settings, shownSetting{key, v, e.Origin(key, v)})
		}
	}
	single := func(key string, value any) {
		s.Settings = append(s.Settings, shownSetting{key, fmt.Sprint(value), e.Origin(key, "")})
	}
	settings := wire.GitSettings(cfg, dir)
	s.Git = shownGit{Taken: append([]gitconfig.Origin{}, settings.Taken...), Left: append([]gitconfig.Origin{}, settings.Left...)}
	s.Authorities = append([]wire.Authorities{}, wire.FindAuthorities(cfg, dir)...)
	tools := cfg.FindToolchains(dir)
	s.Toolchains = shownToolchains{Shown: append([]toolchains.Place{}, tools.Places...), Unshown: append([]string{}, tools.Unshown...)}
	s.ToolSettings = append([]toolsettings.File{}, cfg.FindToolSettings(dir).Files...)
	s.Skills = append([]skills.Skill{}, cfg.FindSkills("", dir).Skills...)
	list("readOnlyPaths", e.ReadOnlyPaths)
	list("environment", e.Environment)
	list("writes.protect", e.Writes.Protect)
	list("writes.allow", e.Writes.Allow)
	single("project", e.Project)
	single("git", e.Git)
	list("network.allow", e.Network.Allow)
	list("network.presets", e.Network.Presets)
	single("network.ask", e.Network.Ask)
	single("model.allow", strings.Join(e.Model.Allow, " "))
	single("model.remote", e.Model.Remote)
	single("model.maxTokens", e.Model.MaxTokens)
	single("model.maxCost", e.Model.MaxCost)
	list("model.prices", slices.Sorted(maps.Keys(e.Model.Prices)))
	single("model.currency", cmp.Or(e.Model.Currency, confine.DefaultCurrency))
	single("canaries", e.Canaries)
	single("limits.memory", e.Limits.Memory)
	single("limits.cpu", e.Limits.CPU)
	single("limits.processes", e.Limits.Processes)
	single("limits.disk", e.Limits.Disk)
	single("limits.time", e.Limits.Time)
	return s
}

func (s shownPolicy) print(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%-18s %s\n", "protected files", strings.Join(at(s.Protected), " "))
	for _, set := range s.Settings {
		fmt.Fprintf(&text, "%-18s %-28s %s\n", set.Key, visible(set.words()), cli.Printable(set.Origin.String()))
	}
	for _, h := range s.Hosts {
		fmt.Fprintf(&text, "%-18s %-28s %s\n", "host, "+h.Answer, visible(h.Host), h.how())
	}
	for _, git := range []struct {
		head string
		all  []gitconfig.Origin
	}{{"git, taken", s.Git.Taken}, {"git, left out", s.Git.Left}} {
		for _, o := range git.all {
			fmt.Fprintf(&text, "%-18s %s\n", git.head, cli.Printable(o.String()))
		}
	}
	for _, a := range s.Authorities {
		said := a.Path
		if a.Why != "" {
			said += " (left out: " + a.Why + ")"
		}
		fmt.Fprintf(&text, "%-18s %-28s %s\n", "certificates", a.Variable, cli.Printable(said))
	}
	for _, p := range s.Toolchains.Shown {
		fmt.Fprintf(&text, "%-18s %-28s %s\n", "toolchain", p.Tool, cli.Printable(p.Path))
	}
	for _, dir := range s.Toolchains.Unshown {
		fmt.Fprintf(&text, "%-18s %s: no toolchain that gander knows; policy.readOnlyPaths shows it\n", "PATH, not shown", cli.Printable(dir))
	}
	for _, f := range s.ToolSettings {
		said := f.Path
		switch {
		case f.Why != "":
			said += " (left out: " + f.Why + ")"
		case len(f.Left) > 0:
			said += " (without " + strings.Join(f.Left, ", ") + ")"
		}
		fmt.Fprintf(&text, "%-18s %-28s %s\n", "tool settings", f.Tool, cli.Printable(said))
	}
	for _, skill := range s.Skills {
		fmt.Fprintf(&text, "%-18s %-28s %s\n", "skill", skill.ID, cli.Printable(skill.Source))
	}
	if len(s.Refused) > 0 {
		fmt.Fprintf(&text, "\n%s asks for more; see gander policy check.\n", cli.Printable(filepath.Join(s.Project, config.ProjectFile)))
	}
	if s.Unkept != "" {
		fmt.Fprintf(&text, "\n%s\n", s.Unkept)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// at puts an @ before the names of groups.
func at(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, "@"+n)
	}
	return out
}

// visible is a text of a project's file for a terminal: quoted when it is not what
// it looks like.
func visible(s string) string {
	if q := fmt.Sprintf("%q", s); q != `"`+s+`"` {
		return q
	}
	return s
}

func policyCheckCommand(a *cli.App) *cobra.Command {
	var cwd string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "whether the files are right, and what the project's asks for and does not get",
		Long: `check reads your file and the project's, and looks whether the paths are there that
sandboxes are to show. Exit code 0 when both are right and the project's asks for
nothing beyond yours, 2 when one is wrong, 5 when the project's file asks for what it
does not get.`,
		Example: `  gander policy check
  gander policy check --cwd ~/project --json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, dir, err := projectConfig(a, cwd)
			if err != nil {
				return err
			}
			if err := cfg.CheckReadOnlyPaths(); err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			return checkPolicy(a, cfg, dir, asJSON)
		},
	}
	cli.CWDFlag(cmd, &cwd)
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func checkPolicy(a *cli.App, cfg *config.Config, dir string, asJSON bool) error {
	shown := showPolicy(cfg, dir)
	if asJSON {
		if err := a.PrintJSON(shown); err != nil {
			return err
		}
	} else if err := printPolicyCheck(a, cfg, shown); err != nil {
		return err
	}
	if len(shown.Refused) > 0 {
		return &cli.ExitError{Code: cli.ExitPermission}
	}
	return nil
}

func printPolicyCheck(a *cli.App, cfg *config.Config, s shownPolicy) error {
	if len(s.Refused) == 0 {
		text := "the files are right"
		if cfg.ProjectTrusted() {
			text += "; the project's is trusted as it is"
		}
		_, err := fmt.Fprintln(a.Out, text)
		return err
	}
	if err := printRequests(a, s.Refused); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Out, "The project does not get this. gander policy trust grants all of it, until the file changes.")
	return err
}

func printRequests(a *cli.App, requests []policy.Request) error {
	for _, r := range requests {
		if _, err := fmt.Fprintf(a.Out, "%-18s %-28s %s\n", r.Key, visible(r.Value), cli.Printable(r.Origin.String())); err != nil {
			return err
		}
	}
	return nil
}
