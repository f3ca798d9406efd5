package router

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/policy"
)

// gitSandbox is a sandbox that runs git here and closes files called ".env".
type gitSandbox struct {
	*fakeSandbox
	closedGit bool
	tooMany   bool // repositories
	unread    func() error
}

func (s *gitSandbox) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = s.spec.WorkingDir, c.Env
	p := &gitProcess{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.errs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = cmd.Wait()
	close(p.done)
	return p, nil
}

func (s *gitSandbox) Closed(context.Context) (sandbox.ClosedFiles, error) {
	return sandbox.ClosedFiles{Count: 2, Examples: []string{".env", "evil\x1b[31m"}}, nil
}

func (s *gitSandbox) Judge(_ context.Context, paths []string) ([]bool, error) {
	out := make([]bool, len(paths))
	for i, p := range paths {
		out[i] = filepath.Base(p) == ".env" || filepath.Base(p) == "linked"
	}
	return out, nil
}

func (s *gitSandbox) MayWrite(_ context.Context, path string) (bool, error) {
	return filepath.Base(path) != "named", nil
}

func (s *gitSandbox) ProtectNamed(ctx context.Context) (sandbox.Repositories, error) {
	s.d.journal.add("protect named")
	if s.unread != nil && s.unread() != nil {
		return sandbox.Repositories{}, s.unread()
	}
	return s.repositories()
}

func (s *gitSandbox) Repositories(context.Context) (sandbox.Repositories, error) {
	s.d.journal.add("look for repositories")
	return s.repositories()
}

func (s *gitSandbox) repositories() (found sandbox.Repositories, err error) {
	found.Partial = s.tooMany
	return found, filepath.WalkDir(s.spec.WorkingDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != ".git" {
			return err
		}
		dir, _ := filepath.Rel(s.spec.WorkingDir, path)
		found.Found = append(found.Found, sandbox.Repository{Dir: dir, Tree: filepath.Dir(dir)})
		return fs.SkipDir
	})
}

func (s *gitSandbox) CloseGit(context.Context) (uint64, error) {
	s.closedGit = true
	return 1, nil
}

func (s *gitSandbox) OpenGit(context.Context, uint64, map[string]string) error {
	s.closedGit = false
	return nil
}

func (s *gitSandbox) GitChanged(context.Context) (bool, error) { return false, nil }

// gitDriver makes that sandbox again.
type gitDriver struct {
	*fakeDriver
	sb *gitSandbox
}

func (d gitDriver) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return &gitSandbox{fakeSandbox: &fakeSandbox{d: d.fakeDriver, spec: d.sb.spec, done: make(chan struct{})}}, nil
}

// gitProcess is a process that has ended.
type gitProcess struct {
	cmd       *exec.Cmd
	done      chan struct{}
	out, errs bytes.Buffer
}

func (p *gitProcess) PID() int                             { return p.cmd.Process.Pid }
func (p *gitProcess) Stdin() io.WriteCloser                { return discardCloser{io.Discard} }
func (p *gitProcess) Stdout() io.Reader                    { return &p.out }
func (p *gitProcess) Stderr() io.Reader                    { return &p.errs }
func (p *gitProcess) Signal(context.Context, string) error { return nil }
func (p *gitProcess) Kill(context.Context) error           { return nil }
func (p *gitProcess) Wait(context.Context) (sandbox.ExitStatus, error) {
	return sandbox.ExitStatus{Code: p.cmd.ProcessState.ExitCode()}, nil
}

type discardCloser struct{ io.Writer }

func (discardCloser) Close() error { return nil }

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
			b, sb := gitBackend(t, tt.script, policy.GitWarn)
			if err := b.examine(); err != nil {
				t.Fatal(err)
			}
			if got := b.examined.survey.tracked; !slices.Equal(got.paths, tt.want) || got.partial || len(got.unknown) > 0 {
				t.Errorf("%+v, want %q", got, tt.want)
			}
			if said := b.examined.survey.tracked.say(b.policy.Git); (said != "") != (tt.want != nil) || strings.ContainsAny(said, "\n\x1b") {
				t.Errorf("the person is told %q", said)
			}
			if _, err := os.Lstat(filepath.Join(sb.spec.WorkingDir, "ran")); err == nil {
				t.Error("a program that the repository's configuration names was run")
			}
		})
	}
}

