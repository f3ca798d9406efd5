package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
)

// VersionCommand returns the command gander version.
func (a *App) VersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:         "version",
		Short:       "print gander's version",
		Example:     "  gander version\n  gander version --json",
		Args:        NoArgs,
		Annotations: Unconfigured(),
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				_, err := fmt.Fprint(a.Out, versionLine())
				return err
			}
			return a.PrintJSON(map[string]any{
				"version": Version, "os": runtime.GOOS, "arch": runtime.GOARCH, "go": runtime.Version(), "acp": acp.ProtocolVersion,
			})
		},
	}
	JSONFlag(cmd, &asJSON)
	return cmd
}

func versionLine() string {
	return fmt.Sprintf("gander %s %s/%s\n", Version, runtime.GOOS, runtime.GOARCH)
}

func JSONFlag(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, "json", false, "print JSON")
}

// PrintJSON prints a value as indented JSON.
func (a *App) PrintJSON(v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := a.Out.Write(PrintableJSON(text.Bytes()))
	return err
}

// Version is gander's version, which main sets.
var Version = "devel"
