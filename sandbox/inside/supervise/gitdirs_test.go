package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layOut makes files of a directory; "-> target" as the text makes a link.
func layOut(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if target, ok := strings.CutPrefix(text, "-> "); ok && err == nil {
			err = os.Symlink(strings.ReplaceAll(target, "TREE", dir), path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(strings.ReplaceAll(text, "TREE", dir)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What git uses is found by what the configuration says, without leaving the tree.
func TestGitPlaces(t *testing.T) {
	for name, tt := range map[string]struct {
		files       map[string]string
		dirs, named []string
	}{
		"nothing":                          {map[string]string{"a": ""}, nil, nil},
		"hooks, includes":                  {map[string]string{".git/config": "[core]\n\thooksPath = tools/hooks # ours\n[include]\n\tpath = ../shared\n[includeIf \"gitdir:/a]b\"] path = \"more/c\"\n"}, nil, []string{"tools/hooks", ".git/tools/hooks", "shared", ".git/more/c"}},
		"in what is included":              {map[string]string{".git/config": "[include]\npath=../shared\n", "shared": "[core]\nhooksPath=\"a b\"/h\n[include]\npath=shared\npath=deep/er\n", "deep/er": "[core]\neditor=tools/ed\n"}, nil, []string{"shared", "a b/h", ".git/a b/h", "deep/er", "tools/ed", ".git/tools/ed"}},
		"programs":                         {map[string]string{".git/config": "[core]\nfsmonitor = tools/watch\nsshCommand = ssh -F x -o 'ProxyCommand=tools/proxy %h'\neditor = code --wait\npager = less\n[diff]\nexternal=./tools/diff\n[gpg \"ssh\"]\nprogram=sign.sh\n[sequence]\neditor=tools/seq\n", "sign.sh": "", "code/x": ""}, nil, []string{"tools/watch", ".git/tools/watch", "tools/proxy", ".git/tools/proxy", "tools/diff", ".git/tools/diff", "sign.sh", ".git/sign.sh", "tools/seq", ".git/tools/seq"}},
		"drivers":                          {map[string]string{".git/config": "[filter \"x\"]\nclean = python clean.py %f\nsmudge = TREE/smudge\n[merge.y]\ndriver = sh merge.sh %O %A\n[diff \"z\"]\ntextconv = python3 'my conv.py'\n", "clean.py": "", "merge.sh": "", "my conv.py": "", "python/x": ""}, nil, []string{"clean.py", ".git/clean.py", "smudge", "merge.sh", ".git/merge.sh", "my conv.py", ".git/my conv.py"}},
		"programs of git's scripts":        {map[string]string{".git/config": "[sendemail]\nsendmailCmd = TREE/mail/send\nsmtpServerOption = --file=TREE/mail/rc\n[svn]\nauthorsProg = TREE/svn/authors\nconfigDir = TREE/svn/conf\n[instaweb]\nmodulePath = TREE/web\n[init]\ntemplateDir = TREE/template\n[gitflow \"path\"]\nhooks = TREE/flow\n[core]\nvirtualFilesystem = TREE/vfs/hook\n[lfs \"customtransfer.x\"]\npath = python3\nargs = TREE/lfs/x.py\n[annex]\npre-commit-command = TREE/annex/check\n", "svn/conf/config": "", "web/x": "", "template/hooks/x": "", "flow/x": ""}, nil, []string{"mail/send", "mail/rc", "svn/authors", "svn/conf", "web", "template", "flow", "vfs/hook", "lfs/x.py", "annex/check"}},
		"aliases and helpers":              {map[string]string{".git/config": "[alias]\nt = !make -f build.mk test ./src/... src\nst = status\n[credential \"https://x\"]\nhelper = \"!sh \\\"$(git rev-parse --show-toplevel)/tools/cred\\\"\"\n", "build.mk": "", "src/a": "", "tools/cred": "", "status": ""}, nil, []string{"build.mk", ".git/build.mk", "src/...", ".git/src/...", "tools/cred"}},
		"over several lines":               {map[string]string{".git/config": "[core]\r\n\teditor = vim -S \\\r\n\tvim.rc\n", "vim.rc": ""}, nil, []string{"vim.rc", ".git/vim.rc"}},
		"programs behind a file or link":   {map[string]string{".git/config": "[core]\nfsmonitor=bin/watch\neditor=loop/ed\npager=out/p\naskpass=/usr/bin/ask\n", "bin": "", "loop": "-> loop", "out": "-> /etc"}, nil, []string{"bin/watch", ".git/bin/watch", "loop/ed", ".git/loop/ed", "out/p", ".git/out/p"}},
		"no programs":                      {map[string]string{".git/config": "[user]\nname = README\n[commit]\ntemplate = README\n[remote \"o\"]\nurl = ../x/y\n[branch \"m\"]\nmerge = refs/heads/m\n# hooksPath = x\n; editor = tools/x\n[core]\neditor = src\nhooksPath =\npager\n", "README": "", "src/x": ""}, nil, nil},
		"another git directory":            {map[string]string{".git": "gitdir: store/g\n", "store/g/config": "[core]\nhooksPath=h\n"}, []string{"store/g"}, []string{"h", "store/g/h"}},
		"a linked work tree":               {map[string]string{".git": "gitdir: main/.git/worktrees/w\n", "main/.git/worktrees/w/commondir": "../..\n", "main/.git/config": "[core]\nhooksPath=h\n"}, nil, []string{"h", "main/.git/worktrees/w/h", "main/.git/h"}},
		"a linked work tree of a bare one": {map[string]string{".git": "gitdir: store/worktrees/w\n", "store/worktrees/w/commondir": "../..\n", "store/hooks/update": "-> ../../up", "store/config": "[core]\nhooksPath=h\n", "up": ""}, []string{"store", "store/worktrees/w"}, []string{"up", "h", "store/worktrees/w/h", "store/h"}},
		"in git's own directory":           {map[string]string{".git": "gitdir: lib/.git/x\n", "lib/.git/x/config": ""}, []string{"lib/.git/x"}, nil},
		"links as hooks":                   {map[string]string{".git/config": "[core]\nhooksPath=h\n", ".git/hooks/pre-commit": "-> ../../scripts/check", ".git/hooks/x.sample": "", ".git/hooks/out": "-> /etc/hostname", "h/lib": "-> ../lib", "h/none": "-> ../scripts/none", "scripts/check": "", "lib/x": ""}, nil, []string{"scripts/check", "h", "lib", "scripts/none", ".git/h"}},
		"other links":                      {map[string]string{".git/config.worktree": "-> ../own", "own": "[core]\neditor=tools/ed\n"}, nil, []string{"own", "tools/ed", ".git/tools/ed"}},
		"what insteadOf stands for":        {map[string]string{".git/config": "[url \"ext::tools/run \\\"x\\\" %S\"]\ninsteadOf = run:\n[url \"https://x/a/b\"]\ninsteadOf = y\n"}, nil, []string{"tools/run", ".git/tools/run"}},
		"aliases without a shell":          {map[string]string{".git/config": "[alias]\na = -c core.pager=tools/page log\nb = rebase --exec tools/check\nc = bisect run tools/bisect\nd = log -- src/a\ne = fetch --upload-pack=tools/up\n", "src/a": ""}, nil, []string{"tools/page", ".git/tools/page", "tools/check", ".git/tools/check", "tools/bisect", ".git/tools/bisect", "tools/up", ".git/tools/up"}},
		"hooks that need not be there":     {map[string]string{".git/config": "[core]\nhooksPath=:(optional)h\n"}, nil, []string{"h", ".git/h"}},
		"of a work tree's own":             {map[string]string{".git/config.worktree": "[core]\nhooksPath=h\n"}, nil, []string{"h", ".git/h"}},
		"a work tree below":                {map[string]string{".git/config": "[core]\nworktree=../w\nhooksPath=h\n"}, nil, []string{"w/h", ".git/h"}},
		"links":                            {map[string]string{".git": "-> real.git", "real.git/config": "-> TREE/conf", "real.git/hooks": "-> ../h", "conf": "[core]\nhooksPath=by/hooks\n", "by": "-> tools", "h/x": ""}, []string{"real.git"}, []string{"conf", "h", "by/hooks", "tools/hooks", "real.git/by/hooks"}},
		"in the git directory, too":        {map[string]string{".git/config": "[core]\nhooksPath=h\nfsmonitor=tools/watch\n[merge \"x\"]\ndriver=sh merge.sh refs/heads/m\n", "merge.sh": "", ".git/refs/heads/m": "", ".git/HEAD": ""}, nil, []string{"h", ".git/h", "tools/watch", ".git/tools/watch", "merge.sh", ".git/merge.sh", "refs/heads/m"}},
		"made there before":                {map[string]string{".git/config": "[core]\nhooksPath=h\n[alias]\nx=!sh run.sh HEAD index\n", ".git/h/x": "", ".git/run.sh": "", "run.sh": "", "HEAD": "", "index": "", ".git/HEAD": ""}, nil, []string{"h", ".git/h", "run.sh", ".git/run.sh", "HEAD", "index"}},
		"all of it in the directory of hooks": {map[string]string{
			".git/config": "[core]\nhooksPath=.\n", "pre-commit": "-> tools/check", "a": "",
		}, nil, append([]string{"tools/check"}, hooksIn("", ".git/")...)},
		"below the directory of hooks": {map[string]string{
			"deep/.git/config": "[core]\nhooksPath=TREE\n",
		}, nil, hooksIn("")},
		"with a git directory elsewhere": {map[string]string{
			"deep/sub/.git": "gitdir: ../../store/s\n", "store/s/config": "[core]\nhooksPath=h\n",
		}, []string{"store/s"}, []string{"deep/sub/h", "store/s/h"}},
		"repositories below": {map[string]string{
			"deep/sub/.git":                 "gitdir: ../../.git/modules/s\n",
			".git/modules/s/config":         "[core]\nhooksPath=h\nworktree=../../../deep/sub\n[alias]\nx=!./tools/x\n",
			"deep/.git/config":              "[core]\nhooksPath=g\n",
			"elsewhere/.git/config":         "[core]\nhooksPath=e\n",
			"deep/sub/dir/file/.git/config": "[core]\nhooksPath=f\n",
		}, nil, []string{"deep/sub/h", ".git/modules/s/h", "deep/sub/tools/x", ".git/modules/s/tools/x", "deep/g", "deep/.git/g"}},
		"a link to a file":    {map[string]string{".git": "-> f", "f": "gitdir: g", "g/config": "[core]\nhooksPath=h\n"}, []string{"f", "g"}, []string{"h", "g/h"}},
		"bare":                {map[string]string{"HEAD": "", "objects/x": "", "refs/x": "", "config": "[core]\nhooksPath=h\n"}, []string{""}, []string{"h"}},
		"links that lead out": {map[string]string{".git/config": "-> ../../outside/config", ".git/config.worktree": "[include]\npath=/etc/passwd\npath=../link\npath=../round\n", "link": "-> TREE/../outside/config", "round": "-> round"}, nil, []string{"link", "round"}},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			layOut(t, base, map[string]string{"outside/config": "[core]\nhooksPath=stolen\n"})
			tree := filepath.Join(base, "home", "project")
			layOut(t, tree, tt.files)
			got, err := gitPlaces(tree, "deep/sub/dir/file")
			slices.Sort(got.Files)
			slices.Sort(tt.named)
			if has := strings.HasPrefix(name, "repositories"); has != slices.Equal(got.Works, []string{"deep/sub", "deep"}) {
				t.Errorf("work trees at %q", got.Works)
			}
			if err != nil || !slices.Equal(got.Dirs, tt.dirs) || !slices.Equal(got.Files, tt.named) {
				t.Errorf("got %q, %q, %v, want %q, %q", got.Dirs, got.Files, err, tt.dirs, tt.named)
			}
		})
	}
}

// hooksIn are git's hooks in some directories.
func hooksIn(dirs ...string) (all []string) {
	for _, dir := range dirs {
		for _, hook := range gitHooks() {
			all = append(all, dir+hook)
		}
	}
	return all
}

// What cannot be read is not taken for what names nothing; what is not there is.
func TestGitPlacesUnread(t *testing.T) {
	big := strings.Repeat("#", maxGitConfig+1)
	for name, tt := range map[string]struct {
		files        map[string]string
		unread, want string
	}{
		"nothing":                {map[string]string{".git/config/x": ""}, "", ""},
		"the configuration":      {map[string]string{".git/config": ""}, ".git/config", "permission"},
		"the git directory":      {map[string]string{".git/config": ""}, ".git", "permission"},
		"what is included":       {map[string]string{".git/config": "[include]\npath=../x\n", "x": ""}, "x", "permission"},
		"where programs are":     {map[string]string{".git/config": "[core]\neditor=ed.sh\npager=tools/p", "tools/p": ""}, "tools", "permission"},
		"one that is large":      {map[string]string{".git/config": big}, "", "larger"},
		"too much that is named": {map[string]string{".git/config": "[core]\n" + strings.Repeat("hooksPath=a\n", 10) + manyHooks(maxGitNamed+1)}, "", "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.unread != "" && os.Getuid() == 0 {
				t.Skip("root reads everything")
			}
			tree, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			layOut(t, tree, tt.files)
			if tt.unread != "" {
				path := filepath.Join(tree, tt.unread)
				if err := os.Chmod(path, 0); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.Chmod(path, 0o700) })
			}
			_, err = gitPlaces(tree, "")
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// manyHooks are lines of configuration that name so many directories.
func manyHooks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "hooksPath=%d\n", i)
	}
	return b.String()
}

// A path below a home is found whoever's home it is in a sandbox.
func TestFromHome(t *testing.T) {
	for path, want := range map[string]string{"~/src/p/hooks": "/home/me/src/p/hooks", "~/other/hooks": "/home/me/src/p/~/other/hooks", "x": "/home/me/src/p/x", "/x": "/x"} {
		if got := from("/home/me/src/p", path); got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
}
