package telemetry

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// How long, and how far, a Meter looks at the disk.
const (
	diskTime    = 500 * time.Millisecond
	diskEntries = 200_000
)

const megabyte = 1e6

// Meter measures what this process and all below it use: within a sandbox that is the
// loop and the agent with everything it runs, and nothing of the machine. Memory is what
// they do not share with files. Disk is what the files of a directory take up, as far
// as half a second reaches. Methods are safe for concurrent use.
type Meter struct {
	dir string

	// mu guards the fields below.
	mu   sync.Mutex
	at   time.Time
	cpu  time.Duration // used until then
	disk float64
}

// NewMeter makes a Meter of this process and the files of a directory.
func NewMeter(dir string) *Meter {
	m := &Meter{dir: dir, at: time.Now()}
	m.cpu, _ = use()
	return m
}

// Vitals measures. CPU is since the last call. Disk is measured only when asked for, and
// as it was last otherwise.
func (m *Meter) Vitals(disk bool) Vitals {
	used := 0.0
	if disk {
		used = usedBy(m.dir)
	}
	cpu, memory := use()
	m.mu.Lock()
	defer m.mu.Unlock()
	if disk {
		m.disk = used
	}
	now := time.Now()
	v := Vitals{Memory: float64(memory) / megabyte, Disk: m.disk}
	if passed := now.Sub(m.at); passed > 0 && cpu > m.cpu {
		v.CPU = 100 * float64(cpu-m.cpu) / float64(passed)
	}
	m.at, m.cpu = now, cpu
	return v
}

// usedBy is what the files below a directory take up, in MB. Links are not followed.
func usedBy(dir string) float64 {
	var size int64
	entries, end := 0, time.Now().Add(diskTime)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if entries++; entries > diskEntries || entries%64 == 0 && time.Now().After(end) {
			return fs.SkipAll
		}
		if err != nil {
			return nil // what cannot be looked at is not counted
		}
		if info, err := d.Info(); err == nil && (info.Mode().IsRegular() || info.IsDir()) {
			size += allocated(info)
		}
		return nil
	})
	return float64(size) / megabyte
}
