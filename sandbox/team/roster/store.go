package roster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/natefinch/atomic"
)

// Create writes the manifest of a new agent.
func (s Store) Create(m Manifest) error {
	if why := CheckID(m.ID); why != "" {
		return errors.New(why)
	}
	if _, err := os.Lstat(s.path(m.ID)); err == nil {
		return fmt.Errorf("there is an agent %s already, in %s; change it with gander agent set %[1]s, or take another name", m.ID, s.path(m.ID))
	}
	text := format(m)
	if _, problem := Parse(m.ID, []byte(text)); problem != nil {
		return errors.New(problem.Reason)
	}
	return s.write(m.ID, text)
}

// write replaces a manifest at one stroke.
func (s Store) write(id, text string) error {
	dir := filepath.Join(s.Agents, id)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a folder, but a link or a file; take it away", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if len(text) > maxFile {
		return fmt.Errorf("the manifest would be larger than %d KiB", maxFile>>10)
	}
	if err := atomic.WriteFile(s.path(id), bytes.NewReader([]byte(text))); err != nil {
		return err
	}
	return os.Chmod(s.path(id), 0o600)
}

// format writes a manifest as a file.
func format(m Manifest) string {
	var b strings.Builder
	b.WriteString(fence + "\nid: " + m.ID + "\n")
	for _, v := range []struct{ key, value string }{
		{"name", m.Name},
		{"description", m.Description},
		{"provider", m.Provider},
		{"endpoint", m.Endpoint},
		{"model", m.Model},
		{"mode", m.Mode},
		{"access", m.Access},
		{"workspaceAccess", m.WorkspaceAccess},
	} {
		if v.value != "" {
			b.WriteString(v.key + ": " + quote(v.value) + "\n")
		}
	}
	if len(m.Tags) > 0 {
		b.WriteString("tags: " + inList(m.Tags) + "\n")
	}
	fmt.Fprintf(&b, "delegation: {canReceive: %t, canDelegate: %t}\npriority: %d\n", m.Delegation.CanReceive, m.Delegation.CanDelegate, m.Priority)
	if !m.Discoverable {
		b.WriteString("discoverable: false\n")
	}
	b.WriteString(fence + "\n")
	if m.Instructions != "" {
		b.WriteString("\n" + strings.TrimSpace(m.Instructions) + "\n")
	}
	return b.String()
}

func inList(list []string) string { return "[" + strings.Join(list, ", ") + "]" }

// Set changes keys of a front matter; an empty value takes its key out. What else is in the
// file stays, comments too.
func (s Store) Set(id string, values map[string]string) error {
	data, err := s.text(id)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no manifest of an agent %q; make it with gander agent create %[1]s", id)
	}
	if err != nil {
		return &Problem{Agent: id, Path: s.path(id), Reason: err.Error()}
	}
	front, body, problem := split(data)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if problem != nil {
			break
		}
		if key == "id" || !slices.Contains(Keys(), key) {
			return fmt.Errorf("%q is no key that can be set; choose among %s", key, strings.Join(Keys()[1:], ", "))
		}
		front, problem = setIn(front, key, values[key])
	}
	text := fence + "\n" + strings.Join(append(front, fence), "\n") + "\n" + body
	if problem == nil {
		_, problem = Parse(id, []byte(text))
	}
	if problem != nil {
		problem.Agent, problem.Path = id, s.path(id)
		return problem
	}
	return s.write(id, text)
}

// setIn changes one key in the lines of a front matter.
func setIn(front []string, key, value string) ([]string, *Problem) {
	keys, problem := parseFront(front)
	if problem != nil {
		return nil, problem
	}
	i := slices.IndexFunc(keys, func(e entry) bool { return e.key == key })
	group, name, grouped := strings.Cut(key, ".")
	text := quote(value)
	if key == "tags" {
		text = inList(tags(strings.Split(strings.Trim(value, "[]"), ",")))
	}
	switch {
	case i < 0 && value == "":
		return front, nil
	case i < 0:
		return append(front, key+": "+text), nil
	}
	first, last := keys[i].line-2, keys[i].end-2
	line := front[first]
	switch {
	case grouped && strings.Contains(line, "{"): // the others of the map stay
		var parts []string
		for _, e := range keys {
			if in, ok := strings.CutPrefix(e.key, group+"."); ok && e.key != key {
				parts = append(parts, in+": "+quote(e.text))
			}
		}
		if value != "" {
			parts = append(parts, name+": "+text)
		}
		return slices.Replace(front, first, last+1, group+": {"+strings.Join(parts, ", ")+"}"), nil
	case value == "":
		return slices.Delete(front, first, last+1), nil
	}
	head, _, _ := strings.Cut(line, ":")
	return slices.Replace(front, first, last+1, head+": "+text), nil
}

// Delete takes an agent's manifest away, and its workspace unless that is to be kept. What
// npm has installed in the same folder stays.
func (s Store) Delete(id string, keepWorkspace bool) error {
	if why := CheckID(id); why != "" {
		return errors.New(why)
	}
	if err := os.Remove(s.path(id)); err != nil {
		return cause(err)
	}
	_ = os.Remove(filepath.Join(s.Agents, id)) // unless something else is in it
	if keepWorkspace {
		return nil
	}
	return os.RemoveAll(s.Workspace(id))
}

// MakeWorkspace makes the directory of an agent's own where it is not there, and returns it.
func (s Store) MakeWorkspace(id string) (string, error) {
	dir := s.Workspace(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory, but a link or a file; take it away", dir)
	}
	return dir, nil
}
