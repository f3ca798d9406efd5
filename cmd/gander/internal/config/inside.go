package config

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// systemPath are the directories of programs that every sandbox shows.
var systemPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// insideNames are the variables that programs inside get when they are set:
// language and time zone, nothing that tells about the person or the machine.
var insideNames = []string{"LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_NUMERIC", "LC_TIME", "TZ"}

// windowsNames are what programs of Windows look for to find themselves and each other.
var windowsNames = []string{
	"PATH", "PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "OS", "PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "COMMONPROGRAMFILES", "PROGRAMDATA", "TEMP", "TMP",
}

// InsideEnvironment is what every program in a sandbox starts from, as
// "NAME=value": a PATH of directories that are visible inside, language and time
// zone, and what Sandbox.Environment names. On Windows, where everything is visible, PATH
// is the person's, and where the system is comes with it. Nothing else of the host's is
// passed on.
func (c *Config) InsideEnvironment() []string { return c.insideEnvironment(runtime.GOOS) }

func (c *Config) insideEnvironment(system string) []string {
	names := insideNames
	env := []string{"TERM=dumb"}
	if system == "windows" {
		names = slices.Concat(windowsNames, insideNames)
	} else {
		env = append(env, "PATH="+strings.Join(c.insidePath(), ":"), "USER=agent", "LOGNAME=agent", "SHELL=/bin/sh")
	}
	for _, name := range names {
		if v := c.env[name]; v != "" {
			env = append(env, name+"="+v)
		}
	}
	return append(env, c.SandboxEnvironment()...)
}

// insidePath is the person's PATH as far as sandboxes show it, then the system's.
func (c *Config) insidePath() []string {
	var path []string
	for _, dir := range filepath.SplitList(c.env["PATH"]) {
		if filepath.IsAbs(dir) && c.visibleInside(filepath.Clean(dir)) && !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	for _, dir := range systemPath {
		if !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	return path
}

// visibleInside reports whether every sandbox shows a path of the host.
func (c *Config) visibleInside(path string) bool {
	shown := append([]string{"/usr", "/bin", "/sbin", "/opt", "/nix"}, c.Sandbox.ReadOnlyPaths...)
	return slices.ContainsFunc(shown, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
	})
}

// CABundle is the file of certificate authorities that SSL_CERT_FILE names; empty without one.
func (c *Config) CABundle() string { return c.env["SSL_CERT_FILE"] }
