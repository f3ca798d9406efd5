package roster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// An Imported tells of one thing that Import found.
type Imported struct {
	// Kind is "agent", "workspace", "provider", "skill", "session" or "sessions".
	Kind string `json:"kind"`
	Name string `json:"name"`
	// State is "taken", "there" where something of gander's is in its place, or "skipped".
	State string `json:"state"`
	// Note says why, or what is to be done next.
	Note string `json:"note,omitempty"`
}

// String is all of it on one line.
func (i Imported) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%-9s %-20s %s: %s", i.Kind, i.Name, i.State, i.Note), ": ")
}

// The bounds of what is imported of one agent's workspace.
const (
	maxCopied      = 8 << 20
	maxCopiedFiles = 500
)

// Import takes over the agents of an OpenGoat home; usual is the provider of those that are
// bound to none. It writes over nothing, so that a second
// time changes nothing, follows no link and reads no value of a key. With dry it writes nothing.
func (s Store) Import(home, usual string, dry bool) ([]Imported, error) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; name the directory of OpenGoat", home, cause(err))
	}
	defer func() { _ = root.Close() }()
	im := &importer{s: s, from: root, usual: usual, dry: dry}
	names, err := im.folders("workspaces")
	if err != nil {
		return nil, fmt.Errorf("%s has no folder workspaces: %w; name the directory of OpenGoat", home, cause(err))
	}
	for _, name := range names {
		im.agent(name)
	}
	providers, _ := im.folders("providers") // without them none were configured
	for _, name := range providers {
		im.provider(name)
	}
	return im.found, nil
}

type importer struct {
	s     Store
	from  *os.Root
	usual string
	dry   bool
	found []Imported
}

func (im *importer) tell(kind, name, state, note string) {
	im.found = append(im.found, Imported{kind, name, state, note})
}

