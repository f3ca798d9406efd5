package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:         "version",
		Short:       "print gander's version",
		Example:     "  gander version\n  gander version --json",
		Args:        noArgs,
		Annotations: unconfigured(),
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				_, err := fmt.Fprint(a.out, versionLine())
				return err
			}
			return a.printJSON(map[string]any{
				"version": version, "os": runtime.GOOS, "arch": runtime.GOARCH, "go": runtime.Version(), "acp": acp.ProtocolVersion,
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func versionLine() string {
	return fmt.Sprintf("gander %s %s/%s\n", version, runtime.GOOS, runtime.GOARCH)
}

func jsonFlag(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, "json", false, "print JSON")
}

// printJSON prints a value as indented JSON.
func (a *app) printJSON(v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := a.out.Write(printableJSON(text.Bytes()))
	return err
}
