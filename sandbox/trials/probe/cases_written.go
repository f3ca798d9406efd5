package probe

import "strings"

// writtenCases have git, or no git, write what the person's git obeys: configuration, and the
// files that lead from a work tree to its git directory, from there back, and to other stores of
// objects. They take back what they have done to the repository above the case's directory.
func writtenCases() []Case {
	const person = `export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
set -e; `
	// put puts a file in the place of the configuration, as git does; with another argument its
	// lock keeps a second name.
	const above = person + `cd ..; trap 'rm -f .git/config.lock second' EXIT; cp .git/config "$OUT/old"; { cat .git/config; printf '[alias]\n\tprobe = x\n'; } > "$OUT/evil"
put() { set -C; cat "$1" > .git/config.lock; set +C; test -z "$2" || ln .git/config.lock second; mv -f .git/config.lock .git/config; }
got() { git config --file .git/config --get alias.probe && echo "$1"; put "$OUT/old"; }
`
	var cases []Case
	add := func(id, script string) { cases = append(cases, sh(id, script, "git")) }
	for _, setting := range writtenSettings() {
		key, value, _ := strings.Cut(setting, " ")
		add(setting, above+`git config --add `+key+` '`+value+`'; git config --get-all `+key+` | grep -qxF '`+value+`' && echo "$1"; put "$OUT/old"`)
	}
	for _, written := range writtenBytes() {
		add("configuration "+written[0], above+`{ cat .git/config; printf '`+written[1]+`'; } > "$OUT/new"; put "$OUT/new"; got "$1"`)
	}
	for _, c := range [][2]string{
		{"a lock's descriptor", `set -C; exec 9> .git/config.lock; cat "$OUT/old" >&9; mv -f .git/config.lock .git/config; printf '[alias]\n\tprobe = x\n' >&9; set +C; got "$1"`},
		{"a lock's descriptor, opened again", `set -C; exec 9> .git/config.lock; set +C; cat "$OUT/old" >&9; exec 8>> /proc/self/fd/9; mv -f .git/config.lock .git/config; printf '[alias]\n\tprobe = x\n' >&8; got "$1"`},
		{"a lock's second name", `put "$OUT/old" linked; printf '[alias]\n\tprobe = x\n' >> second; got "$1"`},
		{"a second rename", `put "$OUT/old"; cp "$OUT/evil" .git/other; mv -f .git/other .git/config; got "$1"`},
		{"a rename over a lock", `set -C; cat "$OUT/old" > .git/config.lock; set +C; cp "$OUT/evil" .git/other; mv -f .git/other .git/config.lock; mv -f .git/config.lock .git/config; got "$1"`},
		{"a lock from elsewhere", `cp "$OUT/evil" .git/other; mv .git/other .git/config.lock; mv -f .git/config.lock .git/config; got "$1"`},
		{"a lock that is a link", `ln -s "$OUT/evil" .git/config.lock; mv -f .git/config.lock .git/config; got "$1"`},
		{"a work tree's configuration", `git config extensions.worktreeConfig true; git config --worktree core.fsmonitor x; git config core.fsmonitor && echo "$1"; rm -f .git/config.worktree; put "$OUT/old"`},
		{"a remote's other address", `git remote add probe https://git.example/a; git config remote.probe.url "$OUT"; test "$(git config remote.probe.url)" = "$OUT" && echo "$1"; put "$OUT/old"`},
		{"a remote in a file", `mkdir -p .git/remotes; echo "URL: $OUT" > .git/remotes/probe; test -s .git/remotes/probe && echo "$1"; rm -r .git/remotes`},
		{"a submodule's work tree elsewhere", `f=.git/modules/submodule/config; cp $f "$OUT/module"; git config --file $f core.worktree "$OUT"; test "$(git config --file $f core.worktree)" = "$OUT" && echo "$1"; cp "$OUT/module" $f`},
		{"a submodule's alias", `f=.git/modules/submodule/config; git config --file $f alias.probe x; git config --file $f alias.probe && echo "$1"; git config --file $f --unset alias.probe`},
		{"a template, once more", `mkdir -p "$OUT/t/hooks"; echo x > "$OUT/t/hooks/probe"; git init -q --template="$OUT/t"; test -s .git/hooks/probe && echo "$1"; rm -f .git/hooks/probe`},
	} {
		add(c[0], above+c[1])
	}
	const made = person + `git init -q made; cd made; git commit -q --allow-empty -m 1; git worktree add -q w; `
	for _, c := range [][2]string{
		{"a new repository's program", `git config core.fsmonitor x; git config core.fsmonitor && echo "$1"`},
		{"a new repository's configuration", `printf '[alias]\n\tprobe = x\n' > c; rm .git/config; mv c .git/config; git config --file .git/config alias.probe && echo "$1"`},
		{"a new repository's hook", `mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; test -s .git/hooks/pre-commit && echo "$1"`},
		{"a hook that was a sample", `mkdir -p .git/hooks; echo x > .git/hooks/x.sample; mv .git/hooks/x.sample .git/hooks/pre-commit; test -s .git/hooks/pre-commit && echo "$1"`},
		{"a template's hook", `mkdir -p "$OUT/t/hooks"; echo x > "$OUT/t/hooks/probe"; git init -q --template="$OUT/t" n; test -s n/.git/hooks/probe && echo "$1"`},
		{"a template's settings", `mkdir -p "$OUT/t"; printf '[alias]\n\tprobe = x\n' > "$OUT/t/config"; git init -q --template="$OUT/t" n; git config --file n/.git/config alias.probe && echo "$1"`},
		{"a clone's settings", `git clone -q -c core.fsmonitor=x . n; git -C n config --local core.fsmonitor && echo "$1"`},
		{"a directory that becomes git's", `mkdir -p n/g; printf '[alias]\n\tprobe = x\n' > n/g/config; mv n/g n/.git; test -s n/.git/config && echo "$1"`},
		{"a .git", `mkdir n; echo "gitdir: $OUT/e" > n/.git; grep -qs "$OUT/e" n/.git && echo "$1"`},
		{"a .git that is moved there", `mkdir n; echo "gitdir: $OUT/e" > n/g; mv n/g n/.git; grep -qs "$OUT/e" n/.git && echo "$1"`},
		{"a .git that is linked there", `mkdir n; echo "gitdir: $OUT/e" > n/g; ln n/g n/.git; grep -qs "$OUT/e" n/.git && echo "$1"`},
		{"a .git that is a link", `mkdir n; ln -s "$OUT/e" n/.git; test -L n/.git && echo "$1"`},
		{"a work tree's .git", `echo "gitdir: $OUT/e" > w/.git; grep -qs "$OUT/e" w/.git && echo "$1"`},
		{"a .git that leads to a directory of files", `mkdir e; echo ref: x > e/HEAD; echo "gitdir: ../e" > w/.git; grep -qs "/e$" w/.git && echo "$1"`},
		{"a commondir", `echo "$OUT/e" > .git/worktrees/w/commondir; grep -qs "$OUT/e" .git/worktrees/w/commondir && echo "$1"`},
		{"a commondir that is moved there", `echo "$OUT/e" > c; mv -f c .git/worktrees/w/commondir; grep -qs "$OUT/e" .git/worktrees/w/commondir && echo "$1"`},
		{"a commondir of another directory", `mkdir .git/worktrees/e; echo ../../../e > .git/worktrees/e/commondir; grep -qs "/e$" .git/worktrees/e/commondir && echo "$1"`},
		{"a commondir at the top", `echo "$OUT/e" > .git/commondir; grep -qs "$OUT/e" .git/commondir && echo "$1"`},
		{"a gitdir that leads elsewhere", `echo "$OUT/e/.git" > .git/worktrees/w/gitdir; grep -qs "$OUT/e" .git/worktrees/w/gitdir && echo "$1"`},
		{"directories of work trees, moved", `mkdir -p e/w; echo "$OUT/e" > e/w/commondir; mv .git/worktrees g; mv e .git/worktrees; grep -qs "$OUT/e" .git/worktrees/w/commondir && echo "$1"`},
		{"alternates", `mkdir -p .git/objects/info; echo "$BESIDE" > .git/objects/info/alternates; grep -qs . .git/objects/info/alternates && echo "$1"`},
		{"alternates that are moved there", `mkdir -p .git/objects/info; echo "$BESIDE" > a; mv a .git/objects/info/alternates; grep -qs . .git/objects/info/alternates && echo "$1"`},
		{"alternates with their directory", `mkdir i; echo "$BESIDE" > i/alternates; rm -rf .git/objects/info; mv i .git/objects/info; grep -qs . .git/objects/info/alternates && echo "$1"`},
	} {
		add(c[0], made+c[1])
	}
	return cases
}

