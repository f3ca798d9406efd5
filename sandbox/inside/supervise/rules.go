package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	for _, m := range spec.Mounts {
		if !m.Writable && !m.Ruled {
			continue
		}
		real, err := filepath.EvalSymlinks(m.Path)
		if err != nil {
			return nil, fmt.Errorf("reading the rules of %s: %w", m.Path, err)
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
