package show

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/natefinch/atomic"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// timesFile keeps in gander's home how many seconds work took the last time, for estimates.
const timesFile = "times.json"

// times holds how long work took, by its label. Nil knows nothing and keeps nothing.
type times struct{ file string }

// timesOf returns the times of gander's home; nil without a configuration that says where it is.
func timesOf(a *cli.App) *times {
	if a.Config == nil {
		return nil
	}
	return &times{filepath.Join(a.Config.Home, timesFile)}
}

func (t *times) read() map[string]float64 {
	known := map[string]float64{}
	text, err := os.ReadFile(t.file)
	if err != nil || json.Unmarshal(text, &known) != nil {
		return map[string]float64{} // an estimate is nothing to complain about
	}
	return known
}

// last returns how long the work took the last time; 0 when that is not known.
func (t *times) last(label string) time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.read()[label] * float64(time.Second))
}

// keep keeps how long the work took, where that is long enough to be estimated and gander has
// a home.
func (t *times) keep(label string, took time.Duration) {
	if t == nil || took < 2*time.Second {
		return
	}
	if _, err := os.Stat(filepath.Dir(t.file)); err != nil {
		return
	}
	known := t.read()
	known[label] = took.Round(100 * time.Millisecond).Seconds()
	if text, err := json.Marshal(known); err == nil {
		_ = atomic.WriteFile(t.file, bytes.NewReader(text))
	}
}