// writtenSettings lists settings, with values, that have the person's git run something, or fetch,
// push or write elsewhere.
func writtenSettings() []string {
	return []string{
		"core.fsmonitor x", "core.hooksPath x", "core.sshCommand x", "core.pager x", "core.editor x", "core.gitProxy x", "core.askPass x", "core.attributesFile x",
		"core.excludesFile x", "core.worktree /", "core.alternateRefsCommand x", "alias.probe !x", "alias.probe log", "pager.log x", "filter.p.clean x", "filter.p.smudge x",
		"filter.p.process x", "diff.external x", "diff.p.textconv x", "diff.p.command x", "merge.p.driver x", "mergetool.p.cmd x", "difftool.p.cmd x", "browser.p.cmd x",
		"man.p.cmd x", "credential.helper !x", "include.path x", "includeIf.onbranch:x.path x", "url.x.insteadOf https://", "url.x.pushInsteadOf https://", "gpg.program x",
		"gpg.ssh.program x", "commit.template x", "sequence.editor x", "interactive.diffFilter x", "init.templateDir x", "trailer.p.command x", "uploadpack.packObjectsHook x",
		"receive.procReceiveRefs x", "protocol.ext.allow always", "http.proxy http://x", "http.sslVerify false", "http.cookieFile x", "sendemail.smtpServer x", "user.email x@y",
		"guitool.p.cmd x", "maintenance.repo x", "safe.directory x", "extensions.partialClone x", "extensions.worktreeConfig false", "remote.probe.url ext::x", "remote.probe.url /x",
		"remote.probe.url ssh://-oProxyCommand=x/y", "remote.probe.uploadpack x", "remote.probe.receivepack x", "remote.probe.vcs x", "remote.probe.proxy x", "remote.probe.pushurl /x",
		"remote.pushDefault x", "branch.probe.remote /x", "branch.probe.pushRemote x", "branch.probe.mergeOptions x", "branch.probe.merge x", "submodule.probe.url ext::x",
		"submodule.probe.update !x", "submodule.probe.branch x", "gc.recentObjectsHook x",
	}
}

