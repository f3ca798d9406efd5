package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// HomeEnvironment are the variables by which programs find their home and, on Windows,
// where they keep what they do not want to keep in it.
func HomeEnvironment(home string) []string { return homeEnvironment(runtime.GOOS, home) }

func homeEnvironment(system, home string) []string {
	env := []string{"HOME=" + home}
	if system == "windows" {
		data := filepath.Join(home, "AppData")
		env = append(env, "USERPROFILE="+home, "APPDATA="+filepath.Join(data, "Roaming"), "LOCALAPPDATA="+filepath.Join(data, "Local"))
	}
	return env
}

// PlainEnvironment is what a program of the system needs that gander itself runs in a
// sandbox.
func PlainEnvironment(home string) []string { return plainEnvironment(runtime.GOOS, home, os.Getenv) }

func plainEnvironment(system, home string, variable func(string) string) []string {
	env := homeEnvironment(system, home)
	if system != "windows" {
		return append(env, "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	for _, name := range []string{"PATH", "PATHEXT", "SystemRoot", "ComSpec"} {
		env = append(env, name+"="+variable(name))
	}
	return env
}

// Environment is what a command's environment should start from in this sandbox:
// env, which is made for this machine's programs, on top of what the image sets. An
// image's programs come first in PATH.
func (i Info) Environment(env []string) []string {
	if i.Image == "" {
		return slices.Clone(env)
	}
	out := slices.Clone(i.Env)
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		at := slices.IndexFunc(out, func(o string) bool { return strings.HasPrefix(o, name+"=") })
		switch {
		case at < 0:
			out = append(out, v)
		case name == "PATH":
			out[at] = "PATH=" + joinPaths(strings.TrimPrefix(out[at], "PATH="), value)
		default:
			out[at] = v
		}
	}
	return out
}

// ProxyEnvironment are the variables by which programs find a proxy inside; none
// for an empty address. What is on loopback, the model among it, is not the
// proxy's business.
func ProxyEnvironment(addr string) []string {
	if addr == "" {
		return nil
	}
	const direct = "localhost,127.0.0.1,::1"
	var env []string
	for _, v := range [][2]string{
		{"HTTP_PROXY", "http://" + addr},
		{"HTTPS_PROXY", "http://" + addr},
		{"ALL_PROXY", "socks5h://" + addr},
		{"NO_PROXY", direct},
	} {
		env = append(env, v[0]+"="+v[1], strings.ToLower(v[0])+"="+v[1])
	}
	return append(env, "NODE_USE_ENV_PROXY=1") // Node does not look by itself
}

// joinPaths are the directories of both, each once.
func joinPaths(first, second string) string {
	var dirs []string
	for dir := range strings.SplitSeq(first+":"+second, ":") {
		if dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}
