package gitconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Git's data outside of a project counts where git itself made it, and leads back.
func TestFind(t *testing.T) {
	const layOut = `git init -q main; cd main; mkdir -p pkg/a; echo 1 > pkg/a/f; git add .; git commit -qm 1; git worktree add -q ../wt; cd ..
		git init -q --separate-git-dir=apart.git apart; git init -q super; git -C super submodule -q add "$PWD/main" sub; git clone -q --shared main alt; mkdir none; `
	for name, tt := range map[string]struct {
		do, project string
		want        Place
		left        string
	}{
		"a repository":               {"", "main", Place{}, ""},
		"a repository that signs":    {"git -C main config commit.gpgSign true", "wt", Place{Dir: "main/.git/worktrees/wt", Common: "main/.git", Signs: true}, ""},
		"no repository":              {"", "none", Place{}, ""},
		"a package":                  {"", "main/pkg/a", Place{Top: "main", Inner: "main/.git"}, ""},
		"a work tree":                {"", "wt", Place{Dir: "main/.git/worktrees/wt", Common: "main/.git"}, ""},
		"a package of a work tree":   {"", "wt/pkg/a", Place{Top: "wt", Dir: "main/.git/worktrees/wt", Common: "main/.git"}, ""},
		"a submodule":                {"", "super/sub", Place{Dir: "super/.git/modules/sub", Common: "super/.git/modules/sub"}, ""},
		"a git directory elsewhere":  {"", "apart", Place{Dir: "apart.git", Common: "apart.git"}, ""},
		"other stores of objects":    {"", "alt", Place{Objects: []string{"main/.git/objects"}}, ""},
		"another's repository":       {`echo "gitdir: $PWD/main/.git" > none/.git`, "none", Place{}, "does not lead back"},
		"another's work tree":        {`echo "gitdir: $PWD/main/.git/worktrees/wt" > none/.git`, "none", Place{}, "is the git directory of"},
		"another's submodule":        {`echo "gitdir: $PWD/super/.git/modules/sub" > none/.git`, "none", Place{}, "has another work tree"},
		"a bare repository":          {`git init -q --bare b.git; echo "gitdir: $PWD/b.git" > none/.git`, "none", Place{}, "does not lead back"},
		"over a link":                {`ln -s main/.git l; echo "gitdir: $PWD/l/worktrees/wt" > wt/.git`, "wt", Place{}, "a link on the way"},
		"a common directory of lies": {`mkdir -p x/w; echo "$PWD/none/.git" > x/w/gitdir; echo "$PWD/main/.git" > x/w/commondir; echo "gitdir: $PWD/x/w" > none/.git`, "none", Place{}, "is not one of the work trees"},
		"in a home":                  {`git init -q home; mkdir home/x`, "home/x", Place{}, ""},
		"in gander's own":            {`git init -q own; git -C own commit -q --allow-empty -m 1; git -C own worktree add -q ../ow`, "ow", Place{}, "gander's own"},
		"a store that is no store":   {`mkdir keys; echo "$PWD/keys" > alt/.git/objects/info/alternates`, "alt", Place{}, "no store of yours"},
		"a store that came later":    {`git init -q later; echo "$PWD/later/.git/objects" >> alt/.git/objects/info/alternates`, "alt", Place{Objects: []string{"main/.git/objects"}, Unknown: []string{"later/.git/objects"}}, "policy trust"},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-ec", layOut+tt.do)
			cmd.Dir = base
			cmd.Env = []string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + base, "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always", "GIT_CONFIG_KEY_1=init.defaultBranch", "GIT_CONFIG_VALUE_1=main",
				"GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.org",
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			at := func(path string) string { return filepath.Join(base, path) }
			got := Find(PlaceOptions{
				Project: at(tt.project), Private: []string{at("own")}, Homes: []string{at("home")},
				Known: func([]string) []string { return []string{at("main/.git/objects"), at("keys")} },
			})
			if left := strings.Join(got.Left, "\n"); (tt.left == "") != (left == "") || !strings.Contains(left, tt.left) {
				t.Errorf("left %q, want %q", left, tt.left)
			}
			got.Left = nil
			for _, path := range []*string{&got.Top, &got.Inner, &got.Dir, &got.Common} {
				*path = strings.TrimPrefix(*path, base+"/")
			}
			for _, all := range [][]string{got.Objects, got.Unknown} {
				for i := range all {
					all[i] = strings.TrimPrefix(all[i], base+"/")
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
