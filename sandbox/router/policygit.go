package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/policy"
)

// Bounds of looking into git: what it prints is made of what is in the repository.
const (
	historyTime  = 8 * time.Second // for the history; index and HEAD come first
	maxGitOutput = 64 << 20        // bytes
	judgeAtOnce  = 2000            // paths
	maxTracked   = 100             // paths that are kept
)

// tracked is what git keeps of closed files.
type tracked struct {
	paths []string // a few of them at least
	// partial says that the history was not looked at in full, and unknown why
	// nothing is known; both empty when there is no repository.
	partial bool
	unknown string
	// shown says that git has a store without their content, where the policy hides it,
	// and closed why it has not, with all of its objects closed.
	shown  bool
	closed string
}

// findTracked asks git, inside the sandbox, for the names of all files that are in
// the index, in HEAD, or came to be in any commit that a reference, or its log,
// leads to. Nothing of the agent's runs yet. What git says is somebody else's words.
func findTracked(ctx context.Context, sb sandbox.Sandbox, cwd string, keeper sandbox.RuleKeeper) (t tracked) {
	if !isRepository(cwd) {
		return t
	}
	seen := map[string]bool{}
	var found []string
	ask := func(ctx context.Context, args ...string) error {
		var batch []string
		judge := func() error {
			closed, err := keeper.Judge(ctx, batch)
			if err != nil {
				return err
			}
			for i, yes := range closed {
				if yes && len(found) < maxTracked {
					found = append(found, batch[i])
				}
			}
			batch = batch[:0]
			return nil
		}
		err := gitInside(ctx, sb, args, func(name string) error {
			if seen[name] {
				return nil
			}
			seen[name] = true
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
	if err := ask(ctx, "ls-files", "-z", "--cached"); err != nil {
		t.unknown = err.Error()
		return t
	}
	noHead := ask(ctx, "ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD") // there is none in a new repository
	history, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	err := ask(history, "log", "--all", "--reflog", "-m", "--name-only", "-z", "--format=", "--no-renames", "--diff-filter=AMT", "--root", "--no-relative")
	t.partial = err != nil && (noHead == nil || history.Err() != nil)
	slices.Sort(found)
	t.paths = found
	return t
}

// isRepository reports whether a project may be a git repository; nothing of it is
// read.
func isRepository(dir string) bool {
	for _, name := range []string{".git", "objects"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// gitInside runs git in the sandbox and passes on the names that it prints.
func gitInside(ctx context.Context, sb sandbox.Sandbox, args []string, each func(name string) error) error {
	return runGit(ctx, sb, gitCall{args: args, output: func(r io.Reader) error {
		return eachToken(r, maxGitOutput, func(t string) error {
			if t = strings.TrimLeft(t, "\n"); t == "" {
				return nil
			}
			return each(t)
		})
	}})
}

// gitCall is a command of git's.
type gitCall struct {
	args, env []string
	stdin     io.Reader             // nil for none
	output    func(io.Reader) error // reads what it prints; its error ends git
}

// runGit runs git in the sandbox, so that no configuration but the repository's counts,
// nothing is started and nothing is written but what the command says.
func runGit(ctx context.Context, sb sandbox.Sandbox, call gitCall) error {
	info := sb.Info()
	env := info.Environment([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "HOME=" + info.Home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_PAGER=cat",
	})
	command := append([]string{
		"git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false",
	}, call.args...)
	p, err := sb.Start(ctx, sandbox.Command{Args: command, Env: append(env, call.env...), NullStdin: call.stdin == nil})
	if err != nil {
		return fmt.Errorf("git cannot be asked in the sandbox: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settingTime)
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
		return fmt.Errorf("git %s failed: %s", call.args[0], printable(string(bytes.TrimSpace(<-errs))))
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
		return "What git keeps of files that .gooseignore closes could not be left out of what the agent sees (" + printable(t.closed) + "), so all of git's objects are closed: git log, diff and commit do not work inside."
	case hidden && t.shown:
		return hiddenSay(t)
	case t.unknown != "" && hidden:
		return "It is not known whether git keeps content of closed files (" + printable(t.unknown) + "), so git's objects are closed: git log, diff and commit do not work inside."
	case t.unknown != "":
		return "It is not known whether git keeps content of files that .gooseignore closes: " + printable(t.unknown) + "."
	case len(t.paths) == 0 && t.partial:
		return "Git keeps no content of closed files in its index and HEAD; the history is too long to have been looked at in full."
	case len(t.paths) == 0:
		return ""
	}
	return fmt.Sprintf("Git keeps content of files that .gooseignore closes (%s): the agent can read it from git's objects. To keep it from that, set \"policy\": {\"git\": \"hide\"} or \"refuse\", or remove the files from git's history.", someOf(t.paths, len(t.paths)))
}

// hiddenSay is say where git works without the content of closed files.
func hiddenSay(t tracked) string {
	what := "whose history is long"
	if len(t.paths) > 0 {
		what = someOf(t.paths, len(t.paths))
	}
	return fmt.Sprintf("Git keeps content of files that .gooseignore closes (%s). Inside, git works without it: what would show it fails (\"Permission denied\", \"unable to read\"), as do gc and clone, and what you commit meanwhile is there from the next prompt on.", what)
}
