package clients

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Entry is gander as a client is to start it.
type Entry struct {
	// Name is what the client calls it; empty means the target's own DefaultName.
	Name string
	// Command is gander's absolute path, Args are its arguments.
	Command string
	Args    []string
	// Plugin is one of the target's Plugins; empty means the first.
	Plugin string
}

// Place says where a person's files are.
type Place struct {
	// OS is as runtime.GOOS.
	OS string
	// Home is the person's directory, Config is XDG_CONFIG_HOME and AppData is
	// APPDATA; the last two may be empty.
	Home, Config, AppData string
}

// config is the directory of configuration files on Unix.
func (p Place) config() string {
	if filepath.IsAbs(p.Config) {
		return p.Config
	}
	return filepath.Join(p.Home, ".config")
}

// appData is the directory of configuration files on Windows.
func (p Place) appData() string {
	if p.AppData != "" {
		return p.AppData
	}
	return filepath.Join(p.Home, "AppData", "Roaming")
}

// A Target is a program that can use gander.
type Target struct {
	// Name is what people call it on the command line, Title in a sentence.
	Name, Title string
	// DefaultName is the name of the entry.
	DefaultName string
	// MCP is whether the entry is for "gander mcp developer" instead of "gander acp".
	MCP bool
	// Plugins are the program's plugins that can use gander; empty where it needs none.
	Plugins []string
	file    func(p Place, plugin string) string
	format  format
	next    func(file string, e Entry) string
}

// format is how a kind of file is edited. The entry is complete.
type format interface {
	document(e Entry) []byte
	// put returns old with the entry in it.
	put(old []byte, e Entry) ([]byte, error)
	// take returns old without the entry, nil when nothing else was in it.
	// before is the file as it was before the entry; nil when that is not known.
	take(old, before []byte, e Entry) ([]byte, error)
	// programs returns the commands of all entries in old that start gander.
	programs(old []byte) ([]string, error)
}

// Find is the target of a name; nil when there is none.
func Find(name string) *Target {
	all := Targets()
	if i := slices.IndexFunc(all, func(t *Target) bool { return t.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// File is where the client keeps its configuration.
func (t *Target) File(p Place, plugin string) string { return t.file(p, plugin) }

// Next is what the person does after the entry is in file; empty when nothing is left.
func (t *Target) Next(file string, e Entry) string {
	if t.next == nil {
		return ""
	}
	return t.next(file, t.complete(e))
}

// Loaded reports whether the person's own program loads the file.
func (t *Target) Loaded() bool {
	_, own := t.format.(ownFile)
	return own
}

// Document is a document of the client's format with nothing but the entry.
func (t *Target) Document(e Entry) []byte { return t.format.document(t.complete(e)) }

// Put returns old with the entry in it; it is old itself when the entry is there.
func (t *Target) Put(old []byte, e Entry) ([]byte, error) { return t.format.put(old, t.complete(e)) }

// Take returns old without the entry: nil when nothing else was in it, and old
// itself when there is no entry. before is the file as it was before the entry
// was put in, nil when that is not known.
func (t *Target) Take(old, before []byte, e Entry) ([]byte, error) {
	return t.format.take(old, before, t.complete(e))
}

func (t *Target) complete(e Entry) Entry {
	if e.Name == "" {
		e.Name = t.DefaultName
	}
	if e.Plugin == "" && len(t.Plugins) > 0 {
		e.Plugin = t.Plugins[0]
	}
	return e
}

// isGander reports whether a command of an entry starts gander.
func isGander(command string, e Entry) bool {
	base := strings.TrimSuffix(strings.ToLower(filepath.Base(filepath.ToSlash(command))), ".exe")
	return command != "" && (command == e.Command || base == "gander")
}

// A File holds where a client keeps its configuration.
type File struct {
	*Target
	// Plugin is one of the target's Plugins; empty where it has none.
	Plugin string
	Path   string
}

// Files returns the files of all clients, whether they are there or not. Those whose place is
// not known are left out.
func Files(p Place) (list []File) {
	for _, t := range Targets() {
		plugins := t.Plugins
		if len(plugins) == 0 {
			plugins = []string{""}
		}
		for _, plugin := range plugins {
			if path := t.File(p, plugin); filepath.IsAbs(path) {
				list = append(list, File{t, plugin, path})
			}
		}
	}
	return list
}

// Programs returns the commands in the file that start gander, whatever the entries' names.
// A file that is not there has none.
func (f File) Programs() ([]string, error) {
	c, text, _, err := open(f.Path)
	if err != nil || text == nil {
		return nil, err
	}
	found, err := f.format.programs(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.File, err)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// taken refuses to write over an entry that somebody else made.
func taken(name string) error {
	return fmt.Errorf("the entry %q does not start gander; it was left as it is, choose another --name or take it out by hand first", name)
}

// notOurs refuses to take out an entry that somebody else made.
func notOurs(name string) error {
	return fmt.Errorf("the entry %q does not start gander; it was left as it is, take it out by hand if you want to", name)
}
