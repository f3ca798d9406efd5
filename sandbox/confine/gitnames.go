package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/policy"
)

// Bounds of looking into git: what it prints is made of what is in the repository.
const (
	historyTime  = 8 * time.Second  // for the history; index and HEAD come first
	maxGitOutput = 64 << 20         // bytes
	judgeAtOnce  = 2000             // paths
	maxTracked   = 100              // paths that are kept
	killTime     = 10 * time.Second // for git to be gone
)

// tracked is what git keeps of closed files.
type tracked struct {
	paths []string // a few of them at least
	// partial says that not all history was looked at in full, and unknown of which
	// repositories nothing is known, and why; both empty when there is none.
	partial bool
	unknown []string
	// shown says that git has a store without their content, where the policy hides it,
	// and closed why it has not, with all of its objects closed.
	shown  bool
	closed string
}

// findTracked asks git, inside the sandbox, for the names of all files that are in
// the index, in HEAD, or came to be in any commit that a reference, or its log,
// leads to, in each of a project's repositories. Nothing of the agent's runs yet. What
// git says is somebody else's words.
func findTracked(ctx context.Context, sb sandbox.Sandbox, keeper sandbox.RuleKeeper, repos sandbox.Repositories) (t tracked) {
	names := &naming{sb: sb, keeper: keeper, seen: map[string]bool{}}
	if repos.Partial {
		t.unknown = append(t.unknown, tooMany)
	}
	var histories []sandbox.Repository
	hasHead := map[sandbox.Repository]bool{} // there is none in a new repository
	for _, r := range repos.Found {
		head, err := names.now(ctx, r)
		if err != nil {
			t.unknown = append(t.unknown, inRepository(r, err).Error())
			continue
		}
		if hasHead[r] = head; !r.Linked {
			histories = append(histories, r)
		}
	}
	history, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	for _, r := range histories {
		err := names.ask(history, r, "log", "--all", "--reflog", "-m", "--name-only", "-z", "--format=", "--no-renames", "--diff-filter=AMT", "--root", "--no-relative")
		trees, err2 := taggedTrees(history, sb, r)
		for _, id := range trees {
			err2 = errors.Join(err2, names.ask(history, r, "ls-tree", "-r", "-z", "--full-tree", "--name-only", id))
		}
		t.partial = t.partial || errors.Join(err, err2) != nil && (hasHead[r] || history.Err() != nil)
	}
	slices.Sort(names.found)
	t.paths = names.found
	return t
}

// maxTaggedTrees bounds how many trees of references are looked at in a repository.
const maxTaggedTrees = 100

