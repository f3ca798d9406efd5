package plugins

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/natefinch/atomic"

	"gander.dev/gander/sandbox/team/skills"
)

// A Store is the folder in which plugins are installed, each in a folder of its own.
type Store struct{ Dir string }

// A State holds what is kept of an installed plugin.
type State struct {
	Enabled   bool      `json:"enabled"`
	Source    string    `json:"source"`
	SHA256    string    `json:"sha256"` // of its files' names, rights and contents
	Installed time.Time `json:"installed"`
}

// A Problem says why a folder is no plugin that can be used.
type Problem struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// limits bound what is installed.
func limits() skills.Limits {
	return skills.Limits{What: "a plugin", Files: 2000, Bytes: 32 << 20, Depth: 12}
}

func (s Store) stateFile() string { return filepath.Join(s.Dir, "state.json") }

// states reads what is kept of all plugins; a file that cannot be read enables none.
func (s Store) states() (map[string]State, error) {
	all := map[string]State{}
	text, err := os.ReadFile(s.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return map[string]State{}, fmt.Errorf("%s: %w; all plugins are disabled until it is mended or removed", s.stateFile(), err)
	}
	return all, nil
}

// change changes what is kept of a plugin; nil forgets it.
func (s Store) change(id string, state *State) error {
	all, err := s.states()
	if err != nil {
		return err
	}
	delete(all, id)
	if state != nil {
		all[id] = *state
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = atomic.WriteFile(s.stateFile(), bytes.NewReader(append(text, '\n')))
	}
	if err == nil {
		err = os.Chmod(s.stateFile(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting the state of the plugin %s: %w", id, err)
	}
	return nil
}

// Install copies a plugin into the store: a folder, or an archive. source is what is kept of where it
// came from. A link, a device, an odd name, or more than 2000 files or 32 MiB are refused.
func (s Store) Install(from, source string, enable bool) (*Plugin, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of plugins: %w", err)
	}
	work, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the new plugin: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	files := filepath.Join(work, identifier(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(from), filepath.Ext(from)), ".tar")))
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		files = filepath.Join(work, cmp.Or(identifier(filepath.Base(from)), "plugin"))
	}
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, err
	}
	if err := skills.Gather(from, files, limits()); err != nil {
		return nil, err
	}
	p, err := Read(files)
	if below := onlyFolder(files); err != nil && below != "" { // as archives have it
		p, err = Read(below)
	}
	if err != nil {
		return nil, err
	}
	to := filepath.Join(s.Dir, p.ID)
	if _, err := os.Lstat(to); err == nil {
		return nil, fmt.Errorf("there is a plugin %s already; remove it first: gander plugin remove %[1]s", p.ID)
	}
	sum, err := skills.Sum(p.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(p.Dir, to); err != nil {
		return nil, fmt.Errorf("putting the plugin in its place: %w", err)
	}
	if err := s.change(p.ID, &State{Enabled: enable, Source: source, SHA256: sum, Installed: time.Now().UTC()}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(to))
	}
	return s.Load(p.ID)
}

// onlyFolder returns the only thing in a folder, where it is one; empty else.
func onlyFolder(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		return ""
	}
	return filepath.Join(dir, entries[0].Name())
}

// Load returns an installed plugin.
func (s Store) Load(id string) (*Plugin, error) {
	info, err := os.Lstat(filepath.Join(s.Dir, id))
	if !validID(id) || err != nil || !info.IsDir() {
		return nil, fs.ErrNotExist
	}
	p, err := Read(filepath.Join(s.Dir, id))
	if err != nil {
		return nil, err
	}
	states, err := s.states()
	p.ID, p.Enabled = id, states[id].Enabled
	return p, err
}

// List returns the installed plugins, sorted by id, and the folders that are none.
func (s Store) List() ([]*Plugin, []Problem) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, []Problem{{"", err.Error()}}
	}
	var all []*Plugin
	var problems []Problem
	states, err := s.states()
	if err != nil {
		problems = append(problems, Problem{"", err.Error()})
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		p, err := Read(filepath.Join(s.Dir, e.Name()))
		if err != nil {
			problems = append(problems, Problem{e.Name(), err.Error()})
			continue
		}
		p.ID, p.Enabled = e.Name(), states[e.Name()].Enabled
		all = append(all, p)
	}
	return all, problems
}

// Enabled returns the plugins that count.
func (s Store) Enabled() []*Plugin {
	all, _ := s.List()
	return slices.DeleteFunc(all, func(p *Plugin) bool { return !p.Enabled })
}

// Enable says whether a plugin counts.
func (s Store) Enable(id string, enabled bool) error {
	if _, err := s.Load(id); err != nil {
		return err
	}
	states, err := s.states()
	if err != nil {
		return err
	}
	state := states[id]
	state.Enabled = enabled
	return s.change(id, &state)
}

// Remove removes a plugin.
func (s Store) Remove(id string) error {
	info, err := os.Lstat(filepath.Join(s.Dir, id))
	if !validID(id) || err != nil || !info.IsDir() {
		return fs.ErrNotExist
	}
	if err := s.change(id, nil); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(s.Dir, id))
}

// State returns what is kept of a plugin; ok is false for one that was put there by hand.
func (s Store) State(id string) (state State, ok bool) {
	states, _ := s.states() // what cannot be read is nothing
	state, ok = states[id]
	return state, ok && state.SHA256 != ""
}

// Changed reports whether a plugin's files are others than those that were installed.
func (s Store) Changed(id string) (bool, error) {
	state, ok := s.State(id)
	if !ok {
		return false, nil
	}
	sum, err := skills.Sum(filepath.Join(s.Dir, id))
	return sum != state.SHA256, err
}
