package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"gander.dev/gander/cmd/gander/internal/cli"
)

const (
	upgradeTime  = 20 * time.Second // for the whole answer
	upgradeBytes = 4 << 20          // of an answer; a registry has some hundred agents
)

// UpgradeCommand returns the command gander upgrade.
func UpgradeCommand(a *cli.App) *cobra.Command {
	var check, asJSON bool
	cmd := &cobra.Command{
		Use:   "upgrade --check",
		Short: "see whether there is a newer gander",
		Long: `upgrade --check asks the address in upgrade.url of config.json, and no other, which version
of gander is the newest. That is an ACP registry, or gander's entry in one, as "make dist"
writes it (acp-registry/gander/agent.json). Nothing is asked unless you run this, and gander
does not replace itself: you get the new one as you got this one.`,
		Example: "  gander upgrade --check\n  gander upgrade --check --json | jq .newer",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !check {
				return cli.UsageError("gander does not replace itself; gander upgrade --check says whether there is a newer one")
			}
			return upgradeCheck(cmd.Context(), a, asJSON)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "ask for the newest version and change nothing")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// upgradeCheck prints which version is the newest, and whether that is another one than this.
func upgradeCheck(ctx context.Context, a *cli.App, asJSON bool) error {
	address := a.Config.Upgrade.URL
	if address == "" {
		return cli.UsageError("no address is configured that knows the newest version; set upgrade.url in config.json to that of an ACP registry, or of gander's entry in one")
	}
	newest, repository, err := newestVersion(ctx, address)
	if err != nil {
		return fmt.Errorf("asking %s for the newest gander: %w; upgrade.url in config.json names this address", address, err)
	}
	newer := semver.Compare("v"+newest, canonical(cli.Version)) > 0
	if asJSON {
		return a.PrintJSON(map[string]any{"version": cli.Version, "newest": newest, "newer": newer, "repository": repository})
	}
	if !newer {
		_, err := fmt.Fprintf(a.Out, "this is gander %s, and the newest is %s\n", cli.Version, newest)
		return err
	}
	_, err = fmt.Fprintf(a.Out, "gander %s is there, and this is %s; get it as you got this one, see %s\n", newest, cli.Version, cli.Printable(repository))
	return err
}

// canonical returns a version as semver compares it; one that is none is older than all.
func canonical(version string) string { return "v" + strings.TrimPrefix(version, "v") }

// registryEntry holds what an ACP registry says of an agent. A registry has a list of them.
type registryEntry struct {
	ID         string          `json:"id"`
	Version    string          `json:"version"`
	Repository string          `json:"repository"`
	Agents     []registryEntry `json:"agents"`
}

// newestVersion asks an address for the newest version of gander, without a v, and for the
// address of its source. It follows no redirect to another host.
func newestVersion(ctx context.Context, address string) (version, repository string, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, upgradeTime, fmt.Errorf("no answer within %s", upgradeTime))
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Accept", "application/json")
	client := &http.Client{CheckRedirect: sameHost}
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return "", "", cause
		}
		if wrong, ok := errors.AsType[*url.Error](err); ok {
			err = wrong.Err // without the address again
		}
		return "", "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("it answers %s", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, upgradeBytes+1))
	if err != nil {
		return "", "", err
	}
	if len(text) > upgradeBytes {
		return "", "", fmt.Errorf("its answer is longer than %d bytes", upgradeBytes)
	}
	var found registryEntry
	if err := json.Unmarshal(text, &found); err != nil {
		return "", "", fmt.Errorf("its answer is no registry: %w", err)
	}
	for _, e := range append(found.Agents, found) {
		if e.ID != "gander" {
			continue
		}
		if !semver.IsValid("v" + e.Version) {
			return "", "", fmt.Errorf("the version that it has for gander, %q, is not a semantic version", e.Version)
		}
		return e.Version, e.Repository, nil
	}
	return "", "", errors.New("it does not know gander")
}

func sameHost(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || len(via) > 5 {
		return fmt.Errorf("it leads to %s, which is not the configured address", req.URL.Host)
	}
	return nil
}
