package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/rules/project"
)

// Agents that are offered the editor's file system ask it for the text of files, and
// for edits. The person's unsaved text is there, and edits can be reviewed. But the
// editor works on this machine, with the person's rights: what it is asked for must
// be a file of the project by a path that leads through no link, and one that the
// rules leave open. Everything else is read and written inside the sandbox, where
// the kernel decides as it does for any program there.

// The methods of the editor's file system.
const (
	methodReadTextFile  = "fs/read_text_file"
	methodWriteTextFile = "fs/write_text_file"
)

const (
	// editorTime bounds an answer of the editor. Nothing inside can rename meanwhile.
	editorTime = 10 * time.Second
	// maxText bounds the text of a file that passes through, in bytes.
	maxText = 8 << 20
	// maxPath bounds a path that is asked for: systems have none that are longer.
	maxPath = 32 << 10
)

// errNotEditors says that a file is not to be had from the editor: it is for the
// sandbox to read or write.
var errNotEditors = errors.New("the editor does not serve this file")

// closedError says that rules close a file.
type closedError struct{ path string }

func (e *closedError) Error() string {
	return fmt.Sprintf("Access to '%s' is restricted by .gooseignore", e.path)
}

// editorFiles knows which files of a sandbox's the editor may be asked for.
type editorFiles struct {
	b *backend

	// mu guards places.
	mu     sync.Mutex
	places []*place // made when they are needed first
}

// place is a directory that the sandbox shows of the session's.
type place struct {
	path, real string // as the session has it, and without links
	onlyRead   bool
	rules      *ignore.Set
	protected  *policy.Protection
}

// A placed is a path that is in a place: the path relative to it.
type placed struct {
	*place
	rel string
}

// find returns the places that a path is in, the innermost last: what one of them
// closes is closed.
func (f *editorFiles) find(path string) ([]placed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.places == nil {
		for _, dir := range append([]string{f.b.s.cwd}, f.b.s.dirs...) {
			p, err := f.b.newPlace(dir)
			if err != nil {
				return nil, err
			}
			f.places = append(f.places, p)
		}
	}
	var found []placed
	for _, p := range f.places {
		for _, root := range []string{p.path, p.real} {
			rel, err := filepath.Rel(root, path)
			if err == nil && rel != "." && filepath.IsLocal(rel) {
				found = append(found, placed{p, rel})
				break
			}
		}
	}
	if len(found) == 0 {
		return nil, errNotEditors
	}
	slices.SortStableFunc(found, func(a, b placed) int { return len(a.real) - len(b.real) })
	return found, nil
}

// newPlace takes a directory with the rules and the policy that its sandbox has.
func (b *backend) newPlace(dir string) (*place, error) {
	s := b.s
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	p := &place{path: dir, real: real, onlyRead: b.reads || dir != s.cwd && s.r.onlyRead(dir)}
	if p.protected, err = supervise.Protection(real, "", b.place.Policy.Writes); err != nil {
		return nil, err
	}
	o := ignore.SetOptions{Root: real, Shared: true, Logger: s.log}
	if r := s.r.opts.Terms.Rules(); r != nil {
		o.Global = r.Own
	}
	p.rules, err = ignore.NewSet(o)
	return p, err
}

// check says whether a file may be asked for, and its path without links. Nothing
// inside renames or links meanwhile.
func (p placed) check(write bool) (string, error) {
	rel, real := p.rel, filepath.Join(p.real, p.rel)
	if err := p.rules.Closed(); err != nil || p.rules.Ignored(real, false) {
		return "", &closedError{real}
	}
	slashed := filepath.ToSlash(rel)
	if _, ok := p.protected.Protects(slashed); write && (ok || p.onlyRead) {
		return "", errNotEditors
	}
	if p.protected.InGit(slashed) { // the policy's git may close it
		return "", errNotEditors
	}
	at := p.real
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return real, nil // and nothing below it
		case err != nil:
			return "", errNotEditors
		case at == real && (!info.Mode().IsRegular() || project.Links(info) != 1): // a second name may be one of a closed file
			return "", errNotEditors
		case at != real && !info.IsDir():
			return "", errNotEditors
		}
	}
	return real, nil
}

