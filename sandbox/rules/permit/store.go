package permit

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/natefinch/atomic"
)

// maxRules bounds the rules of a project; of more the oldest are forgotten, so that
// the person is asked again.
const maxRules = 1000

// maxFile bounds a project's file, in bytes.
const maxFile = 8 << 20

// Store keeps rules below a directory. It is safe for concurrent use, also by
// several processes.
type Store struct{ dir string }

// Open returns the store in a directory, which need not exist.
func Open(dir string) *Store { return &Store{dir} }

// project is the content of a file.
type project struct {
	Project string `json:"project"`
	Rules   []Rule `json:"rules"`
}

// Find returns the rule that answers a question in a project; false when there is
// none. isolated says whether the agent that asks is in a sandbox that isolates. A
// refusal wins over a permission.
func (s *Store) Find(projectDir string, subject Subject, isolated bool) (Rule, bool, error) {
	p, err := s.read(s.file(projectDir))
	if err != nil {
		return Rule{}, false, err
	}
	var found *Rule
	for i := range p.Rules {
		if r := &p.Rules[i]; r.holds(subject, isolated) && (found == nil || !r.Allow) {
			found = r
		}
	}
	if found == nil {
		return Rule{}, false, nil
	}
	return *found, true, nil
}

// Add remembers an answer, in the place of an earlier one about the same. It is on
// the disk when Add returns. The rule's ID and Created are made here.
func (s *Store) Add(projectDir string, r Rule) (Rule, error) {
	r.ID, r.Created = strings.ToLower(rand.Text()[:8]), time.Now().UTC().Truncate(time.Millisecond)
	err := s.change(projectDir, func(p *project) {
		p.Rules = slices.DeleteFunc(p.Rules, func(old Rule) bool { return old.Subject == r.Subject && old.Isolated == r.Isolated })
		p.Rules = append(p.Rules, r)
		if over := len(p.Rules) - maxRules; over > 0 {
			p.Rules = slices.Delete(p.Rules, 0, over)
		}
	})
	return r, err
}

// ErrNoRule says that there is no rule of that id.
var ErrNoRule = errors.New("no such rule")

// Revoke forgets one rule of a project.
func (s *Store) Revoke(projectDir, id string) error {
	found := false
	err := s.change(projectDir, func(p *project) {
		n := len(p.Rules)
		p.Rules = slices.DeleteFunc(p.Rules, func(r Rule) bool { return r.ID == id })
		found = len(p.Rules) < n
	})
	if err == nil && !found {
		return fmt.Errorf("%w: %s", ErrNoRule, id)
	}
	return err
}

// Clear forgets all rules of a project and returns how many there were. A file that
// cannot be read is removed, too.
func (s *Store) Clear(projectDir string) (int, error) {
	n := 0
	err := s.locked(func() error {
		p, _ := s.read(s.file(projectDir)) // whatever it holds, it goes
		n = len(p.Rules)
		err := os.Remove(s.file(projectDir))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return n, err
}

// Rules are those of a project, the oldest first.
func (s *Store) Rules(projectDir string) ([]Rule, error) {
	p, err := s.read(s.file(projectDir))
	return p.Rules, err
}

// Projects are the directories that have rules, sorted. Files that cannot be read
// are left out and told in the error.
func (s *Store) Projects() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var dirs []string
	var errs []error
	for _, file := range files {
		p, err := s.read(file)
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(p.Rules) > 0:
			dirs = append(dirs, p.Project)
		}
	}
	slices.Sort(dirs)
	return dirs, errors.Join(errs...)
}

// Canonical is the directory by which a project is known: without links, where it exists.
func Canonical(dir string) string {
	if dir == Everywhere {
		return dir
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return filepath.Clean(dir)
}

// file is the file of a project.
func (s *Store) file(projectDir string) string {
	sum := sha256.Sum256([]byte(Canonical(projectDir)))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

func (s *Store) read(file string) (project, error) {
	var p project
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil
	case err == nil && info.Size() > maxFile:
		err = fmt.Errorf("it has %d bytes", info.Size())
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(file)
	}
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return project{}, fmt.Errorf("reading remembered permissions from %s: %w; until it is mended or removed (gander session permissions clear) every question is asked", file, err)
	}
	return p, nil
}

// change changes the rules of a project while no other process does.
func (s *Store) change(projectDir string, f func(*project)) error {
	return s.locked(func() error {
		file := s.file(projectDir)
		p, err := s.read(file)
		if err != nil {
			return err
		}
		p.Project = Canonical(projectDir)
		f(&p)
		raw, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		return atomic.WriteFile(file, bytes.NewReader(append(raw, '\n')))
	})
}

func (s *Store) locked(f func() error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("remembering permissions: %w", err)
	}
	l := flock.New(filepath.Join(s.dir, ".lock"), flock.SetPermissions(0o600))
	if err := l.Lock(); err != nil {
		return fmt.Errorf("remembering permissions: waiting for another gander: %w", err)
	}
	defer func() { _ = l.Unlock() }()
	if err := f(); err != nil {
		return fmt.Errorf("remembering permissions: %w", err)
	}
	return nil
}
