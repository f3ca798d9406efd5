package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files must be quiet before they are read again: an
	// editor's save is several events.
	settle = 75 * time.Millisecond
	// breath is between the taking of two events.
	breath = settle / 3
	// longest is how long events that do not end put that off.
	longest = time.Second
	// pollEvery is how often files are looked at that no event told of.
	pollEvery = 2 * time.Second
)

// Watch calls changed with the new configuration each time the content of a file
// of c has changed since it was loaded, until ctx ends, whose error it returns. When the new content
// is wrong, changed gets the last good configuration and the error. The calls
// come one at a time. Where no event tells of a change (the system has no watches left, or
// the file system is another machine's), it is found by a look every two seconds.
func (c *Config) Watch(ctx context.Context, changed func(*Config, error)) error {
	told := make(chan struct{}, 1)
	w := watch{current: c, seen: c.seen}
	if watcher, err := fsnotify.NewWatcher(); err == nil {
		w.add = watcher.Add
		var taking sync.WaitGroup
		taking.Go(func() { take(ctx, watcher, told) })
		defer taking.Wait()
		defer watcher.Close()
	}
	return w.run(ctx, told, changed)
}

// take takes events, of which told gets one, until the watcher is closed: what adds a
// directory may wait for that. A program that writes to a file beside those that are
// watched makes tens of thousands in a second, which the kernel keeps as one as long as
// nobody takes them.
func take(ctx context.Context, watcher *fsnotify.Watcher, told chan<- struct{}) {
	for events, errs := watcher.Events, watcher.Errors; events != nil || errs != nil; {
		select {
		case _, open := <-events:
			if !open {
				events = nil
				continue
			}
		case _, open := <-errs: // an overflow: anything may have changed
			if !open {
				errs = nil
				continue
			}
		}
		select {
		case told <- struct{}{}:
		default:
		}
		select {
		case <-time.After(breath):
		case <-ctx.Done():
		}
	}
}

// A watch is a Watch under way; one goroutine owns it.
type watch struct {
	current *Config
	seen    [sha256.Size]byte
	add     func(dir string) error // watches a directory; one that is watched is nothing new. nil where nothing can be
}

func (w *watch) run(ctx context.Context, told <-chan struct{}, changed func(*Config, error)) error {
	quiet := time.NewTimer(settle)
	quiet.Stop()
	defer quiet.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var since time.Time // the first event that is not dealt with
	w.look(changed)     // what changed before the watch stood
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-told:
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) < longest {
				quiet.Reset(settle)
			}
		case <-quiet.C:
			since = time.Time{}
			w.look(changed)
		case <-poll.C:
			if since.IsZero() { // else a file may be half written
				w.look(changed)
			}
		}
	}
}

// look watches where the files are now, and reads them if they are different.
func (w *watch) look(changed func(*Config, error)) {
	if w.add != nil {
		w.addAll()
	}
	w.reload(changed)
}

// reload reads the files again if they are different.
func (w *watch) reload(changed func(*Config, error)) {
	now := w.current.fingerprint()
	if now == w.seen {
		return
	}
	w.seen = now
	next, err := w.current.Reload()
	if err != nil {
		changed(w.current, fmt.Errorf("reloading the configuration; the previous one still holds: %w", err))
		return
	}
	w.current, w.seen = next, next.seen
	changed(next, nil)
}

// addAll watches the directories that the files are in. What is made between the look for a
// directory and its watch has no event: it looks again when it found new ones. What cannot be
// watched, or changes all the time, is left to the poll.
func (w *watch) addAll() {
	var before []string
	for range 8 {
		dirs := w.current.watched()
		if slices.Equal(dirs, before) {
			return
		}
		before = dirs
		for _, dir := range dirs {
			_ = w.add(dir)
		}
	}
}

// directories are what to watch to see a file change: where it is, or until that
// exists the nearest directory above, and where it really is when it is a link.
func directories(file string) []string {
	dir := filepath.Dir(file)
	for {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	dirs := []string{dir}
	if target, err := filepath.EvalSymlinks(file); err == nil && filepath.Dir(target) != dir {
		dirs = append(dirs, filepath.Dir(target))
	}
	return dirs
}

// watched are the directories in which changes count. The project's is none that a link
// in the project leads to.
func (c *Config) watched() []string {
	dirs := directories(c.userPath())
	if c.o.ProjectDir != "" {
		dirs = append(dirs, c.o.ProjectDir)
	}
	for _, file := range c.KeyFiles() {
		dirs = append(dirs, directories(file)...)
	}
	for _, m := range c.team {
		dirs = append(dirs, filepath.Dir(m.Path))
	}
	return dirs
}

// sameOptions are those that load c again.
func (c *Config) sameOptions() Options {
	o := c.o
	o.Home = c.Home // what the variables and the working directory said then
	return o
}

// fingerprint is a hash of what the files say, or why they cannot be read.
func (c *Config) fingerprint() [sha256.Size]byte {
	return sumKeys(c.readKeys(), c.filesSum())
}

// sumKeys adds the keys to the hash of the other files.
func sumKeys(keys map[string]keyFile, files [sha256.Size]byte) [sha256.Size]byte {
	sum := files[:]
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		sum = fmt.Appendf(sum, "%q %v\n%q\n", path, keys[path].err, keys[path].key.Reveal())
	}
	return sha256.Sum256(sum)
}

// filesSum is the fingerprint without the file of the key.
func (c *Config) filesSum() [sha256.Size]byte {
	h := sha256.New()
	files := []*file{readFile(c.userPath())}
	if c.o.ProjectDir != "" {
		files = append(files, readProjectFile(c.o.ProjectDir))
	}
	for _, f := range files {
		fmt.Fprintf(h, "%d %v\n%s", len(f.data), f.err, f.data)
	}
	team, wrong := c.readTeam()
	fmt.Fprintf(h, "%+v %+v", team, wrong)
	return [sha256.Size]byte(h.Sum(nil))
}