// reach calls do with the path of a file that the editor may be asked for, while
// nothing inside can make it lead elsewhere.
func (b *backend) reach(ctx context.Context, path string, write bool, do func(ctx context.Context, real string) error) error {
	if !filepath.IsAbs(path) {
		return acp.InvalidParams(fmt.Sprintf("path must be absolute, got %.200q", path), nil)
	}
	if len(path) > maxPath {
		return acp.InvalidParams(fmt.Sprintf("path has %d bytes, more than the %d that one can have", len(path), maxPath), nil)
	}
	places, err := b.buffers.find(filepath.Clean(path))
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, editorTime)
	defer done()
	release, err := b.s.r.holdNames(ctx, editorTime+time.Second)
	if err != nil {
		b.s.log.Debug("files are not taken from the editor", "err", err)
		return errNotEditors
	}
	defer release()
	var real string
	for _, p := range places {
		if real, err = p.check(write); err != nil {
			if closed, ok := errors.AsType[*closedError](err); ok {
				b.denied(sandbox.Denial{Operation: "open", Path: closed.path})
			}
			return err
		}
	}
	if b.isClosed(ctx, real) {
		b.denied(sandbox.Denial{Operation: "open", Path: real})
		return &closedError{real}
	}
	if write && !b.mayWrite(ctx, real) {
		return errNotEditors
	}
	if err := do(ctx, real); err != nil {
		return err
	}
	if !release() {
		return fmt.Errorf("the editor took too long for %s: what became of it is not known; read the file again", real)
	}
	return nil
}

// isClosed asks the sandbox, which knows what closed links lead to, too.
func (b *backend) isClosed(ctx context.Context, real string) bool {
	keeper, ok := b.sb.(sandbox.RuleKeeper)
	if !ok {
		return false
	}
	closed, err := keeper.Judge(ctx, []string{real})
	return err == nil && closed[0] || err != nil && b.sb.Info().Isolated
}

// mayWrite asks the sandbox, which knows of repositories below the project, too.
func (b *backend) mayWrite(ctx context.Context, real string) bool {
	keeper, ok := b.sb.(sandbox.RuleKeeper)
	if !ok {
		return true
	}
	may, err := keeper.MayWrite(ctx, real)
	return may || err != nil && !b.sb.Info().Isolated
}

// holdNames keeps every sandbox of this gander, also of sessions that are being closed,
// from renaming and linking, and nothing begins to run in another one meanwhile. A
// sandbox that isolates and cannot be held must not have the editor followed its paths;
// one that does not isolate could do itself whatever it would have the editor do.
func (r *Router) holdNames(ctx context.Context, atMost time.Duration) (release func() bool, err error) {
	c := r.opts.Crowd
	c.holding.RLock()
	var releases []func() bool
	all := sync.OnceValue(func() bool {
		lasted := true
		for _, one := range releases {
			lasted = one() && lasted
		}
		c.holding.RUnlock()
		return lasted
	})
	c.mu.Lock()
	populated := slices.Clone(c.populated)
	c.mu.Unlock()
	for _, b := range populated { // all who hold them do so in one order, and do not wait for each other
		one, err := b.hold(ctx, atMost)
		if err != nil {
			all()
			return nil, err
		}
		if one != nil {
			releases = append(releases, one)
		}
	}
	return all, nil
}

// hold is holdNames of one sandbox; it returns nil where there is nothing to hold.
func (b *backend) hold(ctx context.Context, atMost time.Duration) (release func() bool, err error) {
	err = errors.New("it cannot hold names")
	if h, ok := b.sb.(sandbox.Holder); ok {
		if release, err = h.Hold(ctx, atMost); err == nil {
			return release, nil
		}
	}
	if !b.sb.Info().Isolated {
		return nil, nil
	}
	if errors.Is(err, sandbox.ErrGone) { // its supervisor has ended, what runs in it perhaps not yet
		select {
		case <-b.sb.Done():
			return nil, nil
		case <-ctx.Done():
		}
	}
	return nil, fmt.Errorf("the %s sandbox of %s: %w", b.driver.Name(), b.agent.Name(), err)
}

// readEditor is the text of a file as the person sees it, or errNotEditors.
func (b *backend) readEditor(ctx context.Context, path string) (text string, err error) {
	if !b.s.r.client.Capabilities().FS.ReadTextFile {
		return "", errNotEditors
	}
	err = b.reach(ctx, path, false, func(ctx context.Context, real string) error {
		raw, err := b.s.r.client.Request(ctx, methodReadTextFile, map[string]any{"sessionId": b.s.id, "path": real})
		if err != nil {
			b.s.log.Debug("the editor does not serve a file", "path", real, "err", err)
			return errNotEditors
		}
		var answer struct {
			Content *string `json:"content"`
		}
		if json.Unmarshal(raw, &answer) != nil || answer.Content == nil {
			return errNotEditors
		}
		text = *answer.Content
		return nil
	})
	if err == nil && len(text) > maxText {
		return "", fmt.Errorf("%s has %d bytes in the editor, more than the %d that pass", path, len(text), maxText)
	}
	if err == nil {
		err = b.lossless(ctx, path, text)
	}
	if err != nil {
		return "", err
	}
	return text, nil
}