func gitBackend(t *testing.T, script, git string) (*backend, *gitSandbox) {
	t.Helper()
	dir := t.TempDir()
	gitIn(t, dir, script)
	d := &fakeDriver{name: "local", journal: &journal{}}
	sb := &gitSandbox{fakeSandbox: &fakeSandbox{d: d, spec: sandbox.Spec{WorkingDir: dir}, done: make(chan struct{})}}
	s := &session{cwd: dir, r: &Router{opts: Options{StateDir: t.TempDir()}}}
	b := &backend{s: s, driver: gitDriver{d, sb}, sb: sb, ctx: t.Context(), policy: SandboxPolicy{Policy: policy.Default()}}
	b.made = sandbox.Spec{ID: "test", WorkingDir: dir, Rules: &sandbox.Rules{GitStore: t.TempDir()}}
	b.policy.Git = git
	t.Cleanup(s.work.Wait)
	return b, sb
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
		b, sb := gitBackend(t, tt.script, tt.git)
		err := b.examine()
		if (err != nil) != tt.refused || sb.closedGit != tt.closed {
			t.Errorf("%s with %q: %v, closed: %v", tt.git, tt.script, err, sb.closedGit)
		}
		if Refused(err) != tt.refused {
			t.Errorf("that %v is the policy's refusal: %v", err, !tt.refused)
		}
		if tt.refused && !strings.Contains(err.Error(), `"git": `) {
			t.Errorf("the refusal does not say what to do: %v", err)
		}
	}
	// A sandbox that keeps no rules cannot keep these policies either.
	b, sb := gitBackend(t, clean, policy.GitHide)
	b.sb = sb.fakeSandbox
	if err := b.examine(); err == nil {
		t.Error("a sandbox without rules hides")
	}
}

// TestUnreadConfiguration: nothing runs where it is not known what git's configuration
// names, also not later, unless the sandbox may be weaker, which says so.
func TestUnreadConfiguration(t *testing.T) {
	needGit(t)
	unread := errors.New("it cannot be read")
	for _, git := range []string{policy.GitWarn, policy.GitRefuse, policy.GitHide} {
		b, sb := gitBackend(t, "git init -q .", git)
		now := unread
		sb.unread = func() error { return now }
		e := Examination{Driver: b.driver, Spec: b.made, StateDir: t.TempDir(), Git: git}
		if _, err := e.Protect(t.Context(), sb); !errors.Is(err, unread) {
			t.Errorf("%s: %v", git, err)
		}
		if err := b.examine(); !errors.Is(err, unread) {
			t.Errorf("%s: %v", git, err)
		}
		now = nil
		if err := b.examine(); err != nil {
			t.Fatal(err)
		}
		now = unread
		if _, err := b.examined.Again(t.Context()); !errors.Is(err, unread) {
			t.Errorf("%s, again: %v", git, err)
		}
		b.made.Rules.Optional = true
		if found, err := e.Protect(t.Context(), sb); err != nil || len(found.Weaker()) != 1 || !strings.Contains(found.Weaker()[0], unread.Error()) {
			t.Errorf("%s, weaker: %+v, %v", git, found, err)
		}
		if err := b.examine(); err != nil || !slices.Equal(b.examined.Notices()[1:], b.examined.Weaker()) {
			t.Errorf("%s, weaker: %v, %q", git, err, b.examined.Notices())
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
			b, sb := gitBackend(t, tt.script, tt.git)
			sb.tooMany = tt.tooMany
			err := b.examine()
			if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Fatalf("%v, want %q", err, tt.refused)
			}
			said := b.examined.survey.tracked.say(tt.git)
			if err == nil && (said != "") != (tt.said != nil) || sb.closedGit != strings.Contains(said, "objects are closed") {
				t.Errorf("the person is told %q, closed: %v", said, sb.closedGit)
			}
			for _, want := range tt.said {
				if !strings.Contains(said, want) {
					t.Errorf("%q does not say %q", said, want)
				}
			}
		})
	}
}

