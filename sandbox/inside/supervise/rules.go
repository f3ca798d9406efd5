package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gander.dev/gander/sandbox"
)

// ownRulesTime bounds passing on changed rules.
const ownRulesTime = 10 * time.Second

// LeftOut ends the names of the directories below Rules.GitStore in which the objects are
// that git inside is not to read.
const LeftOut = ".closed"

// maxOwnRules bounds the person's own rules file, in bytes.
const maxOwnRules = 1 << 20

// ReadRules makes the rules of a sandbox for Setup: for the project, by its real
// path, and every mount that is writable or ruled. It is nil when the Spec has none.
func ReadRules(spec sandbox.Spec, project string) (*Rules, error) {
	if spec.Rules == nil {
		return nil, nil
	}
	r := &Rules{Trees: []string{project}, Writes: spec.Rules.Writes}
	r.place(spec.Rules, project)
	for _, m := range spec.Mounts {
		if !m.Writable && !m.Ruled {
			continue
		}
		real, err := filepath.EvalSymlinks(m.Path)
		if err != nil {
			return nil, fmt.Errorf("reading the rules of %s: %w", m.Path, err)
		}
		if r.Gits[real] != "" || real == spec.Rules.Place.Top || real == spec.Rules.Place.Inner {
			continue
		}
		if st, err := os.Stat(real); err == nil && st.IsDir() {
			r.Trees = append(r.Trees, real)
			if m.Ruled {
				r.Roots = append(r.Roots, real)
			}
		}
	}
	var err error
	if spec.Rules.GitStore != "" {
		if r.GitStore, err = filepath.EvalSymlinks(spec.Rules.GitStore); err != nil {
			return nil, fmt.Errorf("reading the rules of %s: %w", spec.Rules.GitStore, err)
		}
	}
	r.ownPath = spec.Rules.Own
	r.Own, r.HasOwn, err = readOwn(r.ownPath)
	return r, err
}

// place takes in where git's data of the project is.
func (r *Rules) place(of *sandbox.Rules, project string) {
	p := of.Place
	if p.Top != "" {
		r.Trees[0], r.Project = p.Top, project
		if !of.Whole {
			r.Narrow = []string{project}
			if p.Inner != "" {
				r.Narrow = append(r.Narrow, p.Inner)
			}
		}
	}
	if p.Common == "" {
		return
	}
	r.Gits = map[string]string{p.Common: p.Dir}
	if !isIn(p.Dir, p.Common) {
		r.Gits[p.Dir] = p.Dir
	}
	for _, dir := range slices.Sorted(maps.Keys(r.Gits)) {
		r.Trees, r.Roots = append(r.Trees, dir), append(r.Roots, dir)
	}
}

func readOwn(path string) (text string, ok bool, err error) {
	if path == "" {
		return "", false, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading your own rules for files: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxOwnRules+1))
	if err == nil && len(raw) > maxOwnRules {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxOwnRules)
	}
	if err != nil {
		return "", false, fmt.Errorf("reading your own rules for files: %w", err)
	}
	return string(raw), true, nil
}

// isIn reports whether a path is a directory's, or one in it.
func isIn(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
