package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

type change struct {
	config *Config
	err    error
}

// watching runs Watch and returns its calls.
func watching(t *testing.T, c *Config) <-chan change {
	t.Helper()
	changes := make(chan change, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Watch(ctx, func(c *Config, err error) { changes <- change{c, err} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch = %v", err)
		}
	})
	return changes
}

// waitFor reads changes until one has the level, and fails on an error before.
func waitFor(t *testing.T, changes <-chan change, level string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case c := <-changes:
			if c.err != nil {
				t.Fatal(c.err)
			}
			if c.config.Log.Level == level {
				return
			}
		case <-late:
			t.Fatalf("no change to the level %q within a minute", level)
		}
	}
}

func level(l string) string { return `{"log": {"level": "` + l + `"}}` }

// save replaces a file as careful editors do.
func save(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+"~", content)
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	home := filepath.Join(t.TempDir(), "not", "there", "yet")
	c, err := Load(Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	changes := watching(t, c)
	file := filepath.Join(home, UserFile)
	save(t, file, level("info"))
	waitFor(t, changes, "info")
	save(t, file, level("debug"))
	waitFor(t, changes, "debug")
	save(t, file, level("loud"))
	bad := <-changes
	if bad.err == nil || !strings.Contains(bad.err.Error(), "log.level") || bad.config.Log.Level != "debug" {
		t.Errorf("bad file: %v, %v; want the old one and the error", bad.config, bad.err)
	}
	save(t, file, level("error"))
	waitFor(t, changes, "error")
	if err := os.RemoveAll(home); err != nil {
		t.Fatal(err)
	}
	waitFor(t, changes, "warn")
	save(t, file, level("silent"))
	waitFor(t, changes, "silent")
}

// A file that is a link changes where it is kept.
func TestWatchLink(t *testing.T) {
	home, kept := t.TempDir(), filepath.Join(t.TempDir(), "dotfiles.json")
	write(t, kept, level("info"))
	if err := os.Symlink(kept, filepath.Join(home, UserFile)); err != nil {
		t.Skip("this system has no links for this person:", err)
	}
	c, err := Load(Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	changes := watching(t, c)
	save(t, kept, level("debug"))
	waitFor(t, changes, "debug")
}

// A link in the project's place leads nowhere.
func TestWatchFollowsNoLinkOfAProject(t *testing.T) {
	project, outside := t.TempDir(), t.TempDir()
	c, err := Load(Options{Home: t.TempDir(), ProjectDir: project})
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(outside, "settings.json")
	write(t, target, level("info"))
	if err := os.Symlink(target, filepath.Join(project, ProjectFile)); err != nil {
		t.Skip("this system has no links for this person:", err)
	}
	before := c.fingerprint()
	write(t, target, level("debug"))
	if c.fingerprint() != before {
		t.Error("what a link leads to was read")
	}
	if slices.Contains(c.watched(), outside) {
		t.Error("what a link leads to is watched")
	}
}

// Directories that are made while the nearest one is looked for are watched all the same.
func TestWatchMadeMeanwhile(t *testing.T) {
	top := t.TempDir()
	home := filepath.Join(top, "not", "there", "yet")
	c, err := Load(Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	var added []string
	w := watch{current: c, seen: c.seen, add: func(dir string) error {
		added = append(added, dir)
		return os.MkdirAll(home, 0o700)
	}}
	w.addAll()
	if want := []string{top, home}; !slices.Equal(added, want) {
		t.Errorf("watched %q, want %q", added, want)
	}
}

// A program that writes and writes to a file beside those that are watched does not make
// the watch work and work.
func TestStorm(t *testing.T) {
	dir := t.TempDir()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	if err := watcher.Add(dir); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 1)
	taken := make(chan struct{})
	go func() { defer close(taken); take(t.Context(), watcher, told) }()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	times, writes := 0, 0
	for end := time.Now().Add(10 * breath); time.Now().Before(end); writes++ {
		if _, err := log.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-told:
			times++
		default:
		}
	}
	if err := errors.Join(log.Close(), watcher.Close()); err != nil {
		t.Fatal(err)
	}
	<-taken
	if times == 0 || times > 12 || writes < 10*times {
		t.Errorf("%d writes are told %d times", writes, times)
	}
}

// Where nothing is told, a look finds what changed.
func TestWatchWithoutEvents(t *testing.T) {
	home := t.TempDir()
	c, err := Load(Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	w := watch{current: c, seen: c.seen}
	changes := make(chan change, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.run(ctx, nil, func(c *Config, err error) { changes <- change{c, err} }) }()
	save(t, filepath.Join(home, UserFile), level("info"))
	waitFor(t, changes, "info")
	save(t, filepath.Join(home, UserFile), level("debug"))
	waitFor(t, changes, "debug")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("run = %v", err)
	}
}

func TestPoll(t *testing.T) {
	home := t.TempDir()
	c, err := Load(Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	w := watch{current: c, seen: c.seen}
	var got []change
	record := func(c *Config, err error) { got = append(got, change{c, err}) }
	w.reload(record)
	write(t, filepath.Join(home, UserFile), level("info"))
	w.reload(record)
	w.reload(record)
	if len(got) != 1 || got[0].config.Log.Level != "info" {
		t.Errorf("changes = %+v, want one", got)
	}
}
