//go:build unix

package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// commitScript makes a repository of which git keeps the content of .env, $1, in every
// way that it has, and the work tree has nothing; $2, when it is there, is for its git
// directory.
const commitScript = `git init -q --template= ${2:+--separate-git-dir="$2"} . && echo "$1" > .env && echo one > open && git add -f .env open && git commit -qm one &&
echo "$1 again" > .env && git commit -qam two && echo "$1 stashed" > .env && git stash -q && echo "$1 lost" > .env && git commit -qam lost && git reset -q --hard HEAD~1 &&
git gc -q && echo "$1 loose" > .env && git commit -qam three && git tag canary HEAD:.env && echo "$1 nowhere" | git hash-object -w --stdin >/dev/null &&
git rm -q --cached .env && rm .env && git commit -qm four`

// committedTrees are the work trees of the repositories below a directory of the
// probe's own, with the git directories of those that have theirs elsewhere: it is one
// itself, has a clone, and what git makes of a submodule.
func committedTrees() [][2]string {
	return [][2]string{{".", ""}, {"clone", ""}, {"submodule", ".git/modules/submodule"}}
}

// commit makes a directory of the probe's own a repository with others in it, if there
// is git, before anything has run that could have put something into it.
func (r *run) commit(dir string, owner int) error {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil //nolint:nilerr // the cases say that they need it
	}
	for _, at := range committedTrees() {
		tree, gitDir := filepath.Join(dir, at[0]), at[1]
		if err := os.MkdirAll(tree, 0o755); err != nil {
			return err
		}
		if gitDir != "" {
			gitDir = filepath.Join(dir, gitDir)
			if err := os.MkdirAll(filepath.Dir(gitDir), 0o755); err != nil {
				return err
			}
		}
		cmd := exec.Command(r.shell[0], "-c", commitScript, "probe", r.secret, gitDir)
		cmd.Dir = tree
		cmd.Env = []string{
			"PATH=" + filepath.Dir(git) + ":" + searchPath, "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=probe", "GIT_AUTHOR_EMAIL=probe@localhost", "GIT_COMMITTER_NAME=probe", "GIT_COMMITTER_EMAIL=probe@localhost",
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("making a repository: %w: %s", err, out)
		}
	}
	if owner < 0 || os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, owner, owner))
	})
}

// showCommitted has git show what it may: where git does not work at all, nothing that
// it does not show would prove anything.
func (r *run) showCommitted(ctx context.Context) error {
	if _, err := os.Lstat(r.dir("project/.git")); err != nil || slices.Contains(r.absent, "git") {
		return nil //nolint:nilerr // there is no git
	}
	for _, at := range committedTrees() {
		out, err := r.inside(ctx, []string{"git", "-C", at[0], "show", "HEAD:open", "HEAD~3:open"}, r.dir("project"), []string{"GIT_CONFIG_NOSYSTEM=1"}, timeLimit)
		if err != nil || string(out) != "one\none\n" {
			return fmt.Errorf("git does not work in the sandbox (%s), so that nothing it hides would prove anything: %q, %v", at[0], out, err)
		}
	}
	return nil
}
