package loop

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// readTail reads the end of a file in the workspace, which the agent may have made
// anything of: links are not followed, and what is no file has no text.
func readTail(workspace, name string) (string, error) {
	f, err := openNoFollow(filepath.Join(workspace, name))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", name)
	}
	from := max(0, info.Size()-sectionLimit-4) // a bit more, so that it is known to be cut
	text, err := io.ReadAll(io.NewSectionReader(f, from, sectionLimit+4))
	if err != nil {
		return "", err
	}
	return tail(string(text), sectionLimit), nil
}

// writeFile puts a file in one go in the place of whatever has its name. It survives a
// crash: it is the old one or the new one.
func writeFile(dir, name string, data []byte) (err error) {
	temp := filepath.Join(dir, name+"."+strings.ToLower(rand.Text()[:8]))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, name))
}

// savedFile is where Store keeps a Saved.
const savedFile = "loop.json"

// Store keeps what a loop said is to be kept in a directory of the run, for Load.
func Store(dir string, s Saved) error {
	data, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = writeFile(dir, savedFile, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keeping the state of the loop in %s: %w", dir, err)
	}
	return nil
}

// Load reads what Store has kept; the zero value when that is nothing.
func Load(dir string) (Saved, error) {
	var s Saved
	data, err := os.ReadFile(filepath.Join(dir, savedFile))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return Saved{}, fmt.Errorf("reading the state of the loop in %s: %w; remove the file to begin anew", dir, err)
	}
	return s, nil
}
