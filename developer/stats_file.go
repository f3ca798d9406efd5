package developer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// maxStatsFile is the size at which a file of records is put aside, replacing the
// one that was put aside before.
const maxStatsFile = 1 << 20

// Append adds the numbers to a file of one JSON record a line, 0600, whose
// directory it makes; several servers may share it. Nothing is written when
// nothing was called.
func (s *Stats) Append(path string) error {
	if len(s.Tools()) == 0 {
		return nil
	}
	record, err := json.Marshal(struct {
		PID int `json:"pid"`
		*jsonStats
	}{os.Getpid(), s.record()})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing the statistics: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxStatsFile {
		_ = os.Rename(path, path+".1") // else it grows
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing the statistics: %w", err)
	}
	_, err = f.Write(append(record, '\n')) // at once: others append too
	return errors.Join(err, f.Close())
}
