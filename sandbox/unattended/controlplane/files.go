package controlplane

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// workspacePath is what a run's workspace is called in the interface, wherever it is.
const workspacePath = "/workspace"

// A fileEntry is one entry of a directory. Links are shown as links and never followed
// out of the workspace. Files that the agent may not see (.gooseignore) are listed and
// read too: who asks is the person, whose files they are.
type fileEntry struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // directory, file, link, other
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
	Target   string `json:"target,omitempty"` // of a link
}

// A place is a path in the workspace of a run.
type place struct {
	root *os.Root
	name string // within root
	path string // as the interface has it
}

// place opens the workspace of the run that a request is about. The caller closes root.
func (p *Plane) place(r *http.Request, required bool) (*place, error) {
	asked := r.URL.Query().Get("path")
	if asked == "" {
		if required {
			return nil, fail(http.StatusBadRequest, "path is required")
		}
		asked = workspacePath
	}
	clean := path.Clean(asked)
	name, below := strings.CutPrefix(clean, workspacePath+"/")
	switch {
	case clean == workspacePath:
		name = "."
	case !below || strings.ContainsRune(clean, 0):
		return nil, fail(http.StatusBadRequest, "path %q is not in %s", asked, workspacePath)
	}
	run, err := p.chosen(r)
	if err != nil {
		return nil, err
	}
	root, err := openWorkspace(run)
	if err != nil {
		return nil, err
	}
	return &place{root: root, name: name, path: clean}, nil
}

// openWorkspace opens the workspace of a run as a root that nothing gets out of.
func openWorkspace(run *Run) (*os.Root, error) {
	if run == nil || run.Workspace == "" {
		return nil, fail(http.StatusServiceUnavailable, "there is no sandbox whose files these could be: start a loop first")
	}
	root, err := os.OpenRoot(run.Workspace)
	if err != nil {
		return nil, fail(http.StatusServiceUnavailable, "the workspace of run %s cannot be opened: %v", run.RunID, err)
	}
	return root, nil
}

// open opens what a place names. Links within the workspace are followed, those out of
// it are errors, and so is what is neither directory nor file.
func (pl *place) open() (*os.File, fs.FileInfo, error) {
	f, err := pl.root.OpenFile(pl.name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, pl.refuse(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(pl.refuse(err), f.Close())
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, nil, errors.Join(fail(http.StatusBadRequest, "%s is neither a file nor a directory", pl.path), f.Close())
	}
	return f, info, nil
}

func (pl *place) refuse(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(http.StatusNotFound, "there is no %s", pl.path)
	case errors.Is(err, fs.ErrPermission):
		return fail(http.StatusForbidden, "%s may not be read", pl.path)
	}
	return fail(http.StatusBadRequest, "%s cannot be opened; a link may lead out of the workspace", pl.path)
}

func (p *Plane) listFiles(w http.ResponseWriter, r *http.Request) error {
	pl, err := p.place(r, false)
	if err != nil {
		return err
	}
	defer pl.root.Close()
	dir, info, err := pl.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	if !info.IsDir() {
		return fail(http.StatusBadRequest, "%s is not a directory", pl.path)
	}
	names, err := dir.ReadDir(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return pl.refuse(err)
	}
	truncated := len(names) > maxFiles
	entries := []fileEntry{}
	for _, n := range names[:min(len(names), maxFiles)] {
		if e, ok := pl.entry(n.Name()); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b fileEntry) int {
		if (a.Type == "directory") != (b.Type == "directory") {
			if a.Type == "directory" {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	answer(w, http.StatusOK, map[string]any{"path": pl.path, "entries": entries, "truncated": truncated})
	return nil
}

// entry describes one entry of the directory; ok is false when it has just gone.
func (pl *place) entry(base string) (e fileEntry, ok bool) {
	name := path.Join(pl.name, base)
	info, err := pl.root.Lstat(name)
	if err != nil {
		return e, false
	}
	e = fileEntry{Name: base, Type: "other", Size: info.Size(), Modified: iso(info.ModTime().UnixMilli())}
	switch info.Mode().Type() {
	case fs.ModeDir:
		e.Type = "directory"
	case 0:
		e.Type = "file"
	case fs.ModeSymlink:
		e.Type = "link"
		e.Target, _ = pl.root.Readlink(name) // gone again: without
	}
	return e, true
}

// file opens the regular file that a request names.
func (p *Plane) file(r *http.Request) (*place, *os.File, fs.FileInfo, error) {
	pl, err := p.place(r, true)
	if err != nil {
		return nil, nil, nil, err
	}
	f, info, err := pl.open()
	if err == nil && info.IsDir() {
		err = errors.Join(fail(http.StatusBadRequest, "%s is a directory", pl.path), f.Close())
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, pl.root.Close())
	}
	return pl, f, info, nil
}

func (p *Plane) readFile(w http.ResponseWriter, r *http.Request) error {
	pl, f, info, err := p.file(r)
	if err != nil {
		return err
	}
	defer pl.root.Close()
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return pl.refuse(err)
	}
	truncated := len(data) > maxFile
	if truncated {
		data = data[:maxFile]
		data = wholeRunes(data)
	}
	binary := bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data)
	if binary {
		data = nil // as text it would be nonsense; the download has it
	}
	answer(w, http.StatusOK, map[string]any{
		"path": pl.path, "content": string(data), "truncated": truncated, "bytes": max(info.Size(), int64(len(data))), "binary": binary,
	})
	return nil
}

// wholeRunes drops the beginning of a character at the end, where a cut went through it.
func wholeRunes(data []byte) []byte {
	for n := 1; n <= min(utf8.UTFMax-1, len(data)); n++ {
		if start := len(data) - n; utf8.RuneStart(data[start]) {
			if !utf8.FullRune(data[start:]) {
				return data[:start]
			}
			break
		}
	}
	return data
}

func (p *Plane) downloadFile(w http.ResponseWriter, r *http.Request) error {
	pl, f, info, err := p.file(r)
	if err != nil {
		return err
	}
	defer pl.root.Close()
	defer f.Close()
	attachment(w, path.Base(pl.path), "application/octet-stream", info.Size())
	_, _ = io.CopyN(w, f, info.Size()) // it may shrink meanwhile: the length tells the client
	return nil
}

// attachment says that what follows is to be kept and not shown: it is the agent's.
func attachment(w http.ResponseWriter, name, kind string, size int64) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": strings.ToValidUTF8(name, "_")})
	h.Set("Content-Disposition", cmp.Or(disposition, "attachment"))
}