// folders returns the names of the folders in a folder; links are none.
func (im *importer) folders(dir string) ([]string, error) {
	entries, err := fs.ReadDir(im.from.FS(), dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// read reads a file of moderate size; a link is none.
func (im *importer) read(name string) ([]byte, error) {
	info, err := im.from.Lstat(name)
	switch {
	case err != nil:
		return nil, cause(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("larger than %d KiB", maxFile>>10)
	}
	f, err := im.from.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// programs are the providers of OpenGoat whose programs have other names here.
var programs = map[string]string{"claude": "claude-agent-acp", "codex": "codex-acp"}

// Folded returns the id of an agent that OpenGoat has by a name.
func Folded(name string) string {
	return strings.Trim(notInTag.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// agent takes over one agent with the files of its workspace.
func (im *importer) agent(name string) {
	id := Folded(name)
	if why := CheckID(id); why != "" {
		im.tell("agent", name, "skipped", why)
		return
	}
	m, err := im.manifest(name, id)
	_, there := os.Lstat(im.s.path(id))
	switch {
	case err != nil:
		im.tell("agent", id, "skipped", fmt.Sprintf("workspaces/%s/%s: %v", name, File, err))
		return
	case there == nil:
		im.tell("agent", id, "there", im.s.path(id)+" stays as it is")
	case m.ID == m.Provider: // it is the program itself
		im.tell("agent", id, "skipped", "gander has an agent of that name")
	default:
		if !im.dry {
			err = im.s.Create(m)
		}
		im.outcome("agent", id, "provider "+m.Provider, err)
	}
	im.workspace(name, id)
}

func (im *importer) outcome(kind, name, note string, err error) {
	if err != nil {
		im.tell(kind, name, "skipped", err.Error())
		return
	}
	im.tell(kind, name, "taken", note)
}

// manifest reads what OpenGoat knows of an agent. The provider that it is bound to stands
// beside its manifest, which may lack front matter.
func (im *importer) manifest(name, id string) (Manifest, error) {
	text, err := im.read(path.Join("workspaces", name, File))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, err
	}
	if !bytes.HasPrefix(text, []byte(fence)) {
		text = append([]byte(fence+"\n"+fence+"\n"), text...)
	}
	if at := ownID.FindIndex(text); at != nil {
		text = slices.Concat(text[:at[0]], []byte("id: "+id+"\n"), text[at[1]:])
	}
	m, problem := Parse(id, text)
	if problem != nil {
		return Manifest{}, fmt.Errorf("line %d: %s", problem.Line, problem.Reason)
	}
	var bound struct {
		DisplayName string
		Provider    struct{ ID string }
		Runtime     struct {
			Provider        struct{ ID string }
			WorkspaceAccess string
		}
	}
	if raw, err := im.read(path.Join("agents", name, "config.json")); err == nil {
		_ = json.Unmarshal(raw, &bound) // what cannot be read binds nothing
	}
	for _, provider := range []string{bound.Provider.ID, bound.Runtime.Provider.ID} {
		if provider != "" {
			m.Provider = provider
		}
	}
	if known := programs[m.Provider]; known != "" {
		m.Provider = known
	}
	m.Provider = cmp.Or(m.Provider, im.usual)
	if access := bound.Runtime.WorkspaceAccess; m.WorkspaceAccess == "" && slices.Contains([]string{WorkspaceInternal, WorkspaceExternal, WorkspaceAuto}, access) {
		m.WorkspaceAccess = access
	}
	return m, nil
}

// ownID matches the id of a manifest, which OpenGoat takes with capitals and blanks.
var ownID = regexp.MustCompile(`(?m)^id:.*\n`)

// workspace copies the files of an agent's workspace, except for what became its manifest and
// for skills.
func (im *importer) workspace(name, id string) {
	from, to := path.Join("workspaces", name), im.s.Workspace(id)
	files := map[string][]byte{}
	size := 0
	err := fs.WalkDir(im.from.FS(), from, func(file string, d fs.DirEntry, err error) error {
		rest := strings.TrimPrefix(file, from+"/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && rest == "skills":
			return fs.SkipDir
		case !d.Type().IsRegular() || rest == File || rest == "workspace.json":
			return nil
		}
		text, err := im.read(file)
		if size += len(text); err == nil && (size > maxCopied || len(files) == maxCopiedFiles) {
			err = fmt.Errorf("more than %d files or %d MiB", maxCopiedFiles, maxCopied>>20)
		}
		files[rest] = text
		return err
	})
	if err != nil {
		im.tell("workspace", id, "skipped", err.Error())
		return
	}
	taken := 0
	for _, rest := range slices.Sorted(maps.Keys(files)) {
		target := filepath.Join(to, filepath.FromSlash(rest))
		if _, err := os.Lstat(target); err == nil {
			continue
		}
		taken++
		if im.dry {
			continue
		}
		if err := copyNew(to, rest, files[rest]); err != nil {
			im.tell("workspace", id, "skipped", err.Error())
			return
		}
	}
	switch {
	case taken > 0:
		im.tell("workspace", id, "taken", fmt.Sprintf("%d files", taken))
	case len(files) > 0:
		im.tell("workspace", id, "there", "nothing is written over")
	}
}

// copyNew writes a file that is not there, and follows no link out of the directory.
func copyNew(dir, name string, text []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// provider tells which variables a provider had, and how its key is stored here.
func (im *importer) provider(name string) {
	raw, err := im.read(path.Join("providers", name, "config.json"))
	if err != nil {
		return
	}
	var config struct{ Env map[string]json.RawMessage }
	if json.Unmarshal(raw, &config) != nil {
		im.tell("provider", name, "skipped", "its config.json cannot be read")
		return
	}
	names := slices.Sorted(maps.Keys(config.Env))
	im.tell("provider", name, "skipped", fmt.Sprintf("it had %s there, whose values are not read; give gander the key with gander setup --api-key-env NAME --store-key", strings.Join(names, ", ")))
}
