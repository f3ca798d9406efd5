package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sessions"
)

// examineConfig says what is wrong with the configuration; it was read before.
func examineConfig(a *cli.App) Check {
	if err := a.ConfigErr; err != nil {
		return failedCheck(checkConfig, err, "correct it; without it gander does not start")
	}
	if err := wire.New(a).CheckChoices(); err != nil {
		return failedCheck(checkConfig, err, "correct agent or sandbox.driver in "+filepath.Join(a.Config.Home, config.UserFile))
	}
	if err := wire.CheckShown(a.Config); err != nil {
		return failedCheck(checkConfig, err, "no sandbox starts before that")
	}
	file := filepath.Join(a.Config.Home, config.UserFile)
	what := file + " is valid"
	if _, err := os.Stat(file); err != nil {
		what = "the environment alone; there is no " + file
	}
	return Check{ID: checkConfig, State: CheckOK, What: fmt.Sprintf("%s (gander %s, %s)", what, cli.Version, runtime.Version())}
}

// examineHome writes a file where gander keeps its state.
func examineHome(a *cli.App) Check {
	err := os.MkdirAll(a.Config.Home, 0o700)
	if err == nil {
		file := filepath.Join(a.Config.Home, ".doctor-"+wire.RandomName())
		err = errors.Join(os.WriteFile(file, bytes.Repeat([]byte("x"), 1<<16), 0o600), os.Remove(file))
	}
	if err != nil {
		return failedCheck(checkHome, err, cli.HomeAdvice)
	}
	return Check{ID: checkHome, State: CheckOK, What: a.Config.Home + " can be written"}
}

// examinePrivate looks for what others can see of gander's state: prompts, answers
// and perhaps a key.
func examinePrivate(a *cli.App) Check {
	open := openToOthers(a)
	if len(open) == 0 {
		return Check{ID: checkPrivate, State: CheckOK, What: "only you can see what gander keeps"}
	}
	return Check{
		ID: checkPrivate, State: checkWarn, What: "other users of this machine can see " + cli.SomeOf(open, 5),
		Next: "gander doctor --fix, or chmod go= on them",
		fix: func(context.Context) error {
			var errs []error
			for _, path := range open {
				info, err := os.Lstat(path)
				if err == nil {
					err = os.Chmod(path, info.Mode().Perm()&^0o077)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
		again: func(context.Context) Check { return examinePrivate(a) },
	}
}

// openToOthers are the home and what lies directly in it, where others may read or
// enter. What lies deeper is closed by its directory.
func openToOthers(a *cli.App) []string {
	if runtime.GOOS == "windows" {
		return nil // rights are inherited from the person's directory there
	}
	paths := []string{a.Config.Home}
	entries, _ := os.ReadDir(a.Config.Home) // a home that cannot be read has failed before
	for _, e := range entries {
		paths = append(paths, filepath.Join(a.Config.Home, e.Name()))
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&0o077 == 0
	})
}

// examineSessions looks for transcripts that cannot be read.
func examineSessions(ctx context.Context, a *cli.App) Check {
	var page sessions.Page
	store, err := wire.New(a).Store()
	if err == nil {
		page, err = store.List(ctx, sessions.ListOptions{})
	}
	if err != nil {
		return Check{ID: checkSessions, State: checkWarn, What: cli.MessageOf(err), Next: cli.HomeAdvice}
	}
	var files []string
	for _, id := range page.Damaged {
		files = append(files, filepath.Join(a.Config.Home, "sessions", string(id)+".jsonl"))
	}
	if len(files) == 0 {
		return Check{ID: checkSessions, State: CheckOK, What: "the transcripts of all sessions can be read"}
	}
	return Check{
		ID: checkSessions, State: checkWarn, What: "gander does not know what sessions these are: the first line cannot be read of " + cli.SomeOf(files, 5),
		Next: "mend it, or the file's rights, or move the file away; gander leaves it as it is",
	}
}

const (
	roomForLittle  = 1 << 30 // bytes free that a home should have
	roomForNothing = 64 << 20
	tempForLittle  = 256 << 20
	tempForNothing = 16 << 20
)

// examineRoom looks at the free space of the disk that home is on.
func examineRoom(a *cli.App) Check {
	c := room(checkRoom, a.Config.Home, "sessions and agents' homes", roomForLittle, roomForNothing, cli.HomeAdvice)
	if c.State == checkWarn {
		c.Next = "transcripts and agents need room; " + c.Next
	}
	return c
}

// examineTemp looks at the free space for temporary files.
func examineTemp(a *cli.App) Check {
	return room(checkTemp, cmp.Or(cli.Variable(a.Environ, "TMPDIR"), os.TempDir()), "temporary files", tempForLittle, tempForNothing, cli.TemporaryAdvice)
}

func room(id, dir, what string, little, nothing uint64, advice string) Check {
	free, err := freeSpace(dir)
	if err != nil {
		return Check{ID: id, State: checkWarn, What: fmt.Sprintf("how much room there is in %s cannot be seen: %v", dir, err), Next: advice}
	}
	c := Check{ID: id, State: CheckOK, What: fmt.Sprintf("%s free for %s in %s", cli.Megabytes(free), what, dir)}
	switch {
	case free < nothing:
		c.State, c.Next = checkFail, advice
		c.What = fmt.Sprintf("the disk is full: only %s free for %s in %s", cli.Megabytes(free), what, dir)
	case free < little:
		c.State, c.Next = checkWarn, advice
	}
	return c
}

// examineLeftovers looks for sandboxes whose gander is gone, also for containers
// that only the daemon knows of.
func examineLeftovers(ctx context.Context, a *cli.App) Check {
	records, err := registry.List(a.Config.Home)
	if err != nil {
		return Check{ID: checkLeftovers, State: checkWarn, What: err.Error(), Next: cli.HomeAdvice}
	}
	if containers, err := docker.List(ctx, wire.New(a).DockerOptions(a.Config)); err == nil { // docker.daemon says why it does not answer
		for _, c := range containers {
			if !slices.ContainsFunc(records, func(r registry.Record) bool { return r.ID == c.ID }) {
				records = append(records, c)
			}
		}
	}
	var left []string
	for _, r := range records {
		if s := wire.State(r); s != wire.StateRunning {
			left = append(left, fmt.Sprintf("%s (%s)", r.ID, s))
		}
	}
	if len(left) == 0 {
		return Check{ID: checkLeftovers, State: CheckOK, What: "nothing is left over of other runs"}
	}
	return Check{
		ID: checkLeftovers, State: checkWarn, What: "a killed gander left " + strings.Join(left, ", "),
		Next:  "gander sandbox gc clears them away",
		fix:   func(ctx context.Context) error { _, err := wire.ClearAway(ctx, a, wire.New(a), false); return err },
		again: func(ctx context.Context) Check { return examineLeftovers(ctx, a) },
	}
}
