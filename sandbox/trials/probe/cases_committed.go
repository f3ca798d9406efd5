package probe

// committedCases read what git keeps of closed files in a repository above the case's
// directory, and in a clone and a submodule in that: the content of .env, in a pack and loose, in commits, a stash, a reflog
// alone, a tag, and where nothing leads to. Whoever makes the sandbox hides it, as the
// policy's git "hide" does.
func committedCases() []Case {
	committed := func(id, script string, needs ...string) Case {
		return sh(id, `cd .. && export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat
everything() { git cat-file --batch-all-objects --batch; }
`+script, append(needs, "git")...)
	}
	return []Case{
		committed("git show", "git show HEAD~1:.env"),
		committed("git log -p", "git log -p --all"),
		committed("git log of the reflog", "git log -p -g"),
		committed("git diff", "git diff $(git rev-list --max-parents=0 HEAD) HEAD~1"),
		committed("git grep", "git grep -h -e . $(git rev-list --all) -- .env"),
		committed("git blame", "git blame -p HEAD~1 -- .env"),
		committed("git stash show", "git stash show -p"),
		committed("git archive", "git archive HEAD~1 .env | tar xO", "tar"),
		committed("git format-patch", "git format-patch --root --stdout HEAD"),
		committed("git fast-export", "git fast-export --all"),
		committed("a tag", "git show canary"),
		committed("the index of a commit", `export GIT_INDEX_FILE="$OUT/index"; git read-tree HEAD~1 && git checkout-index --prefix="$OUT/co/" -a; cat "$OUT/co/.env"`),
		committed("another work tree", `GIT_INDEX_FILE="$OUT/index" git --work-tree="$OUT" checkout -q HEAD~1 -- .env; cat "$OUT/.env"`),
		committed("git worktree", `git worktree add -q -f --detach "$OUT/tree" HEAD~1; cat "$OUT/tree/.env"; git worktree remove --force "$OUT/tree"`),
		committed("all objects", "everything"),
		committed("what nothing leads to", `for o in $(git fsck --unreachable --no-reflogs 2>/dev/null | cut -d " " -f 3); do git cat-file -p $o; done`),
		committed("an object's id", `git cat-file -p $(git ls-tree HEAD~1 .env | cut -c 13-52)`),
		committed("a tree with an open name", `git show $(git ls-tree HEAD~1 .env | sed s/.env$/plain/ | git mktree):plain`),
		committed("a commit with an open name", `export GIT_INDEX_FILE="$OUT/index"; git update-index --add --cacheinfo "100644,$(git ls-tree HEAD~1 .env | cut -c 13-52),plain" && git show :plain`),
		committed("git clone", `git clone -q --no-local --mirror . "$OUT/c"; git -C "$OUT/c" log -p --all`),
		committed("git clone by links", `git clone -q --mirror . "$OUT/c"; git -C "$OUT/c" log -p --all`),
		committed("git clone that shares", `git clone -q --shared --mirror . "$OUT/c"; git -C "$OUT/c" log -p --all`),
		committed("git bundle", `git bundle create -q "$OUT/b" --all; git clone -q --mirror "$OUT/b" "$OUT/c"; git -C "$OUT/c" log -p --all`),
		committed("git fetch", `git init -q --bare "$OUT/f"; git -C "$OUT/f" fetch -q "$PWD" "+refs/*:refs/*"; git -C "$OUT/f" log -p --all`),
		committed("alternates", `a="$PWD/.git/objects"; git init -q --bare "$OUT/g"; cd "$OUT/g"; GIT_ALTERNATE_OBJECT_DIRECTORIES="$a" everything`),
		committed("alternates by /proc", `git init -q --bare "$OUT/g"; export GIT_DIR="$OUT/g"; GIT_ALTERNATE_OBJECT_DIRECTORIES=/proc/self/cwd/.git/objects everything`),
		committed("the stores beside", `for d in $(cat .git/objects/info/alternates || echo "$PWD/.git/objects"); do git init -q --bare "$OUT/g"; GIT_DIR="$OUT/g" GIT_ALTERNATE_OBJECT_DIRECTORIES="$d" everything; done`),
		committed("a copy of the objects", `cp -r .git/objects "$OUT/o"; git init -q --bare "$OUT/g"; cd "$OUT/g"; GIT_OBJECT_DIRECTORY="$OUT/o" everything`),
		committed("a copy of the repository", `cp -r .git "$OUT/g"; export GIT_DIR="$OUT/g"; git gc -q; git log -p --all; everything`),
		{ID: "objects inflated", Do: "inflate", Needs: []string{"git"}},
		committed("a pack's bytes", `test -n "$(cat .git/objects/pack/*.pack | head -c 4)" && echo "$1"`),
		committed("a pack unpacked", `git init -q --bare "$OUT/g"; for p in .git/objects/pack/*.pack; do GIT_DIR="$OUT/g" git unpack-objects -q < "$p"; done; cd "$OUT/g"; everything`),
		committed("a hard link of a pack", `ln .git/objects/pack/*.pack .git/linked; test -n "$(head -c 4 .git/linked)" && echo "$1"; rm -f .git/linked`),
		committed("git show in a clone below", "git -C clone show HEAD~1:.env"),
		committed("git log -p in a clone below", "git -C clone log -p --all"),
		committed("all objects of a clone below", "cd clone && everything"),
		committed("a pack's bytes of a clone below", `test -n "$(cat clone/.git/objects/pack/*.pack | head -c 4)" && echo "$1"`),
		committed("alternates of a clone below", `git init -q --bare "$OUT/g"; GIT_DIR="$OUT/g" GIT_ALTERNATE_OBJECT_DIRECTORIES="$PWD/clone/.git/objects" everything`),
		committed("git log -p in a submodule", "git -C submodule log -p --all"),
		committed("all objects of a submodule", "cd submodule && everything"),
		committed("git log -p in a submodule's git directory", "git --git-dir=.git/modules/submodule log -p --all"),
		{ID: "objects of a clone below inflated", Do: "inflate clone", Needs: []string{"git"}},
		committed("a renamed pack directory", `mv .git/objects/pack .git/moved; test -n "$(cat .git/moved/*.pack | head -c 4)" && echo "$1"; mv .git/moved .git/objects/pack`),
	}
}
