package wire

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// PlaneFlags say which control plane a command speaks to.
type PlaneFlags struct{ URL, tokenFile string }

func PlaneFlag(cmd *cobra.Command, f *PlaneFlags) {
	cmd.Flags().StringVar(&f.URL, "url", "", "the control plane's address (default: the one of this home)")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "the file with its token (default: serve.token of this home)")
}

// ErrNoPlane is an error about a control plane that does not run, with what to do.
func ErrNoPlane(home string) error {
	return fmt.Errorf("no control plane runs for %s; start it with: gander serve", cli.ShortDir(home))
}

// PlaneOf finds the control plane that the flags, else the home, name.
func PlaneOf(home string, f PlaneFlags) (client.Options, error) {
	o := client.Options{URL: f.URL}
	if o.URL == "" {
		s, err := keeper.Served(home)
		if err != nil {
			return o, ErrNoPlane(home)
		}
		o.URL = s.URL
	}
	file := cmp.Or(f.tokenFile, filepath.Join(home, TokenFile))
	raw, err := os.ReadFile(file)
	if err != nil {
		return o, cli.UsageError("the token of the control plane cannot be read: %v; name the file with --token-file", err)
	}
	o.Token = strings.TrimSpace(string(raw))
	return o, nil
}

const TokenFile = "serve.token" // in the home directory

// ServeLock returns the lock that the control plane of the home holds while it runs.
func ServeLock(a *cli.App) *flock.Flock { return serveLock(a.Config.Home) }

func serveLock(home string) *flock.Flock {
	return flock.New(filepath.Join(home, "loop", "serve.lock"), flock.SetPermissions(0o600))
}

// Serving reports whether a control plane of the home runs.
func Serving(a *cli.App) bool { return serving(a.Config.Home) }

func serving(home string) bool {
	lock := serveLock(home)
	if _, err := os.Stat(lock.Path()); err != nil {
		return false
	}
	free, err := lock.TryRLock()
	if free {
		_ = lock.Unlock()
	}
	return err == nil && !free
}
