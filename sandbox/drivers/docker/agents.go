package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// installAgents makes npm fetch what the lock file pins, unless it is there.
func (c buildContext) installAgents(ctx context.Context, o BuildOptions) error {
	if err := c.checkProcessor(); err != nil {
		return err
	}
	if c.checkInstalled() == nil {
		return nil
	}
	npm := o.NPM
	if npm == "" {
		npm = "npm"
	}
	_, _ = fmt.Fprintf(c.output, "fetching the agents with %s\n", npm)
	// The packages are for the container's system, whatever this one is. None of
	// their scripts runs here.
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
		"--os=linux", "--libc=glibc", "--cpu="+c.processor)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, o.Env, c.output, c.output
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("fetching the agents: %s is not installed; install Node.js 20 or newer", npm)
	} else if err != nil {
		return fmt.Errorf("fetching the agents with %s in %s: %w", npm, c.dir, err)
	}
	return c.checkInstalled()
}

// lock is what counts of a lock file of npm, and of the one that npm keeps of
// what it has installed.
type lock struct {
	Packages map[string]struct {
		Version   string   `json:"version"`
		Integrity string   `json:"integrity"`
		CPU       []string `json:"cpu"`
	} `json:"packages"`
}

// checkProcessor refuses a daemon's machine that the agents are not pinned for.
func (c buildContext) checkProcessor() error {
	var pins lock
	if err := readJSON(filepath.Join(c.dir, "package-lock.json"), &pins); err != nil {
		return err
	}
	for name, pin := range pins.Packages {
		if len(pin.CPU) > 0 && !slices.Contains(pin.CPU, c.processor) {
			return fmt.Errorf("the agent in %s is pinned for %s processors, and the daemon's machine has %s; use a daemon on such a machine", name, strings.Join(pin.CPU, ", "), c.processor)
		}
	}
	return nil
}

// checkInstalled says which pinned package is not installed. npm has compared
// the content of each with its hash when it unpacked it.
func (c buildContext) checkInstalled() error {
	var want, got lock
	if err := readJSON(filepath.Join(c.dir, "package-lock.json"), &want); err != nil {
		return err
	}
	if err := readJSON(filepath.Join(c.dir, "node_modules", ".package-lock.json"), &got); err != nil {
		return err
	}
	for name, pin := range want.Packages {
		if name == "" {
			continue // the project itself
		}
		if is := got.Packages[name]; pin.Integrity == "" || is.Integrity != pin.Integrity || is.Version != pin.Version {
			return fmt.Errorf("the agent in %s is not the one that the lock file pins (version %s); remove %s and build again",
				name, pin.Version, filepath.Join(c.dir, "node_modules"))
		}
	}
	return nil
}

func readJSON(path string, to any) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("checking the agents against the lock file: %w", err)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("checking the agents against the lock file: %s: %w", path, err)
	}
	return nil
}
