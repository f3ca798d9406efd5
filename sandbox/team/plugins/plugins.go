// Package plugins keeps plugins as other programs have them: folders with a manifest, which bring skills,
// commands, agents and MCP servers. No code of a plugin runs on the host. What gander does not
// honour is named, with the reason.
package plugins

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/team/skills"
)

// A Plugin is one that is installed, or could be.
type Plugin struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	// Format names the kind of manifest, File is that manifest's name; empty without one.
	Format  string `json:"format"`
	File    string `json:"manifest,omitempty"`
	Dir     string `json:"dir"`
	Enabled bool   `json:"enabled"`
	// The following count while it is enabled. Skills are folders.
	Skills   []string  `json:"skills"`
	Commands []Command `json:"commands"`
	Agents   []Agent   `json:"agents"`
	Servers  []Server  `json:"mcpServers"`
	// Requires names plugins that it wants.
	Requires []string `json:"requires,omitempty"`
	// Refused are its parts that do not count.
	Refused []Refusal `json:"refused"`
}

// A Refusal says why a part of a plugin does not count.
type Refusal struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

// A Command is a prompt with a name.
type Command struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Hint        string `json:"hint,omitempty"`
	Text        string `json:"-"`
}

// Prompt returns the command's text for what was written behind its name.
func (c Command) Prompt(args string) string {
	if !strings.Contains(c.Text, "$ARGUMENTS") && args != "" {
		return c.Text + "\n\n" + args
	}
	return strings.ReplaceAll(c.Text, "$ARGUMENTS", args)
}

// An Agent is a name with instructions.
type Agent struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	Instructions string `json:"-"`
	Path         string `json:"path"`
}

// A Server is an MCP server that is a program. It runs inside sandboxes.
type Server struct {
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
}

// The limits of what a plugin brings.
const (
	maxManifest = 256 << 10
	maxText     = 64 << 10 // of a command or an agent
	maxParts    = 100      // of a kind
)

// formats are the manifests that are known, the first that is there counts.
func formats() []struct{ format, file string } {
	return []struct{ format, file string }{
		{"openclaw", "openclaw.plugin.json"},
		{"claude", ".claude-plugin/plugin.json"},
		{"codex", ".codex-plugin/plugin.json"},
		{"cursor", ".cursor-plugin/plugin.json"},
		{"agent plugins", "plugin.json"},
	}
}

var idRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)

func validID(id string) bool { return len(id) <= 64 && idRule.MatchString(id) }

// Read reads the plugin of a folder.
func Read(dir string) (*Plugin, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	r := &reader{root: root, p: &Plugin{Dir: dir, Skills: []string{}, Commands: []Command{}, Agents: []Agent{}, Servers: []Server{}, Refused: []Refusal{}}}
	if err := r.manifest(); err != nil {
		return nil, err
	}
	r.skills()
	r.commands()
	r.agents()
	r.servers()
	r.refuse()
	p := r.p
	if p.File == "" && len(p.Skills)+len(p.Commands)+len(p.Agents)+len(p.Servers) == 0 {
		return nil, errors.New("it is no plugin: there is no manifest (openclaw.plugin.json, plugin.json, .claude-plugin, .codex-plugin, .cursor-plugin), and neither skills nor commands, agents or .mcp.json")
	}
	if p.ID == "" {
		p.ID = identifier(filepath.Base(dir))
	}
	if !validID(p.ID) {
		return nil, fmt.Errorf("the id %.70q is not usable: take small letters, digits, dots and dashes, 64 at most", p.ID)
	}
	p.Name = cmp.Or(p.Name, p.ID)
	return p, nil
}

var notInID = regexp.MustCompile(`[^a-z0-9._-]+`)

// identifier makes an id of a name, as of a package in a scope.
func identifier(name string) string {
	return strings.Trim(notInID.ReplaceAllString(strings.ToLower(name), "-"), "-._")
}

// A reader reads one plugin.
type reader struct {
	root *os.Root
	p    *Plugin
	keys map[string]json.RawMessage // of the manifest
}

func (r *reader) refused(part, format string, args ...any) {
	if len(r.p.Refused) < maxParts {
		r.p.Refused = append(r.p.Refused, Refusal{shorten(part), fmt.Sprintf(format, args...)})
	}
}

// text reads a regular file of moderate size.
func (r *reader) text(name string, most int64) ([]byte, error) {
	info, err := r.root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > most:
		return nil, fmt.Errorf("it is larger than %d KiB", most>>10)
	}
	return r.root.ReadFile(name)
}

