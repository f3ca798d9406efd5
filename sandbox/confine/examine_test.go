package confine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine/confinetest"
	"gander.dev/gander/sandbox/rules/policy"
)

// gitDriver makes sandboxes of a project.
type gitDriver struct{ dir string }

func (d gitDriver) Name() string { return "local" }

func (d gitDriver) Check(context.Context) error { return nil }

func (d gitDriver) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return &confinetest.Sandbox{Sandbox: plain{}, Dir: d.dir, Log: func(string, ...any) {}}, nil
}

// plain is a sandbox that keeps no rules and starts nothing.
type plain struct{ sandbox.Sandbox }

func (plain) Info() sandbox.Info { return sandbox.Info{Driver: "local", Home: "/home/agent"} }

func (plain) Close() error { return nil }

// gitIn runs git commands in a project.
func gitIn(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// TestTrackedFiles: closed files that git keeps are found wherever they are, and
// what the policy says happens.
func TestTrackedFiles(t *testing.T) {
	needGit(t)
	const start = "git init -q . && echo x > a && git add a && git commit -qm one && "
	for name, tt := range map[string]struct {
		script string
		want   []string
	}{
		"no repository":                  {"true", nil},
		"no commit":                      {"git init -q .", nil},
		"nothing closed":                 {start + "true", nil},
		"in the index":                   {start + "echo s > .env && git add .env", []string{".env"}},
		"in HEAD":                        {start + "mkdir d && echo s > d/.env && git add d && git commit -qm two", []string{"d/.env"}},
		"removed since":                  {start + "echo s > .env && git add .env && git commit -qm two && git rm -q .env && git commit -qm three", []string{".env"}},
		"on a branch":                    {start + "git checkout -qb b && echo s > .env && git add .env && git commit -qm two && git checkout -q -", []string{".env"}},
		"in a merge alone":               {start + "git checkout -qb b && echo y > b && git add b && git commit -qm two && git checkout -q - && echo z > c && git add c && git commit -qm three && git merge -q --no-commit b && echo s > .env && git add .env && git commit -qm merged && git rm -q .env && git commit -qm four", []string{".env"}},
		"in a merge alone, left out":     {start + "git config log.diffMerges off && git checkout -qb b && echo y > b && git add b && git commit -qm two && git checkout -q - && echo z > c && git add c && git commit -qm three && git merge -q --no-commit b && echo s > .env && git add .env && git commit -qm merged && git rm -q .env && git commit -qm four", []string{".env"}},
		"in a stash":                     {start + "echo s > .env && git add .env && git stash -q", []string{".env"}},
		"of an odd name":                 {start + "mkdir 'x\ny' && echo s > 'x\ny/.env' && git add . && git commit -qm two", []string{"x\ny/.env"}},
		"reset away":                     {start + "echo s > .env && git add .env && git commit -qm two && git reset -q --hard HEAD~1", []string{".env"}},
		"hidden by a replacement":        {start + "echo s > .env && git add .env && git commit -qm two && git replace HEAD HEAD~1", []string{".env"}},
		"in a tree that has a tag":       {start + "echo s > .env && git add .env && t=$(git write-tree) && git rm -q -f .env && git tag v1 $t", []string{".env"}},
		"in a tree, behind two tags":     {start + "echo s > .env && git add .env && t=$(git write-tree) && git rm -q -f .env && git tag -am one v1 $t && git tag -am two v2 v1 && git tag -d v1", []string{".env"}},
		"nothing, in what tags have":     {start + "git tag blob HEAD:a && git tag -am one b1 HEAD:a && git tag -am two b2 b1 && git tag tree HEAD^{tree} && git tag -am one c1 && git tag -am two c2 c1", nil},
		"in a clone below":               {start + "git init -q c/d && echo s > c/d/.env && git -C c/d add .env && git -C c/d commit -qm two && git -C c/d rm -q .env", []string{"c/d/.env"}},
		"in a submodule":                 {start + "mkdir .git/modules && git init -q --separate-git-dir=.git/modules/m m && echo s > m/.env && git -C m add .env && git -C m commit -qm two", []string{"m/.env"}},
		"in a linked work tree's index":  {start + "git worktree add -q w && echo s > w/.env && git -C w add .env", []string{"w/.env"}},
		"where the configuration lies":   {"git init -q c && git -C c config core.worktree /nowhere && echo s > c/.env && git --git-dir=c/.git --work-tree=c add .env", []string{"c/.env"}},
		"a program in the configuration": {"git init -q . && git config core.fsmonitor 'touch ran;' && git config core.hooksPath h && git config log.showSignature true && git config gpg.program ./ran && echo s > .env && git add -f .env && rm -f ran", []string{".env"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, sb := gitProject(t, tt.script, policy.GitWarn)
			found, err := e.Examine(t.Context(), sb)
			if err != nil {
				t.Fatal(err)
			}
			if got := found.survey.tracked; !slices.Equal(got.paths, tt.want) || got.partial || len(got.unknown) > 0 {
				t.Errorf("%+v, want %q", got, tt.want)
			}
			if said := found.survey.tracked.say(e.Git); (said != "") != (tt.want != nil) || strings.ContainsAny(said, "\n\x1b") {
				t.Errorf("the person is told %q", said)
			}
			if _, err := os.Lstat(filepath.Join(sb.Dir, "ran")); err == nil {
				t.Error("a program that the repository's configuration names was run")
			}
		})
	}
}

// gitProject makes a project, and a sandbox of it that is to be examined.
func gitProject(t *testing.T, script, git string) (Examination, *confinetest.Sandbox) {
	t.Helper()
	dir := t.TempDir()
	gitIn(t, dir, script)
	sb := &confinetest.Sandbox{Sandbox: plain{}, Dir: dir, Log: func(string, ...any) {}}
	spec := sandbox.Spec{ID: "test", WorkingDir: dir, Rules: &sandbox.Rules{GitStore: t.TempDir()}}
	return Examination{Driver: gitDriver{dir}, Spec: spec, StateDir: t.TempDir(), Git: git}, sb
}

// TestGitPolicies: refuse refuses, hide closes, and what is not known is not taken
// for good.
func TestGitPolicies(t *testing.T) {
	needGit(t)
	const clean, dirty, broken = "git init -q .", "git init -q . && echo s > .env && git add .env", "mkdir .git"
	for _, tt := range []struct {
		git, script string
		refused     bool
		closed      bool
	}{
		{policy.GitWarn, dirty, false, false},
		{policy.GitWarn, broken, false, false},
		{policy.GitRefuse, clean, false, false},
		{policy.GitRefuse, dirty, true, false},
		{policy.GitRefuse, broken, true, false},
		{policy.GitHide, clean, false, false},
		{policy.GitHide, broken, false, true},
	} {
		e, sb := gitProject(t, tt.script, tt.git)
		_, err := e.Examine(t.Context(), sb)
		if (err != nil) != tt.refused || sb.ClosedGit != tt.closed {
			t.Errorf("%s with %q: %v, closed: %v", tt.git, tt.script, err, sb.ClosedGit)
		}
		if Refused(err) != tt.refused {
			t.Errorf("that %v is the policy's refusal: %v", err, !tt.refused)
		}
		if tt.refused && !strings.Contains(err.Error(), `"git": `) {
			t.Errorf("the refusal does not say what to do: %v", err)
		}
	}
	// A sandbox that keeps no rules cannot keep these policies either.
	e, sb := gitProject(t, clean, policy.GitHide)
	if _, err := e.Examine(t.Context(), sb.Sandbox); err == nil {
		t.Error("a sandbox without rules hides")
	}
}

// TestUnreadConfiguration: nothing runs where it is not known what git's configuration
// names, also not later, unless the sandbox may be weaker, which says so.
func TestUnreadConfiguration(t *testing.T) {
	needGit(t)
	unread := errors.New("it cannot be read")
	for _, git := range []string{policy.GitWarn, policy.GitRefuse, policy.GitHide} {
		e, sb := gitProject(t, "git init -q .", git)
		now := unread
		sb.Unread = func() error { return now }
		if _, err := e.Protect(t.Context(), sb); !errors.Is(err, unread) {
			t.Errorf("%s: %v", git, err)
		}
		if _, err := e.Examine(t.Context(), sb); !errors.Is(err, unread) {
			t.Errorf("%s: %v", git, err)
		}
		now = nil
		found, err := e.Examine(t.Context(), sb)
		if err != nil {
			t.Fatal(err)
		}
		now = unread
		if _, err := found.Again(t.Context()); !errors.Is(err, unread) {
			t.Errorf("%s, again: %v", git, err)
		}
		e.Spec.Rules.Optional = true
		if found, err := e.Protect(t.Context(), sb); err != nil || len(found.Weaker()) != 1 || !strings.Contains(found.Weaker()[0], unread.Error()) {
			t.Errorf("%s, weaker: %+v, %v", git, found, err)
		}
		if found, err := e.Examine(t.Context(), sb); err != nil || !slices.Equal(found.Notices()[1:], found.Weaker()) {
			t.Errorf("%s, weaker: %v, %q", git, err, found.Notices())
		}
	}
}

// TestGitPoliciesOfMany: a repository below the project counts as the project's own, and
// one that cannot be asked is named, and keeps nothing that is known of others back.
func TestGitPoliciesOfMany(t *testing.T) {
	needGit(t)
	const below = "git init -q . && git init -q c && echo s > c/.env && git -C c add .env"
	const broken = " && git init -q lost && rm lost/.git/HEAD"
	for name, tt := range map[string]struct {
		git, script string
		tooMany     bool
		refused     string // all of this
		said        []string
	}{
		"warn":                        {policy.GitWarn, below, false, "", []string{"(c/.env)"}},
		"warn of what is unknown":     {policy.GitWarn, below + broken, false, "", []string{"(c/.env)", "not known", "in lost: "}},
		"warn of many":                {policy.GitWarn, below, true, "", []string{"(c/.env)", "not known", "more repositories"}},
		"refuse":                      {policy.GitRefuse, below, false, "(c/.env)", nil},
		"refuse what is unknown":      {policy.GitRefuse, "git init -q ." + broken, false, "in lost: ", nil},
		"refuse many":                 {policy.GitRefuse, "git init -q .", true, "more repositories", nil},
		"hide nothing":                {policy.GitHide, "git init -q . && git init -q c", false, "", nil},
		"hide what is unknown":        {policy.GitHide, below + broken, false, "", []string{"objects are closed", "in lost: "}},
		"hide many":                   {policy.GitHide, "git init -q .", true, "", []string{"objects are closed", "more repositories"}},
		"hide what is kept elsewhere": {policy.GitHide, below + " && mv c/.git/objects ../o && ln -s ../../../o c/.git/objects", false, "", []string{"objects are closed", "in c: git's objects are in "}},
	} {
		t.Run(name, func(t *testing.T) {
			e, sb := gitProject(t, tt.script, tt.git)
			sb.TooMany = tt.tooMany
			found, err := e.Examine(t.Context(), sb)
			if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Fatalf("%v, want %q", err, tt.refused)
			}
			said := found.survey.tracked.say(tt.git)
			if err == nil && (said != "") != (tt.said != nil) || sb.ClosedGit != strings.Contains(said, "objects are closed") {
				t.Errorf("the person is told %q, closed: %v", said, sb.ClosedGit)
			}
			for _, want := range tt.said {
				if !strings.Contains(said, want) {
					t.Errorf("%q does not say %q", said, want)
				}
			}
		})
	}
}

