package developer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"

	"gander.dev/gander/developer/files"
)

// Options say what a server's tools are and where they work. The zero value of
// what is not said is useful.
type Options struct {
	// Profile is the family of tools; empty means [Classic].
	Profile Profile
	// WorkingDir is the server's own directory, absolute; calls may name others.
	WorkingDir string
	// HomeDir is the person's home, AppDataDir on Windows what %APPDATA% says.
	HomeDir, AppDataDir string
	// ConfigDir is goose's own directory: a .gooseignore in it holds everywhere,
	// files with hints in it are the person's.
	ConfigDir string
	// Roots are directories in which files may be changed, besides the work tree of a call's
	// working directory and the temporary directory; the root of the file system permits all.
	Roots []string
	// Buffers are the unsaved files of an editor; nil reads and writes the disk.
	Buffers files.Buffers
	// Environ is what commands start with, besides what the shell adds.
	Environ []string
	// BashEnv is BASH_ENV of commands where the shell is bash; empty sets none.
	BashEnv string
	// LoginPath has commands run with the PATH of the login shell, which is asked once.
	LoginPath bool
	// Jobs adds the tool for background jobs, which no goose ever had.
	Jobs bool
	// Keeper keeps the ignore rules for commands; the descriptions name it.
	Keeper Keeper
	// NeedKernel refuses commands for which the kernel does not keep them.
	NeedKernel bool
	// Log gets events; never what a command printed, nor secrets. nil means none.
	Log *slog.Logger
}

// A Keeper keeps the ignore rules for commands, and for what they start.
type Keeper string

// The keepers.
const (
	// KeptSilently is a check of what a command says, of which no description speaks.
	KeptSilently Keeper = ""
	// KeptByWords is the same check, called a guard.
	KeptByWords Keeper = "words"
	// KeptByKernel is that check, and the kernel, for whatever a command starts.
	KeptByKernel Keeper = "kernel"
	// KeptByName is that check, and macOS, which knows the names of closed files.
	KeptByName Keeper = "name"
	// KeptBySandbox is that check, and the sandbox that the server runs in.
	KeptBySandbox Keeper = "sandbox"
)

// New makes the tools of a profile. Close them at the end: commands that still run
// in the background end then.
func New(o Options) (*Toolset, error) {
	if o.Profile == "" {
		o.Profile = Classic
	}
	if !slices.Contains(Profiles(), o.Profile) {
		return nil, fmt.Errorf("there is no profile %q; choose one of %s, %s", o.Profile, Classic, Current)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w, err := newWorkshop(o)
	if err != nil {
		return nil, err
	}
	table := Table{
		Profile: o.Profile, Tools: w.tools(), Prompts: promptsOf(o.Profile),
		Instructions: w.instructions, Close: w.close, Log: o.Log,
	}
	set, err := NewToolset(table)
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return set, nil
}

func promptsOf(p Profile) []Prompt {
	if p == Classic {
		return []Prompt{unitTest()}
	}
	return nil
}

// instructions are made for a client when it introduces itself. It may soon run a command,
// so what commands run below is started meanwhile.
func (w *workshop) instructions(r Reader) string {
	w.runner.Warm()
	return instructionsFor(w.o.Profile, machine{
		os: runtime.GOOS, workingDir: cmp.Or(r.WorkingDir, w.o.WorkingDir), shell: shellName(variable(w.o.Environ, "SHELL")),
		container: InContainer(), jobs: w.o.Jobs,
	}) + w.hints(r.HintFiles)
}

// InContainer reports whether this process runs in a container.
func InContainer() bool {
	cgroup, err := os.ReadFile("/proc/1/cgroup")
	return err == nil && containerGroups(string(cgroup))
}

// variable is a variable of an environment; the last of several counts.
func variable(environ []string, name string) (value string) {
	for _, v := range environ {
		if key, v, ok := strings.Cut(v, "="); ok && key == name {
			value = v
		}
	}
	return value
}
