package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// keyFile is what the file of model.apiKeyFile held when the configuration was loaded.
type keyFile struct {
	key Secret
	err error
}

// readKeyFile reads a key that is alone in a file, which nobody else may read.
func readKeyFile(path string) keyFile {
	if path == "" {
		return keyFile{}
	}
	data, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return keyFile{err: fmt.Errorf("there is no file %s; write the key into it, or have gander setup --store-key do so", path)}
	}
	if err != nil {
		return keyFile{err: fmt.Errorf("%s: %w", path, err)}
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return keyFile{err: fmt.Errorf("%s can be read by others; make it yours alone: chmod 600 %[1]s", path)}
	}
	key := strings.TrimSpace(string(data))
	if key == "" || strings.ContainsAny(key, "\r\n\x00") {
		return keyFile{err: fmt.Errorf("%s does not hold one key on one line", path)}
	}
	return keyFile{key: Secret(key)}
}

// A Key is the model's key and where it comes from.
type Key struct {
	// Value is empty when there is no key.
	Value Secret
	// Source names the variable, the file or the setting; empty when none is configured.
	Source string
}

// Key is the key for the model endpoint: LLM_API_KEY, else what the user's file
// names or holds. A source that is configured and has no key is an error.
func (c *Config) Key() (Key, error) {
	if name, key := c.env.first("LLM_API_KEY"); key != "" {
		return Key{Secret(key), name}, nil
	}
	switch m := c.Model; {
	case m.APIKeyEnv != "":
		_, key := c.env.first(m.APIKeyEnv)
		k := Key{Secret(key), m.APIKeyEnv}
		if key == "" {
			return k, &Error{Path: "model.apiKeyEnv", Reason: fmt.Sprintf("the variable %s, which should hold the model's key, is not set here; set it where gander is started (an editor may not see a shell's variables), or have gander setup --store-key keep the key in a file", m.APIKeyEnv)}
		}
		return k, nil
	case m.APIKeyFile != "":
		file := c.keys[m.APIKeyFile]
		k := Key{file.key, m.APIKeyFile}
		if file.err != nil {
			return k, &Error{Path: "model.apiKeyFile", Reason: file.err.Error()}
		}
		return k, nil
	case m.APIKey != "":
		return Key{m.APIKey, "model.apiKey in " + c.userPath()}, nil
	}
	return Key{}, nil
}

// checkKey fails for more than one place of the key, and for places that cannot be one.
func (d *decoder) checkKey(c *Config) {
	if d.wasSet("model.apiKeyEnv") && c.Model.APIKeyEnv != "" && !isVariable(c.Model.APIKeyEnv) {
		d.failAt("model.apiKeyEnv", errors.New("is not the name of a variable; the key itself does not belong here"))
	}
	if d.wasSet("model.apiKeyFile") && c.Model.APIKeyFile != "" {
		c.Model.APIKeyFile = d.checkPath("model.apiKeyFile", c.Model.APIKeyFile, c.env)
	}
	var set []string
	for _, s := range []struct {
		path string
		is   bool
	}{{"model.apiKeyEnv", c.Model.APIKeyEnv != ""}, {"model.apiKeyFile", c.Model.APIKeyFile != ""}, {"model.apiKey", c.Model.APIKey != ""}} {
		if d.wasSet(s.path) && s.is {
			set = append(set, s.path)
		}
	}
	if len(set) > 1 {
		d.failAt(set[1], fmt.Errorf("the key has one place; take out %s or %s", set[0], set[1]))
	}
}

// checkHidden fails when a directory that the user or a trusted project has opened to
// sandboxes has to do with gander's own, in which there are keys, or when the file of the
// key is in one of those or in the project.
func (c *Config) checkHidden() error {
	shown := slices.Clone(c.Sandbox.ReadOnlyPaths)
	for _, a := range c.Agents {
		shown = append(shown, a.ReadOnlyPaths...)
	}
	for _, dir := range shown {
		if within(c.Home, dir) || within(dir, c.Home) {
			return &Error{Path: "readOnlyPaths", Reason: fmt.Sprintf("%s would show sandboxes gander's own files in %s, which hold keys and conversations; take it out, or move the files with --home or GANDER_HOME", dir, c.Home)}
		}
	}
	for _, dir := range append(shown, c.o.ProjectDir) {
		for _, file := range c.KeyFiles() {
			if dir != "" && within(file, dir) {
				key := "providers"
				if file == c.Model.APIKeyFile {
					key = "model.apiKeyFile"
				}
				return &Error{Path: key, Reason: fmt.Sprintf("the file of the key, %s, is in %s, which sandboxes see; move it out of there", file, dir)}
			}
		}
	}
	return nil
}

// KeyFiles are the paths of the files with keys, sorted.
func (c *Config) KeyFiles() []string {
	files := []string{c.Model.APIKeyFile}
	for _, p := range c.Providers {
		files = append(files, p.APIKeyFile)
	}
	slices.Sort(files)
	return slices.DeleteFunc(slices.Compact(files), func(f string) bool { return f == "" })
}

// readKeys reads the files with keys.
func (c *Config) readKeys() map[string]keyFile {
	keys := map[string]keyFile{}
	for _, file := range c.KeyFiles() {
		keys[file] = readKeyFile(file)
	}
	return keys
}

// within reports whether a path is dir or below it, links followed.
func within(path, dir string) bool {
	for _, p := range []*string{&path, &dir} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rest, err := filepath.Rel(dir, path)
	return err == nil && (rest == "." || filepath.IsLocal(rest))
}

// ReadKeyFile reads a key as model.apiKeyFile is read.
func ReadKeyFile(path string) (Secret, error) {
	k := readKeyFile(path)
	return k.key, k.err
}