// errNotUTF8 says why a file is neither read nor written as text.
var errNotUTF8 = errors.New("it is not UTF-8 text, and its bytes would be damaged; change it with a command, as sed or python")

// lossless fails when a text has the mark in it of bytes that an editor could not read, and
// the file on the disk is not UTF-8: written back, those bytes would be gone.
func (b *backend) lossless(ctx context.Context, path, text string) error {
	if !strings.ContainsRune(text, utf8.RuneError) {
		return nil
	}
	if _, err := b.readInside(ctx, path); errors.Is(err, errNotUTF8) {
		return err
	}
	return nil
}

// writeEditor has the editor change a file, or is errNotEditors. That is also when the text
// does not fit in a message to the editor and the disk will do.
func (b *backend) writeEditor(ctx context.Context, path, text string) error {
	if !b.s.r.client.Capabilities().FS.WriteTextFile {
		return errNotEditors
	}
	if len(text) > maxText {
		return fmt.Errorf("the text has %d bytes, more than the %d that pass", len(text), maxText)
	}
	if err := b.lossless(ctx, path, text); err != nil {
		return err
	}
	err := b.reach(ctx, path, true, func(ctx context.Context, real string) error {
		_, err := b.s.r.client.Request(ctx, methodWriteTextFile, map[string]any{"sessionId": b.s.id, "path": real, "content": text})
		if e, ok := errors.AsType[*acp.Error](err); ok && e.Code == acp.CodeMethodNotFound {
			return errNotEditors
		}
		if err != nil {
			return fmt.Errorf("the editor did not change %s: %w", real, err)
		}
		b.edited(real)
		return nil
	})
	if errors.Is(err, acp.ErrTooLarge) { // nothing was sent
		return b.passOver(ctx, path)
	}
	return err
}

// passOver is errNotEditors for a file whose text is too large for the editor, unless the
// editor has text of it that nobody saved: whoever reads the file gets that, and would
// not find what was written to the disk.
func (b *backend) passOver(ctx context.Context, path string) error {
	unsaved, err := b.readEditor(ctx, path)
	if err == nil {
		saved, err := b.readInside(ctx, path)
		if err != nil && unsaved != "" || err == nil && !sameToEditors(saved, unsaved) {
			return fmt.Errorf("the text is too large to be handed to the editor, and what the editor has of %s is not what is on the disk: have it saved or closed there, and read it again", path)
		}
	} else if !errors.Is(err, errNotEditors) {
		return err
	}
	if name, ok := b.shown(path); ok {
		b.s.notice("info", name+" is too large to be handed to your editor, and is written to the disk.")
	}
	return errNotEditors
}

// sameToEditors compares texts as editors give them, which show neither a byte order mark nor how lines end.
func sameToEditors(a, b string) bool {
	plain := func(s string) string {
		return strings.ReplaceAll(strings.TrimPrefix(s, "\ufeff"), "\r\n", "\n")
	}
	return plain(a) == plain(b)
}

// insidePath is where ordinary programs are in every sandbox.
const insidePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// direct says that gander itself is as good as a program inside: on Windows there is no
// sandbox whose files it does not see, and no sh.
const direct = runtime.GOOS == "windows"

// here is a path as a program in the session's directory takes it.
func (b *backend) here(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(b.s.cwd, path)
}

// readHere reads a file without a program.
func readHere(path string) (string, error) {
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", errNoFile
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	return string(text), err
}

// writeHere writes a file without a program, and makes its directory.
func writeHere(path, text string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return errNoFile
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// errNoFile is for devices, pipes and directories.
var errNoFile = errors.New("it is not a file")

// readInside reads a file in the sandbox, as the agent itself would.
func (b *backend) readInside(ctx context.Context, path string) (text string, err error) {
	if direct {
		text, err = readHere(b.here(path))
	} else {
		text, err = acpagent.RunScript(ctx, b.sb, sandbox.Command{
			Args: []string{"sh", "-c", `exec cat < "$1"`, "read", path}, Env: []string{insidePath}, Dir: b.s.cwd,
		}, nil, maxText+1)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", path, err)
	case len(text) > maxText:
		return "", fmt.Errorf("%s has more than %d bytes", path, maxText)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%s: %w", path, errNotUTF8)
	}
	return text, nil
}

// writeInside writes a file in the sandbox, as the agent itself would.
func (b *backend) writeInside(ctx context.Context, path, text string) error {
	var err error
	if direct {
		err = writeHere(b.here(path), text)
	} else {
		_, err = acpagent.RunScript(ctx, b.sb, sandbox.Command{
			Args: []string{"sh", "-c", `mkdir -p -- "${1%/*}/" && exec cat > "$1"`, "write", path}, Env: []string{insidePath}, Dir: b.s.cwd,
		}, []byte(text), maxText)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
