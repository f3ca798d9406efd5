// Package roster keeps a team: each agent is a folder with a file AGENTS.md, its manifest.
// The front matter of that binds a name to a provider, which is a program that runs in a
// sandbox or an endpoint of models, and what follows are the agent's instructions.
//
// No sandbox sees the folders: an agent that could write its manifest would choose its own
// program and endpoint. [Store.Workspace] is the directory that an agent may have as its own.
package roster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// File is the name of a manifest in the agent's folder.
const File = "AGENTS.md"

const (
	maxFile  = 256 << 10
	maxFront = 64 << 10
	maxTeam  = 500 // folders that are looked at
)

// A Manifest describes one agent.
type Manifest struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// Provider names a program or an endpoint of models; empty where the name of the agent
	// is that of a program already.
	Provider string `json:"provider,omitempty"`
	// Endpoint names an endpoint of models for a program; Model and Mode are as in the
	// configuration. Empty ones are decided there.
	Endpoint string `json:"endpoint,omitempty"`
	Model    string `json:"model,omitempty"`
	Mode     string `json:"mode,omitempty"`
	// Access is AccessRead, or AccessWrite, which is the default.
	Access string `json:"access,omitempty"`
	// WorkspaceAccess is WorkspaceInternal, WorkspaceExternal or WorkspaceAuto, the default.
	WorkspaceAccess string     `json:"workspaceAccess,omitempty"`
	Tags            []string   `json:"tags,omitempty"`
	Delegation      Delegation `json:"delegation"`
	// Discoverable says that others may find the agent by its description.
	Discoverable bool `json:"discoverable"`
	Priority     int  `json:"priority"`
	// Instructions are put in front of the first prompt of a conversation.
	Instructions string `json:"instructions,omitempty"`
	// Plugin names the plugin that brings the agent; empty for one of its own.
	Plugin string `json:"plugin,omitempty"`
	// Path is the file.
	Path string `json:"path"`
	// Lines are those of the file's keys.
	Lines map[string]int `json:"-"`
	// Warnings are about what the file says and nobody reads.
	Warnings []string `json:"warnings,omitempty"`
}

// Delegation says which way an agent takes part when others give it work.
type Delegation struct {
	CanReceive  bool `json:"canReceive"`
	CanDelegate bool `json:"canDelegate"`
}

// The values of Manifest.Access and Manifest.WorkspaceAccess.
const (
	AccessRead        = "read"
	AccessWrite       = "write"
	WorkspaceInternal = "internal"
	WorkspaceExternal = "external"
	WorkspaceAuto     = "auto"
)

// A Problem hides one agent, and says why.
type Problem struct {
	Agent  string `json:"agent"`
	Path   string `json:"path"`
	Line   int    `json:"line,omitempty"` // from 1; 0 means the file as a whole
	Reason string `json:"reason"`
}

func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.Path + ": " + p.Reason
	}
	return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Reason)
}

// A Store is where a team is kept: Agents has the folders with manifests, Workspaces
// those that agents may have as their own.
type Store struct{ Agents, Workspaces string }

// At returns the store below gander's home.
func At(home string) Store {
	return Store{filepath.Join(home, "agents"), filepath.Join(home, "workspaces")}
}

// Workspace returns the directory of an agent's own; it need not exist.
func (s Store) Workspace(id string) string { return filepath.Join(s.Workspaces, id) }

// path returns the manifest of an agent.
func (s Store) path(id string) string { return filepath.Join(s.Agents, id, File) }

// IDPattern matches the names of agents, which are values of a flag, and part of names of files
// and variables.
const IDPattern = `^[a-z][a-z0-9-]{0,31}$`

