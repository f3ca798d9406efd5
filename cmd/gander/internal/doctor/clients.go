package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/clients"
)

// versionTime bounds how long another gander takes to say its version.
const versionTime = 10 * time.Second

// examineClients looks whether the entries in clients' configurations start a gander that is
// there and is this one.
func examineClients(ctx context.Context, a *cli.App) Check {
	var titles, wrong, next []string
	for _, f := range clients.Files(a.Clients()) {
		programs, err := f.Programs()
		if err != nil {
			wrong = append(wrong, err.Error())
			next = append(next, "correct that file; "+f.Title+" reads it, too")
			continue
		}
		for _, program := range programs {
			titles = append(titles, f.Title)
			if fault := faultOf(ctx, a, program); fault != "" {
				wrong = append(wrong, fmt.Sprintf("%s has an entry that starts %s, %s", f.Path, program, fault))
				next = append(next, "gander config "+f.Name+" --write puts this gander there")
			}
		}
	}
	switch {
	case len(wrong) > 0:
		return Check{ID: checkClients, State: checkWarn, What: strings.Join(wrong, "; "), Next: strings.Join(next, "; ")}
	case len(titles) == 0:
		return Check{ID: checkClients, State: CheckOK, What: "no editor's configuration has an entry of gander's; gander config TARGET --write puts one there"}
	}
	return Check{ID: checkClients, State: CheckOK, What: "this gander is in the configuration of " + strings.Join(titles, ", ")}
}

// faultOf says what is wrong with a program that clients start as gander; empty when nothing is.
func faultOf(ctx context.Context, a *cli.App, program string) string {
	found := program
	if !filepath.IsAbs(found) {
		if found = a.LookPath(program); found == "" {
			return "which is not on PATH"
		}
	}
	if info, err := os.Stat(found); err != nil {
		return "which is not there"
	} else if self, err := os.Executable(); err == nil {
		if own, err := os.Stat(self); err == nil && os.SameFile(own, info) {
			return ""
		}
	}
	ctx, stop := context.WithTimeout(ctx, versionTime)
	defer stop()
	cmd := exec.CommandContext(ctx, found, "version")
	cmd.Env = a.Environ
	out, err := cmd.Output()
	if err != nil {
		return "which does not say its version: " + err.Error()
	}
	if other := strings.Fields(string(out)); len(other) < 2 || other[1] != cli.Version {
		return fmt.Sprintf("which says it is %q; this is gander %s", strings.TrimSpace(string(out)), cli.Version)
	}
	return ""
}