// TestRefusedPrompt: a client can tell a prompt that the policy refuses from one that failed.
func TestRefusedPrompt(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opts.Policy = func(string) (SandboxPolicy, error) {
			p := policy.Default()
			p.Git = policy.GitRefuse // which a sandbox without rules cannot keep
			return SandboxPolicy{Policy: p}, nil
		}
	})
	_, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: r.open(t).SessionID, Prompt: []acp.ContentBlock{acp.TextBlock("go")}})
	if !Refused(err) || !strings.Contains(err.Error(), "cannot be kept") {
		t.Errorf("%v is no refusal", err)
	}
	if Refused(acp.Internal("it failed", nil)) || Refused(nil) {
		t.Error("everything is a refusal")
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
				b, sb := gitBackend(t, tt.script, policy.GitWarn)
				sb.unread = func() error { return unread }
				b.made.Rules.Optional = true
				found, err := (Examination{Driver: b.driver, Spec: b.made, Git: policy.GitWarn}).Protect(t.Context(), sb)
				if err != nil {
					t.Fatal(err)
				}
				said, err := found.SayGit(t.Context(), sb)
				if (said != "") != (tt.said != "") || !strings.Contains(said, tt.said) || (err != nil) != tt.fails {
					t.Errorf("said %q, %v", said, err)
				}
				if again := slices.Contains(sb.d.journal.all(), "look for repositories"); again != (unread != nil) {
					t.Errorf("protected with %v, looked for repositories again: %v", unread, again)
				}
			}
		})
	}
	b, sb := gitBackend(t, "git init -q .", policy.GitWarn)
	found, err := (Examination{Driver: b.driver, Spec: b.made, Git: policy.GitWarn}).Protect(t.Context(), sb.fakeSandbox)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := found.SayGit(t.Context(), sb.fakeSandbox); said != "" || err != nil {
		t.Errorf("of a sandbox without rules it is said %q, %v", said, err)
	}
}

// TestPolicyIsSaid: the first thing that a session says is what the agent does not
// see, with names that somebody else chose made harmless; once.
func TestPolicyIsSaid(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opts.Policy = func(string) (SandboxPolicy, error) {
			p := policy.Default()
			p.Network.Presets = []string{"go"}
			return SandboxPolicy{Policy: p, Refused: []policy.Request{{Key: "network.allow", Value: "evil\x1b.example:443"}}}, nil
		}
	})
	s, err := r.router.session(r.open(t).SessionID)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	before := len(s.pending)
	s.mu.Unlock()
	b := &backend{s: s, driver: r.opts.Drivers[0], examined: &Examined{survey: &survey{closed: sandbox.ClosedFiles{Count: 7, Examples: []string{"a", "b\x1b", "c", "d"}}}}}
	if err := b.readPolicy(); err != nil {
		t.Fatal(err)
	}
	b.sayPolicy()
	b.sayPolicy()
	s.mu.Lock()
	said := s.pending[before:]
	s.mu.Unlock()
	if len(said) != 2 {
		t.Fatalf("said %d things: %+v", len(said), said)
	}
	for i, want := range [][]string{
		{"the hosts of the policy can be reached besides the model (go)", `.gooseignore closes 7 files and directories (a, "b\x1b", c, …)`, "git's configuration and hooks", "gander policy show"},
		{`network.allow: evil`, "gander policy trust"},
	} {
		for _, w := range want {
			if !strings.Contains(said[i].text, w) || strings.Contains(said[i].text, "\x1b") {
				t.Errorf("%q does not say %q", said[i].text, w)
			}
		}
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
