package config

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/rules/toolchains"
	"gander.dev/gander/sandbox/rules/toolsettings"
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

// npmSettings have npm and pnpm try again soon, or give up: by themselves they wait for 70 seconds
// until they say that there is no such host. They do not look for newer versions of themselves
// with commands that need no network.
var npmSettings = []string{"npm_config_fetch_retry_mintimeout=250", "npm_config_fetch_retry_maxtimeout=750", "npm_config_update_notifier=false"}

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
		tools := c.FindToolchains()
		env = append(env, "PATH="+strings.Join(c.insidePath(tools), ":"), "USER=agent", "LOGNAME=agent", "SHELL="+shellInside())
		env = append(env, "UV_LINK_MODE=copy") // its cache is another mount than the project
		env = slices.Concat(env, tools.Env, c.FindToolSettings().Env, npmSettings)
	}
	for _, name := range names {
		if v := c.env[name]; v != "" {
			env = append(env, name+"="+v)
		}
	}
	return append(env, c.SandboxEnvironment()...)
}

// shellInside is the shell of programs inside: the system's bash, for which people and models
// write, else sh.
func shellInside() string {
	const bash = "/bin/bash"
	if _, err := os.Stat(bash); err == nil {
		return bash
	}
	return "/bin/sh"
}

// FindToolchains finds what sandboxes show of the person's toolchains below the home, but for
// what is in directories that a sandbox can write.
func (c *Config) FindToolchains(writable ...string) toolchains.Found {
	if !c.Toolchains || runtime.GOOS != "linux" { // containers run no other system's programs
		return toolchains.Found{}
	}
	return toolchains.Find(toolchains.Options{
		Variable: func(name string) string { return c.env[name] }, Writable: append(writable, c.Home), Shown: c.Sandbox.ReadOnlyPaths,
	})
}

// FindToolSettings finds what sandboxes get of the person's settings of tools, but for files in
// directories that a sandbox can write.
func (c *Config) FindToolSettings(writable ...string) toolsettings.Found {
	if !c.ToolSettings || runtime.GOOS == "windows" { // where everything is there as it is
		return toolsettings.Found{}
	}
	return toolsettings.Find(toolsettings.Options{Variable: c.Variable, Writable: append(writable, c.Home)})
}

// insidePath is the person's PATH as far as sandboxes show it, then the system's.
func (c *Config) insidePath(tools toolchains.Found) []string {
	var path []string
	for _, dir := range filepath.SplitList(c.env["PATH"]) {
		if !filepath.IsAbs(dir) {
			continue
		}
		shown := c.visibleInside(filepath.Clean(dir))
		if name, ok := tools.Shows(dir); ok && !shown {
			dir, shown = name, true
		}
		if shown && !slices.Contains(path, dir) {
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

// Variable returns the value of a variable of the person's environment.
func (c *Config) Variable(name string) string { return c.env[name] }

// CABundle is the file of certificate authorities that SSL_CERT_FILE names; empty without one.
func (c *Config) CABundle() string { return c.env["SSL_CERT_FILE"] }