// TestSayGit: what is in the index or in HEAD is said, in any repository; histories are not
// looked at. The project was looked through when what git names was protected, and is not
// again unless that has failed.
func TestSayGit(t *testing.T) {
	needGit(t)
	const commit = "git -c user.name=x -c user.email=x@example.org commit -qm x"
	for name, tt := range map[string]struct {
		script, said string
		fails        bool
	}{
		"nothing":          {"git init -q . && touch a && git add a", "", false},
		"the index of two": {"git init -q . && git init -q c && touch c/.env .env && git add .env && git -C c add .env", "(.env, c/.env)", false},
		"HEAD alone":       {"git init -q . && touch .env && git add . && " + commit + " && git rm -q --cached .env", "(.env)", false},
		"a history":        {"git init -q . && touch .env a && git add . && " + commit + " && git rm -q --cached .env && " + commit, "", false},
		"one of a broken":  {"git init -q . && touch .env && git add .env && git init -q lost && rm lost/.git/HEAD", "(.env)", true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, unread := range []error{nil, errors.New("it cannot be read")} {
				e, sb := gitProject(t, tt.script, policy.GitWarn)
				sb.Unread = func() error { return unread }
				var asked []string
				sb.Log = func(text string, _ ...any) { asked = append(asked, text) }
				e.Spec.Rules.Optional = true
				found, err := e.Protect(t.Context(), sb)
				if err != nil {
					t.Fatal(err)
				}
				said, err := found.SayGit(t.Context(), sb)
				if (said != "") != (tt.said != "") || !strings.Contains(said, tt.said) || (err != nil) != tt.fails {
					t.Errorf("said %q, %v", said, err)
				}
				if again := slices.Contains(asked, "look for repositories"); again != (unread != nil) {
					t.Errorf("protected with %v, looked for repositories again: %v", unread, again)
				}
			}
		})
	}
	e, sb := gitProject(t, "git init -q .", policy.GitWarn)
	found, err := e.Protect(t.Context(), sb.Sandbox)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := found.SayGit(t.Context(), sb.Sandbox); said != "" || err != nil {
		t.Errorf("of a sandbox without rules it is said %q, %v", said, err)
	}
}

func needGit(t *testing.T) {
	t.Helper()
	switch _, err := exec.LookPath("git"); {
	case err == nil:
	case os.Getenv("GANDER_CHECK") == "1":
		t.Fatal("git is missing")
	default:
		t.Skip("git is missing")
	}
}