// taggedTrees are the trees that a repository's references lead to without a commit, as
// tags may: git log does not see them.
func taggedTrees(ctx context.Context, sb sandbox.Sandbox, r sandbox.Repository) (ids []string, err error) {
	var nested []string
	err = runGit(ctx, sb, gitCall{
		dir: r.Dir, args: []string{"for-each-ref", "--format=%(objecttype) %(objectname) %(*objecttype)"},
		output: func(out io.Reader) error {
			return eachLine(out, func(line string) error {
				fields := strings.Fields(line)
				switch {
				case len(fields) < 2 || !isObjectID(fields[1]):
					return errors.New("git's references are not to be understood")
				case fields[0] == "tree", len(fields) == 3 && fields[2] == "tree":
					ids = append(ids, fields[1])
				case len(fields) == 3 && fields[2] == "tag": // older git looks behind one tag only
					nested = append(nested, fields[1])
				}
				if len(ids)+len(nested) > maxTaggedTrees {
					return errors.New("more references lead to trees, or to tags of tags, than are looked at")
				}
				return nil
			})
		},
	})
	if err != nil {
		return nil, err
	}
	for _, id := range nested {
		kind := ""
		err := runGit(ctx, sb, gitCall{dir: r.Dir, args: []string{"cat-file", "-t", id + "^{}"}, output: func(out io.Reader) error {
			return eachLine(out, func(line string) error { kind = line; return nil })
		}})
		if err != nil {
			return nil, err
		}
		if kind == "tree" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// SayGit says what git keeps of closed files in the index and HEAD of the repositories of
// a sandbox's project, for whoever runs a command in it; empty when that is nothing.
// Histories, which take long, are not looked at, and the project is looked through for
// repositories only where Protect could not.
func (e *Examined) SayGit(ctx context.Context, sb sandbox.Sandbox) (string, error) {
	keeper, ok := sb.(sandbox.RuleKeeper)
	if !ok {
		return "", nil
	}
	repos := e.repositories
	if repos == nil {
		looked, err := keeper.Repositories(ctx)
		if err != nil {
			return "", err
		}
		repos = &looked
	}
	names := &naming{sb: sb, keeper: keeper, seen: map[string]bool{}}
	var errs []error
	for _, r := range repos.Found {
		if _, err := names.now(ctx, r); err != nil {
			errs = append(errs, inRepository(r, err))
		}
	}
	if repos.Partial {
		errs = append(errs, errors.New(tooMany))
	}
	slices.Sort(names.found)
	return strings.Join(tracked{paths: names.found}.sayFound(), " "), errors.Join(errs...)
}

// tooMany is why not all repositories of a project are known.
const tooMany = "the project has more repositories, or files, than are looked through"

// inRepository says in which repository something failed, but for the project's own.
func inRepository(r sandbox.Repository, err error) error {
	if r.Tree == "." {
		return err
	}
	return fmt.Errorf("in %s: %w", Printable(r.Tree), err)
}

// naming finds closed files among the names that git prints.
type naming struct {
	sb     sandbox.Sandbox
	keeper sandbox.RuleKeeper
	seen   map[string]bool
	found  []string
}

// now judges the names in a repository's index and HEAD, which a new one has not.
func (n *naming) now(ctx context.Context, r sandbox.Repository) (head bool, err error) {
	if n.ask(ctx, r, "ls-files", "-z", "--cached", "--with-tree=HEAD") == nil {
		return true, nil
	}
	return false, n.ask(ctx, r, "ls-files", "-z", "--cached")
}

// ask judges the names that a command of git's prints in a repository.
func (n *naming) ask(ctx context.Context, r sandbox.Repository, args ...string) error {
	var batch []string
	judge := func() error {
		closed, err := n.keeper.Judge(ctx, batch)
		if err != nil {
			return err
		}
		for i, yes := range closed {
			if yes && len(n.found) < maxTracked {
				n.found = append(n.found, batch[i])
			}
		}
		batch = batch[:0]
		return nil
	}
	err := gitInside(ctx, n.sb, gitCall{dir: r.Dir, args: args}, func(name string) error {
		if name = inProject(r, name); n.seen[name] {
			return nil
		}
		n.seen[name] = true
		if batch = append(batch, name); len(batch) < judgeAtOnce {
			return nil
		}
		return judge()
	})
	if err2 := judge(); err == nil {
		err = err2
	}
	return err
}

// inProject is a path of a repository's, as the repository has its own: relative to the
// project, or absolute.
func inProject(r sandbox.Repository, path string) string {
	if r.Tree == "." {
		return path
	}
	return r.Tree + "/" + path
}

// gitInside runs git in the sandbox and passes on the names that it prints.
func gitInside(ctx context.Context, sb sandbox.Sandbox, call gitCall, each func(name string) error) error {
	call.output = func(r io.Reader) error {
		return eachToken(r, maxGitOutput, func(t string) error {
			if t = strings.TrimLeft(t, "\n"); t == "" {
				return nil
			}
			return each(t)
		})
	}
	return runGit(ctx, sb, call)
}

// gitCall is a command of git's.
type gitCall struct {
	dir       string // the repository's git directory; nothing else is taken for one
	args, env []string
	stdin     io.Reader             // nil for none
	output    func(io.Reader) error // reads what it prints; its error ends git
}

// runGit runs git in the sandbox, so that no configuration but the repository's counts,
// nothing is started and nothing is written but what the command says.
func runGit(ctx context.Context, sb sandbox.Sandbox, call gitCall) error {
	info := sb.Info()
	env := info.Environment(append(sandbox.PlainEnvironment(info.Home),
		"LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_PAGER=cat",
	))
	command := append([]string{
		"git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false", "-c", "log.diffMerges=separate",
		"--git-dir=" + call.dir, "--work-tree=.", // which its configuration would name else
	}, call.args...)
	p, err := sb.Start(ctx, sandbox.Command{Args: command, Env: append(env, call.env...), NullStdin: call.stdin == nil})
	if err != nil {
		return fmt.Errorf("git cannot be asked in the sandbox: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
		defer cancel()
		_ = p.Kill(ctx)
	}()
	stop := context.AfterFunc(ctx, func() { _ = p.Kill(context.WithoutCancel(ctx)) })
	defer stop()
	errs := make(chan []byte, 1)
	go func() { // ends with git
		text, _ := io.ReadAll(io.LimitReader(p.Stderr(), 1<<10))
		_, _ = io.Copy(io.Discard, p.Stderr())
		errs <- text
	}()
	fed := make(chan error, 1)
	go func() { // ends with git, or with what it reads
		var err error
		if call.stdin != nil {
			_, err = io.Copy(p.Stdin(), call.stdin)
			_ = p.Stdin().Close()
		}
		fed <- err
	}()
	if err := call.output(p.Stdout()); err != nil {
		return err
	}
	status, err := p.Wait(ctx)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case status.Code != 0:
		return fmt.Errorf("git %s failed: %s", call.args[0], Printable(string(bytes.TrimSpace(<-errs))))
	}
	return <-fed
}

// eachToken passes on what git separates by zero bytes, of so many bytes at most.
func eachToken(r io.Reader, most int, each func(string) error) error {
	var rest []byte
	buf := make([]byte, 64<<10)
	for read := 0; ; {
		n, err := r.Read(buf)
		read += n
		rest = append(rest, buf[:n]...)
		for {
			token, after, ok := bytes.Cut(rest, []byte{0})
			if !ok {
				break
			}
			if err := each(string(token)); err != nil {
				return err
			}
			rest = after
		}
		switch {
		case read >= most || len(rest) > 1<<16:
			return errors.New("git says more than is looked at")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// notices is say as a list.
func (t tracked) notices(git string) []string {
	if text := t.say(git); text != "" {
		return []string{text}
	}
	return nil
}

// say is what the person is told about closed files that git keeps, where a policy's
// git is as given.
func (t tracked) say(git string) string {
	hidden := git == policy.GitHide
	switch {
	case hidden && t.closed != "":
		return "What git keeps of files that rules close could not be left out of what the agent sees (" + Printable(t.closed) + "), so all of git's objects are closed: git log, diff and commit do not work inside."
	case hidden && t.shown:
		return hiddenSay(t)
	case len(t.unknown) > 0 && hidden:
		return "It is not known whether git keeps content of closed files (" + SomeOf(t.unknown, len(t.unknown)) + "), so git's objects are closed: git log, diff and commit do not work inside."
	}
	said := t.sayFound()
	if len(t.unknown) > 0 {
		said = append(said, "It is not known whether git keeps content of files that rules close: "+SomeOf(t.unknown, len(t.unknown))+".")
	}
	return strings.Join(said, " ")
}

// sayFound is say about what is known, where git is not hidden.
func (t tracked) sayFound() []string {
	switch {
	case len(t.paths) > 0:
		return []string{fmt.Sprintf("Git keeps content of files that rules close (%s): what runs in the sandbox can read it from git's objects. To keep it from that, set \"policy\": {\"git\": \"hide\"} or \"refuse\", or remove the files from git's history.", SomeOf(t.paths, len(t.paths)))}
	case t.partial:
		return []string{"Git keeps no content of closed files in its index and HEAD; the history is too long to have been looked at in full."}
	}
	return nil
}

// hiddenSay is say where git works without the content of closed files.
func hiddenSay(t tracked) string {
	what := "whose history is long"
	if len(t.paths) > 0 {
		what = SomeOf(t.paths, len(t.paths))
	}
	return fmt.Sprintf("Git keeps content of files that rules close (%s). Inside, git works without it: what would show it fails (\"Permission denied\", \"unable to read\"), as do gc and clone, and what you commit meanwhile is there from the next prompt, or iteration of a loop, on.", what)
}
