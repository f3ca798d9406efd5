package policycmd

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sandbox/rules/project"
)

// explanation is what gander policy explain prints.
type explanation struct {
	What string `json:"what"`
	Kind string `json:"kind"` // "path" or "host"
	// LeadsTo is the file that decides, where a path has another name by a link.
	LeadsTo string `json:"leadsTo,omitempty"`
	// Access is "none", "read", "write" or "absent" for a path, "allowed" or "refused"
	// for a host.
	Access string `json:"access"`
	// Rule decides, and From is where it is.
	Rule string `json:"rule,omitempty"`
	From string `json:"from"`
	// Effect is what the sandbox does, in a sentence.
	Effect string `json:"effect"`
	// Unkept says that no sandbox of this system does it, and what to do about it.
	Unkept string `json:"unkept,omitempty"`
}

func policyExplainCommand(a *cli.App) *cobra.Command {
	var cwd string
	var write, host, asJSON bool
	cmd := &cobra.Command{
		Use:   "explain PATH|HOST[:PORT]",
		Short: "which rule decides about a path or a host, and what the sandbox does",
		Long: `explain says whether programs in a sandbox of this project can read a path, with --write
whether they can write it, or whether they can reach a host, by which rule, from which
file and line. Links are followed as far as they lead through the project. What exists
as a file, has a slash (./new.txt) or begins with a dot or ~ is a path, everything else a
host, and so is http:// or https:// with one; --host makes it a host in any case. Without
a port it is 443, of http:// 80.
Exit code 0 when they can, 5 when they cannot.`,
		Example: `  gander policy explain .env
  gander policy explain --write .git/config
  gander policy explain github.com:443`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return cli.UsageError("name one path or host, as in: gander policy explain .env")
			}
			cfg, dir, err := projectConfig(a, cwd)
			if err != nil {
				return err
			}
			x, err := explain(a, cfg, dir, args[0], host)
			if err != nil {
				return err
			}
			x.Unkept = wire.Unkept(runtime.GOOS)
			return printExplanation(a, x, write, asJSON)
		},
	}
	cli.CWDFlag(cmd, &cwd)
	cmd.Flags().BoolVar(&write, "write", false, "ask about writing")
	cmd.Flags().BoolVar(&host, "host", false, "it is a host, also when there is a file of that name")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func printExplanation(a *cli.App, x explanation, write, asJSON bool) error {
	var err error
	if asJSON {
		err = a.PrintJSON(x)
	} else {
		_, err = fmt.Fprintf(a.Out, "%s: %s\nrule  %s\nfrom  %s\n", visible(x.What), cli.Printable(x.Effect), visible(cmp.Or(x.Rule, "-")), visible(x.From))
		if err == nil && x.Kind == "path" {
			_, err = fmt.Fprintf(a.Out, "read  %s\nwrite %s\n", yesNo(accessRank(x.Access) >= 1), yesNo(accessRank(x.Access) == 2))
		}
		if err == nil && x.Unkept != "" {
			_, err = fmt.Fprintf(a.Out, "but   %s\n", x.Unkept)
		}
	}
	if err != nil {
		return err
	}
	if may := x.Access == "write" || x.Access == "allowed" || x.Access == "read" && !write; !may {
		return &cli.ExitError{Code: cli.ExitPermission}
	}
	return nil
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func explain(a *cli.App, cfg *config.Config, dir, what string, host bool) (explanation, error) {
	if host || isHost(dir, what) {
		return explainHost(cfg, dir, what)
	}
	return explainPath(a, cfg, dir, what)
}

// isHost reports whether an argument is rather a host than a path.
func isHost(dir, what string) bool {
	if _, ok := webAddress(what); ok {
		return true
	}
	if strings.ContainsAny(what, `/\`) || strings.HasPrefix(what, ".") || strings.HasPrefix(what, "~") {
		return false
	}
	if !strings.ContainsAny(what, ".:*") && what != "localhost" {
		return false // a file that is not there yet
	}
	_, err := os.Lstat(filepath.Join(dir, what))
	return err != nil
}

// webAddress is the host and port of a URL of the web; ok is false for everything else.
func webAddress(what string) (address string, ok bool) {
	u, err := url.Parse(what)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", false
	}
	port := strconv.Itoa(defaultPort)
	if u.Scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), true
}

// defaultPort is that of a host without one.
const defaultPort = 443

func explainHost(cfg *config.Config, dir, what string) (explanation, error) {
	n := cfg.Policy.Network
	rules, err := egress.ParseRules(n.Allow, n.Presets)
	if err != nil {
		return explanation{}, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	name, port := what, defaultPort
	if address, ok := webAddress(what); ok {
		name = address
	}
	if h, p, err := net.SplitHostPort(name); err == nil {
		name = h
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return explanation{}, cli.UsageError("%q is not a host and a port; write it like github.com:443", what)
		}
	}
	allowed, denied, err := confine.HostRules(permit.Open(wire.PermissionsDir(cfg)), dir)
	if err != nil {
		return explanation{}, err
	}
	d := egress.ExplainAll(slices.Concat(rules, allowed), denied, name, port)
	x := explanation{What: what, Kind: "host", Access: "refused", Rule: d.By, From: "built in: nothing but the model can be reached"}
	switch {
	case d.Allowed:
		x.Access, x.Effect, x.From = "allowed", "can be reached from the sandbox, by plain TCP and through its proxy, when its name leads to a public address", ruleOrigin(cfg, d.By)
	case n.Ask:
		x.Effect, x.From = "cannot be reached unless you allow it when you are asked: "+d.Reason, cfg.EffectivePolicy().Origin("network.ask", "").String()
	default:
		x.Effect = "cannot be reached: " + d.Reason
	}
	return x, nil
}

// ruleOrigin is where the entry is by which a host is allowed.
func ruleOrigin(cfg *config.Config, rule string) string {
	e := cfg.EffectivePolicy()
	for _, entry := range e.Network.Allow {
		if r, err := egress.ParseRule(entry); err == nil && r.String() == rule {
			return e.Origin("network.allow", entry).String()
		}
	}
	for _, preset := range e.Network.Presets {
		rules, err := egress.Preset(preset)
		if err == nil && slices.ContainsFunc(rules, func(r egress.Rule) bool { return r.String() == rule }) {
			return fmt.Sprintf("the preset %s of %s", preset, e.Origin("network.presets", preset))
		}
	}
	return "gander policy allow, see gander policy show"
}

func explainPath(a *cli.App, cfg *config.Config, dir, what string) (explanation, error) {
	path := what
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			path = filepath.Join(home, rest)
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return explainInProject(a, cfg, dir, what, rel)
	}
	return explainOutside(cfg, dir, filepath.Clean(path)), nil
}

func explainOutside(cfg *config.Config, dir, path string) explanation {
	x := explanation{What: path, Kind: "path", Access: "absent", From: "built in", Effect: "is not there in the sandbox"}
	for _, shown := range cfg.Policy.ReadOnlyPaths {
		if project.Below(path, shown) {
			x.Access, x.Rule, x.Effect = "read", shown, "can be read, and not written"
			x.From = cfg.EffectivePolicy().Origin("readOnlyPaths", shown).String()
			return x
		}
	}
	driver := wire.ChosenDriver(cfg.Sandbox.Driver, runtime.GOOS)
	for _, place := range cfg.FindToolchains(dir).Places {
		if project.Below(path, place.Path) && driver != sandbox.Off {
			x.Access, x.Rule, x.Effect = "read", place.Path, "can be read, and not written: it is a toolchain below your home ("+place.Tool+")"
			return x
		}
	}
	if _, copied := cfg.FindToolSettings(dir).Own[path]; copied && driver != sandbox.Off {
		x.Access, x.Effect = "read", "is inside as a copy, and not written: it is a tool's settings without secrets (toolSettings)"
		return x
	}
	system := slices.ContainsFunc(project.SystemDirs(), func(dir string) bool { return project.Below(path, dir) })
	switch {
	case driver == sandbox.Off:
		x.Access, x.Effect = "write", "is there as it is: there is no sandbox"
	case wire.HasImages(cfg) && system:
		x.Access, x.Effect = "read", "is the image's own in a container"
	case system:
		x.Access, x.Effect = "read", "can be read as far as everybody may, and not written: it is the system's"
	}
	return x
}
