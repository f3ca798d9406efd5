package shell

import (
	"runtime"
	"slices"
	"strings"
)

// What a program reads that wants a person at an editor: there is none.
const (
	noGitEditor = "This shell has no editor for git to open: give the text as an argument (git commit -m, git rebase without -i)."
	noEditor    = "This shell has no editor to open: change the file with a tool instead."
)

// environment is what a command sees: the server's own, without what would wait
// for a person, and with what tells programs that an agent runs them.
func (r *Runner) environment(c Command, path string) []string {
	set := []string{
		"GOOSE_TERMINAL=1",
		"AGENT=goose",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_PAGER=cat",
		"GIT_EDITOR=" + refusal(noGitEditor),
		"GIT_SEQUENCE_EDITOR=" + refusal(noGitEditor),
		"VISUAL=" + refusal(noEditor),
		"EDITOR=" + refusal(noEditor),
	}
	if c.SessionID != "" && !strings.ContainsRune(c.SessionID, 0) {
		set = append(set, "AGENT_SESSION_ID="+c.SessionID)
	}
	if r.o.BashEnv != "" && r.shell.kind == "bash" {
		set = append(set, "BASH_ENV="+r.o.BashEnv)
	}
	if path != "" {
		set = append(set, "PATH="+path)
	}
	return overlay(r.o.Env, append(set, c.Env...))
}

// refusal is an editor that says why it is none and fails. Programs pass it to sh,
// also git on Windows.
func refusal(text string) string {
	if runtime.GOOS == "windows" {
		return `sh -c 'echo "` + text + `" >&2; exit 1'`
	}
	return `/bin/sh -c 'echo "` + text + `" >&2; exit 1'`
}

// overlay is base with the variables of set in place of those of the same name.
func overlay(base, set []string) []string {
	replaced := func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(set, func(s string) bool {
			other, _, _ := strings.Cut(s, "=")
			return sameName(name, other)
		})
	}
	env := make([]string, 0, len(base)+len(set))
	for _, kv := range base {
		if !replaced(kv) {
			env = append(env, kv)
		}
	}
	return append(env, set...)
}