var (
	validID = regexp.MustCompile(IDPattern)
	device  = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])$`)
)

// Reserved are names that gander keeps for itself.
func Reserved() []string { return []string{"auto", "gander", "none", "orchestrator"} }

// CheckID says why a name cannot be an agent's; empty when it can.
func CheckID(id string) string {
	switch {
	case !validID.MatchString(id):
		return fmt.Sprintf("%q cannot be an agent's name; want small letters, digits and dashes, beginning with a letter, at most 32 characters", id)
	case slices.Contains(Reserved(), id):
		return fmt.Sprintf("the name %q is gander's own; choose another one", id)
	case device.MatchString(id):
		return fmt.Sprintf("%q is the name of a device on Windows, where no folder can be called so; choose another one", id)
	}
	return ""
}

// Read reads the manifests, sorted by id. Folders without one are nobody's.
func (s Store) Read() ([]Manifest, []Problem) {
	entries, err := os.ReadDir(s.Agents)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []Problem{{Path: s.Agents, Reason: "the manifests of agents cannot be read: " + cause(err).Error()}}
	}
	var team []Manifest
	var problems []Problem
	if len(entries) > maxTeam {
		problems = append(problems, Problem{Path: s.Agents, Reason: fmt.Sprintf("more than %d entries; the rest is not read", maxTeam)})
		entries = entries[:maxTeam]
	}
	for _, e := range entries {
		if !e.IsDir() && e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		m, problem := s.Load(e.Name())
		switch {
		case problem == nil:
			team = append(team, m)
		case !errors.Is(problem, fs.ErrNotExist):
			found := &Problem{Agent: e.Name(), Path: s.path(e.Name()), Reason: problem.Error()}
			errors.As(problem, &found)
			problems = append(problems, *found)
		}
	}
	return team, problems
}

// Load reads the manifest of one agent. The error is a *Problem, or fs.ErrNotExist.
func (s Store) Load(id string) (Manifest, error) {
	path := s.path(id)
	data, reason := s.text(id)
	if reason != nil {
		if errors.Is(reason, fs.ErrNotExist) {
			return Manifest{}, reason
		}
		return Manifest{}, &Problem{Agent: id, Path: path, Reason: reason.Error()}
	}
	if why := CheckID(id); why != "" {
		return Manifest{}, &Problem{Agent: id, Path: path, Reason: why}
	}
	m, problem := Parse(id, data)
	if problem != nil {
		problem.Path = path
		return Manifest{}, problem
	}
	m.Path = path
	return m, nil
}

// text reads a manifest. Links are not followed, and nothing but a file of moderate size is read.
func (s Store) text(id string) ([]byte, error) {
	dir, path := filepath.Join(s.Agents, id), s.path(id)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, cause(err)
	}
	if folder, err := os.Lstat(dir); err != nil || !folder.IsDir() {
		return nil, errors.New("the folder is a link, which is not followed; put the folder itself there")
	}
	return regular(path, info)
}

// regular reads a file that Lstat has looked at.
func regular(path string, info fs.FileInfo) ([]byte, error) {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("it is a link, which is not followed; put the file itself there")
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("it is larger than %d KiB", maxFile>>10)
	case info.Mode().Perm()&0o002 != 0 && filepath.Separator == '/':
		return nil, errors.New("anybody can write it; make it yours alone: chmod 600 " + path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = f.Close() }()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, errors.New("it was replaced while it was read; try again")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d KiB", maxFile>>10)
	}
	return data, err
}

// cause returns an error without the path, which the caller names.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Parse reads a manifest; id names the agent's folder. Path is for the caller to set.
func Parse(id string, data []byte) (Manifest, *Problem) {
	m := Manifest{ID: id, Lines: map[string]int{}, Discoverable: true, Priority: 50, Delegation: Delegation{CanReceive: true}}
	front, body, problem := split(data)
	var keys []entry
	if problem == nil {
		keys, problem = parseFront(front)
	}
	for _, e := range keys {
		if problem != nil {
			break
		}
		m.Lines[e.key] = e.line
		problem = m.take(e)
	}
	if problem != nil {
		problem.Agent = id
		return Manifest{}, problem
	}
	m.Name = cmp.Or(m.Name, id)
	m.Description = cmp.Or(m.Description, "Agent "+m.Name+".")
	m.Instructions = strings.TrimSpace(body)
	return m, nil
}

// take puts one key into the manifest.
func (m *Manifest) take(e entry) *Problem {
	bad := func(format string, args ...any) *Problem {
		return &Problem{Line: e.line, Reason: e.key + ": " + fmt.Sprintf(format, args...)}
	}
	texts := map[string]*string{
		"name": &m.Name, "description": &m.Description, "provider": &m.Provider, "endpoint": &m.Endpoint, "model": &m.Model, "mode": &m.Mode,
		"access": &m.Access, "workspaceAccess": &m.WorkspaceAccess,
	}
	flags := map[string]*bool{"discoverable": &m.Discoverable, "delegation.canReceive": &m.Delegation.CanReceive, "delegation.canDelegate": &m.Delegation.CanDelegate}
	choices := map[string][]string{"access": {AccessRead, AccessWrite}, "workspaceAccess": {WorkspaceInternal, WorkspaceExternal, WorkspaceAuto}}
	if e.isList != (e.key == "tags") && (e.key == "tags" || slices.Contains(Keys(), e.key)) && !e.empty() {
		if e.key == "tags" {
			return bad("want a list, as in [review, security]")
		}
		return bad("want one text, got a list")
	}
	switch into, flag := texts[e.key], flags[e.key]; {
	case e.key == "id":
		if e.text != m.ID {
			return bad("%q is not the name of the folder, %q; make them one", e.text, m.ID)
		}
	case e.key == "tags":
		m.Tags = tags(e.list)
	case e.key == "priority":
		n, ok := number(e.text)
		if !ok {
			return bad("%q is not a whole number from -1000 to 1000", e.text)
		}
		m.Priority = n
	case flag != nil:
		is, ok := boolean(e.text)
		if !ok {
			return bad("%q is neither true nor false", e.text)
		}
		*flag = is
	case into != nil && choices[e.key] != nil && !slices.Contains(choices[e.key], e.text):
		return bad("%q is not one of %s", e.text, strings.Join(choices[e.key], ", "))
	case into != nil:
		*into = e.text
	case e.key == "delegation":
		return bad("want canReceive and canDelegate below it, as in {canReceive: true, canDelegate: false}")
	default:
		if near := similar(e.key); near != "" {
			m.Warnings = append(m.Warnings, fmt.Sprintf("line %d: nobody reads the key %q; did you mean %s?", e.line, e.key, near))
		}
	}
	return nil
}

// Keys are those of a front matter that count.
func Keys() []string {
	return []string{"id", "name", "description", "provider", "tags", "delegation.canReceive", "delegation.canDelegate", "priority", "discoverable", "endpoint", "model", "mode", "access", "workspaceAccess"}
}

// similar returns the key that another one was probably meant to be.
func similar(key string) string {
	for _, known := range Keys() {
		if plainly(known) == plainly(key) || oneEdit(strings.ToLower(known), strings.ToLower(key)) || plainly(known) == "delegation"+plainly(key) {
			return known
		}
	}
	return ""
}

func plainly(key string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(key))
}

// oneEdit reports whether one character added, left out or changed makes a of b.
func oneEdit(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a)-len(b) > 1 || len(b) < 3 {
		return false
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i < len(a) && a[i+1:] == b[i+1:]
	}
	return a[i+1:] == b[i:]
}

var notInTag = regexp.MustCompile(`[^a-z0-9-]+`)

// tags returns tags as they are compared: small letters, digits and dashes, each once.
func tags(list []string) []string {
	var out []string
	for _, t := range list {
		t = strings.Trim(notInTag.ReplaceAllString(strings.ToLower(strings.TrimSpace(t)), "-"), "-")
		if t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// split separates the front matter, in lines, from what follows it.
func split(data []byte) (front []string, body string, problem *Problem) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	lines := strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	if strings.TrimRight(lines[0], " \t") != fence {
		return nil, "", &Problem{Line: 1, Reason: `want front matter here, which begins with a line "---", as in "---", "provider: goose", "---"`}
	}
	size := 0
	for i, line := range lines[1:] {
		if strings.TrimRight(line, " \t") == fence {
			return lines[1 : i+1], strings.Join(lines[i+2:], "\n"), nil
		}
		if size += len(line) + 1; size > maxFront {
			return nil, "", &Problem{Line: i + 2, Reason: fmt.Sprintf("the front matter is larger than %d KiB", maxFront>>10)}
		}
	}
	return nil, "", &Problem{Line: 1, Reason: `the front matter has no end; want a line "---" after its last key`}
}

const fence = "---"
