package policy

import (
	"bytes"
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

	"github.com/natefinch/atomic"
)

// TrustStore remembers which content of which project's file the person trusts, and what
// that was shown to ask for, in a directory with a file per project. Another content is
// not trusted, nor the same content in another project. Several processes may use it.
type TrustStore struct{ Dir string }

type trustRecord struct {
	Project string    `json:"project"`
	SHA256  string    `json:"sha256"`
	Granted []Request `json:"granted"`
	Time    time.Time `json:"time"`
}

// Trusted is what the content of the project's file was granted; nil when it is not
// trusted. What cannot be read is not, nor what an older gander trusted, which did not
// remember what it had shown.
func (s TrustStore) Trusted(project string, content []byte) []Request {
	file, real, err := s.file(project)
	if err != nil {
		return nil
	}
	raw, err := os.ReadFile(file)
	var r trustRecord
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Project != real || r.SHA256 != digest(content) {
		return nil
	}
	return r.Granted
}

// Stores returns those of the stores of git's objects that a project has elsewhere which were
// there when it was first asked about, or when the person agreed. With agree those of now are
// remembered in their place.
func (s TrustStore) Stores(project string, now []string, agree bool) []string {
	file, _, err := s.file(project)
	if err != nil {
		return nil
	}
	file = strings.TrimSuffix(file, ".json") + ".stores"
	raw, err := os.ReadFile(file)
	if known := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00"); err == nil && !agree {
		return slices.DeleteFunc(slices.Clone(now), func(store string) bool { return !slices.Contains(known, store) })
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	text := strings.Join(now, "\x00")
	if os.MkdirAll(s.Dir, 0o700) != nil || atomic.WriteFile(file, strings.NewReader(text)) != nil {
		return nil
	}
	return now
}

// Trust remembers the content of the project's file and what it is granted, and nothing
// that was trusted in this project before.
func (s TrustStore) Trust(project string, content []byte, granted []Request) error {
	file, real, err := s.file(project)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(trustRecord{real, digest(content), granted, time.Now().UTC().Truncate(time.Second)}, "", "  ")
	if err != nil {
		return fmt.Errorf("remembering the trust in %s: %w", project, err)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("remembering the trust in %s: %w; choose a directory that you can write with --home or GANDER_HOME", project, err)
	}
	if err := atomic.WriteFile(file, bytes.NewReader(append(raw, '\n'))); err != nil {
		return fmt.Errorf("remembering the trust in %s: %w", project, err)
	}
	return os.Chmod(file, 0o600)
}

// Forget takes the trust in a project back; it reports whether there was any.
func (s TrustStore) Forget(project string) (bool, error) {
	file, _, err := s.file(project)
	if err != nil {
		return false, err
	}
	err = os.Remove(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// file is where the trust in a project is remembered, and the project's real path.
func (s TrustStore) file(project string) (file, real string, err error) {
	real, err = filepath.Abs(project)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return "", "", fmt.Errorf("looking for the project %s: %w", project, err)
	}
	return filepath.Join(s.Dir, digest([]byte(real))[:32]+".json"), real, nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
