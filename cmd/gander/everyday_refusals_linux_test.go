package main

import (
	"strings"
	"testing"
)

// refusals are ordinary work that a sandbox refuses by default. With each, one line says which
// setting permits it.
var refusals = []struct{ name, setup, do, setting string }{
	{"a closed file", `echo K=1 > .env.local`, `cat .env.local`, `!.env.local`},
	{
		"a tracked file that editors run", `
			git init -q .; echo 1 > f; git add f; git commit -qm 1; git switch -qc editor; mkdir .vscode; echo '{}' > .vscode/tasks.json; git add .; git commit -qm 2; git switch -q main`,
		`git switch -q editor`, `".vscode" in policy.writes.allow`,
	},
	{"a hook", `git init -q .`, `echo true > .git/hooks/pre-commit`, `policy.writes.allow`},
	{"a key of git's configuration", `git init -q .`, `git config alias.x status`, `alias.x`},
	{
		"a file of the repository outside of the project", `git init -q .; mkdir a b; echo 1 > a/f; echo 1 > b/f; git add .; git commit -qm 1; echo p/a > ../cd`,
		`echo 2 > ../b/f`, `"policy": {"project": "repository"}`,
	},
	{
		"a work tree beside a linked one", `git init -q m; git -C m commit -q --allow-empty -m 1; git -C m worktree add -q ../w; echo p/w > ../cd`,
		`git worktree add -q v`, `"sandbox": {"driver": "off"}`,
	},
	{
		"objects that came later", `git init -q later; git init -q w; cd w; GANDER --log-level error sandbox exec -- true; echo $PWD/../later/.git/objects > .git/objects/info/alternates; echo p/w > ../../cd`,
		`git status`, `gander policy trust`,
	},
	{"a host", ``, `/usr/bin/python3 -c 'import urllib.request; urllib.request.urlopen("https://registry.example.org/a")'`, `gander policy allow registry.example.org`},
	{"a program below the home", `tool tools/bin/mine true; path tools/bin`, `mine`, `policy.readOnlyPaths`},
	{"memory", `echo '{"policy": {"limits": {"memory": "128MB"}}}' > ~/../gander/config.json`, `/usr/bin/python3 -c 'b = b"x" * (256 << 20)'`, `policy.limits.memory`},
	{"too long arguments", ``, `/usr/bin/env true $(head -c 3000000 /dev/zero | tr '\0' x)`, `longer than the kernel takes`},
}

// TestRefusalsInside looks for the setting that permits each refused thing, in one line of the output.
func TestRefusalsInside(t *testing.T) {
	gander := asGander(t)
	drivers := everydayDrivers(t, gander)
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			for _, driver := range drivers {
				said := doEveryday(t, strings.ReplaceAll(tt.setup, "GANDER", gander), tt.do, gander, "sandbox", "exec", "--sandbox", driver, "--")
				named := false
				for line := range strings.Lines(said) {
					named = named || strings.Contains(strings.ReplaceAll(line, `\`, ""), tt.setting) // the log quotes
				}
				if !named {
					t.Errorf("in a %s sandbox %q is not named:\n%s", driver, tt.setting, said)
				}
			}
		})
	}
}