// writtenBytes lists ends of a configuration, for printf, that git reads an alias in and that
// somebody who reads them carelessly does not.
func writtenBytes() [][2]string {
	return [][2]string{
		{"as it is", `[alias]\n\tprobe = x\n`},
		{"on one line", `[branch "p"]merge = refs/heads/p\n[alias]probe=x\n`},
		{"in capitals", `[ALIAS]\n\tPROBE = x\n`},
		{"without a value", `[alias]\n\tprobe\n`},
		{"after a line that goes on", `[branch "p"]\n\tdescription = a\\\n\n[alias]\n\tprobe = x\n`},
		{"in a line that goes on", `[branch "p"]\n\tdescription = a ; \\\n[alias]\n\tprobe = x\n`},
		{"after a comment that goes on", `# \\\n[alias]\n\tprobe = x\n`},
		{"after a quote in a comment", `# "\n[alias]\n\tprobe = x\n# "\n`},
		{"after a quote in a subsection", `[branch "p\\"]"]\n\tmerge = refs/heads/p\n[alias]\n\tprobe = x\n`},
		{"in a subsection with a dot", `[branch "p"]\n\tmerge = refs/heads/p\n[alias ""]\n\tprobe = x\n[alias]\n\tprobe = x\n`},
		{"with line ends of Windows", `[alias]\r\n\tprobe = x\r\n`},
		{"after a form feed", `[branch "p"]\n\tdescription = a\f\n[alias]\n\tprobe = x\n`},
		{"at the end without a line end", `[alias]\n\tprobe = x`},
		{"among much else", `[branch "p"]\n\tmerge = refs/heads/p\n\trebase = true\n[alias]\n\tprobe = x\n[branch "p"]\n\tdescription = y\n`},
	}
}