// object reads a JSON object; nil without the file.
func (r *reader) object(name string) (map[string]json.RawMessage, error) {
	text, err := r.text(name, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal([]byte(strings.TrimPrefix(string(text), "\ufeff")), &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if all == nil {
		return nil, fmt.Errorf("%s: an object is expected", name)
	}
	return all, nil
}

func (r *reader) manifest() error {
	p := r.p
	p.Format = "claude, without a manifest"
	for _, f := range formats() {
		keys, err := r.object(f.file)
		if err != nil {
			return err
		}
		if keys != nil {
			p.Format, p.File, r.keys = f.format, f.file, keys
			break
		}
	}
	for key, into := range map[string]*string{"id": &p.ID, "name": &p.Name, "version": &p.Version, "description": &p.Description} {
		raw, ok := r.keys[key]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("%s: %s is to be a text", p.File, key)
		}
		*into = clean(*into)
	}
	if p.ID == "" && p.Format == "openclaw" {
		return fmt.Errorf("%s: its id is missing", p.File)
	}
	var pack struct{ Name, Version string }
	if text, err := r.text("package.json", maxManifest); err == nil && json.Unmarshal(text, &pack) == nil {
		p.Version = cmp.Or(p.Version, clean(pack.Version))
	}
	p.ID = cmp.Or(p.ID, identifier(p.Name), identifier(pack.Name))
	for _, key := range []string{"requiresPlugins", "dependencies"} {
		for _, name := range r.list(key) {
			p.Requires = append(p.Requires, clean(name))
		}
	}
	return nil
}

// list returns a key that is a text or a list of texts.
func (r *reader) list(key string) []string {
	raw, ok := r.keys[key]
	if !ok {
		return nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var all []string
	if json.Unmarshal(raw, &all) != nil {
		return nil // the kind that reads it says so
	}
	return all[:min(len(all), maxParts)]
}

// paths returns the places that a key names, and the usual one, all within the plugin.
func (r *reader) paths(key, usual string) []string {
	named := r.list(key)
	if raw, ok := r.keys[key]; ok && named == nil && string(raw) != "[]" && key != "mcpServers" {
		r.refused(key, "it is neither a path nor a list of paths")
	}
	var all []string
	for _, name := range append(named, usual) {
		name = path.Clean(strings.TrimPrefix(strings.ReplaceAll(name, `\`, "/"), "./"))
		switch {
		case !fs.ValidPath(name):
			r.refused(key+" "+name, "it leads out of the plugin")
		case !slices.Contains(all, name):
			all = append(all, name)
		}
	}
	return all
}

// isFile reports whether a name is a regular file, isFolder whether it is a folder; links are neither.
func (r *reader) isFile(name string) bool {
	info, err := r.root.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

func (r *reader) isFolder(name string) bool {
	info, err := r.root.Lstat(name)
	return err == nil && info.IsDir()
}

// names returns what is in a folder, sorted; nothing where there is none.
func (r *reader) names(dir string) []string {
	if !r.isFolder(dir) {
		return nil
	}
	entries, _ := fs.ReadDir(r.root.FS(), dir) // what cannot be read is not there
	var names []string
	for _, e := range entries {
		names = append(names, path.Join(dir, e.Name()))
	}
	return names
}

func (r *reader) skills() {
	for _, dir := range r.paths("skills", "skills") {
		folders := []string{dir}
		if !r.isFile(path.Join(dir, skills.File)) {
			folders = slices.DeleteFunc(r.names(dir), func(name string) bool { return !r.isFile(path.Join(name, skills.File)) })
		}
		for _, name := range folders {
			at := filepath.Join(r.p.Dir, filepath.FromSlash(name))
			if slices.Contains(r.p.Skills, at) {
				continue
			}
			if _, err := skills.Read(at); err != nil {
				r.refused("skill "+name, "%s", err)
			} else if len(r.p.Skills) == maxParts {
				r.refused("skill "+name, "there are more than %d", maxParts)
			} else {
				r.p.Skills = append(r.p.Skills, at)
			}
		}
	}
}

// markdown returns the files *.md at the places of a key, below a folder too, in order.
func (r *reader) markdown(key string) []string {
	var files []string
	for _, at := range r.paths(key, key) {
		if r.isFile(at) {
			files = append(files, at)
			continue
		}
		for _, name := range r.names(at) {
			files = append(files, name)
			files = append(files, r.names(name)...) // commands have folders
		}
	}
	files = slices.DeleteFunc(files, func(name string) bool { return !strings.HasSuffix(name, ".md") || !r.isFile(name) })
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) > maxParts {
		r.refused(key, "there are more than %d; those from %s on are left out", maxParts, shorten(files[maxParts]))
		files = files[:maxParts]
	}
	return files
}

var commandRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func validCommand(name string) bool { return len(name) <= 64 && commandRule.MatchString(name) }

func (r *reader) commands() {
	for _, file := range r.markdown("commands") {
		name := strings.TrimSuffix(path.Base(file), ".md")
		text, err := r.text(file, maxText)
		known := slices.ContainsFunc(r.p.Commands, func(c Command) bool { return c.Name == name })
		switch {
		case err != nil:
			r.refused("command "+file, "%s", err)
		case !validCommand(name):
			r.refused("command "+file, "its name is longer than 64 characters, or has others than letters, digits, dots and dashes")
		case known:
			r.refused("command "+file, "there is one of that name already")
		default:
			keys, body := skills.Fields(text, "description", "argument-hint")
			r.p.Commands = append(r.p.Commands, Command{
				Name: name, Text: strings.TrimSpace(strings.ToValidUTF8(body, "")), Hint: keys["argument-hint"],
				Description: cmp.Or(keys["description"], "A command of the plugin "+r.p.ID),
			})
		}
	}
}

func (r *reader) agents() {
	for _, file := range r.markdown("agents") {
		text, err := r.text(file, maxText)
		if err != nil {
			r.refused("agent "+file, "%s", err)
			continue
		}
		keys, body := skills.Fields(text, "name", "description")
		name := cmp.Or(keys["name"], strings.TrimSuffix(path.Base(file), ".md"))
		r.p.Agents = append(r.p.Agents, Agent{
			ID: strings.Trim(strings.NewReplacer(".", "-", "_", "-").Replace(identifier(name)), "-"), Name: name, Description: keys["description"],
			Instructions: strings.TrimSpace(strings.ToValidUTF8(body, "")), Path: filepath.Join(r.p.Dir, filepath.FromSlash(file)),
		})
	}
}

// servers reads those of the manifest, and of the files that it names.
func (r *reader) servers() {
	var inline map[string]json.RawMessage
	if json.Unmarshal(r.keys["mcpServers"], &inline) == nil {
		r.take(inline)
	}
	for _, file := range r.paths("mcpServers", ".mcp.json") {
		all, err := r.object(file)
		if err != nil {
			r.refused("mcpServers "+file, "%s", err)
			continue
		}
		if raw, ok := all["mcpServers"]; ok {
			all = nil
			if json.Unmarshal(raw, &all) != nil {
				r.refused("mcpServers "+file, "its mcpServers is no object")
			}
		}
		r.take(all)
	}
}

// ownRoot matches the ways in which a plugin calls its own folder.
var ownRoot = regexp.MustCompile(`\$\{(CLAUDE_PLUGIN_ROOT|CODEX_PLUGIN_ROOT|CURSOR_PLUGIN_ROOT|OPENCLAW_PLUGIN_ROOT|PLUGIN_ROOT)\}`)

var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

// take takes the servers that are programs.
func (r *reader) take(all map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var s struct {
			Type, Command, URL, CWD string
			Args                    []string
			Env                     map[string]string
		}
		err := json.Unmarshal(all[name], &s)
		texts := append([]string{s.Command}, s.Args...)
		for _, value := range s.Env {
			texts = append(texts, value)
		}
		wants := variable.FindStringSubmatch(ownRoot.ReplaceAllString(strings.Join(texts, "\n"), ""))
		part := "mcpServers " + name
		switch {
		case err != nil:
			r.refused(part, "it cannot be read: %s", err)
		case !validCommand(name):
			r.refused(part, "its name is longer than 64 characters, or has others than letters, digits, dots and dashes")
		case s.URL != "":
			r.refused(part, "it has an address, %s; give it to your editor, which may need your sign-in", clean(s.URL))
		case s.Command == "" || s.Type != "" && s.Type != "stdio":
			r.refused(part, "it is no program that speaks on its stdin and stdout")
		case wants != nil:
			r.refused(part, "it wants your variable %s, and no sandbox has one of those; give the server to your editor", clean(wants[1]))
		case s.CWD != "" && ownRoot.ReplaceAllString(s.CWD, "") != "" && s.CWD != ".":
			r.refused(part, "it wants to work in %s; servers work in the project", clean(s.CWD))
		case len(r.p.Servers) == maxParts:
			r.refused(part, "there are more than %d", maxParts)
		default:
			at := func(text string) string { return ownRoot.ReplaceAllLiteralString(text, r.p.Dir) }
			v := Server{Name: name, Command: at(s.Command), Args: []string{}, Env: map[string]string{}}
			if rel := strings.TrimPrefix(v.Command, "./"); rel != v.Command && fs.ValidPath(rel) {
				v.Command = filepath.Join(r.p.Dir, filepath.FromSlash(rel))
			}
			for _, arg := range s.Args {
				arg = at(arg)
				if rel := strings.TrimPrefix(arg, "./"); rel != arg && fs.ValidPath(rel) && r.isFile(rel) {
					arg = filepath.Join(r.p.Dir, filepath.FromSlash(rel))
				}
				v.Args = append(v.Args, arg)
			}
			for key, value := range s.Env {
				v.Env[key] = at(value)
			}
			r.p.Servers = append(r.p.Servers, v)
		}
	}
}

// clean makes one line of printable characters of a text.
func clean(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	return shorten(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, text))
}

func shorten(text string) string {
	if r := []rune(text); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return text
}
