package guard

// What is known about programs. A program that is in no list gets the ordinary
// treatment: every argument that names a hidden file is refused, but for bare
// words that are directories.
var (
	// silent programs print or keep their words and open none of them.
	silent = set("echo", "printf", ":", "true", "false", "alias", "export", "local", "declare", "readonly")

	// verbs take a verb or a target as their first word, which is no path.
	verbs = set("ant", "apk", "apt", "apt-get", "bazel", "brew", "bun", "bundle", "cargo", "composer", "conda", "deno",
		"dnf", "docker", "docker-compose", "dotnet", "flutter", "gh", "git", "go", "gradle", "gradlew", "helm", "invoke",
		"just", "kubectl", "lein", "make", "gmake", "mage", "meson", "mix", "mvn", "mvnw", "nerdctl", "ninja", "nix", "npm",
		"npx", "nx", "pdm", "pip", "pip3", "pipenv", "pnpm", "podman", "poetry", "rake", "rustup", "sbt", "service", "snap",
		"swift", "systemctl", "task", "terraform", "tox", "turbo", "uv", "yarn", "yum", "zig")

	// fileCommands work on files: a bare word is one for them.
	fileCommands = set("ack", "ag", "awk", "base64", "bat", "bsdtar", "cat", "cd", "chdir", "chmod", "chown", "cp", "cpio",
		"dd", "diff", "dir", "du", "fd", "fdfind", "file", "find", "gawk", "grep", "egrep", "fgrep", "head", "install",
		"less", "link", "ln", "ls", "lsd", "eza", "exa", "more", "mv", "ncdu", "nl", "od", "open", "pushd", "rclone",
		"readlink", "realpath", "rg", "rm", "rmdir", "rsync", "scp", "sed", "shred", "stat", "tac", "tail", "tar", "tee",
		"touch", "tree", "unlink", "vi", "view", "vim", "nano", "emacs", "wc", "xxd", "hexdump", "strings", "zip", "7z",
		"sort", "uniq", "cut", "cmp", "sha256sum", "md5sum", "sha1sum", "xargs", "source", ".", "git-grep")

	// harmless programs only look, and may look at the rules themselves.
	harmless = set("bat", "cat", "cmp", "diff", "egrep", "fgrep", "file", "grep", "head", "less", "ls", "md5sum", "more", "nl", "od",
		"rg", "sha256sum", "stat", "tail", "test", "wc", "[")

	// shells run the commands in an argument.
	shells = set("ash", "bash", "busybox", "csh", "dash", "fish", "flock", "ksh", "mksh", "rbash", "runuser", "script", "sh",
		"su", "tcsh", "yash", "zsh")

	// readers take names from their input.
	readers = set("xargs", "parallel", "cpio", "pax", "tar", "rsync", "bsdtar", "rg", "fzf", "vidir")

	// interpreters run code, in which names are quoted. Digits at the end of the
	// name are versions.
	interpreters = set("awk", "gawk", "mawk", "bun", "deno", "ed", "ex", "julia", "lua", "luajit", "node", "nodejs", "osascript",
		"perl", "php", "python", "pypy", "pwsh", "powershell", "R", "Rscript", "ruby", "irb", "sed", "sqlite", "tclsh", "ts-node", "tsx", "vim", "ipython")
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
