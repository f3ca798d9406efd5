package ignore

import (
	"cmp"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A Watcher tells Sets at once that a rules file has changed. One is enough for a
// process. It watches the directories that hold rules files: a file itself is
// another one after an editor has saved it.
//
// A Set looks by itself before it decides, so that nothing depends on an event
// that is late or lost; a Watcher is for those who keep what was decided.
//
// The system gives each user few watchers (fs.inotify.max_user_instances), and takes more
// than ten milliseconds to take one back, for which the end of a process waits. One that
// gets none looks more often instead, and so does every one that is young: what is over
// soon has taken nothing.
type Watcher struct {
	log    *slog.Logger
	stop   chan struct{}
	done   chan struct{}
	taking sync.WaitGroup

	mu   sync.Mutex               // guards what is below
	fs   *fsnotify.Watcher        // nil as long as the system has given none
	sets map[*Set]map[string]bool // with whether each of its directories is watched
}

const (
	// debounce gathers the events of one change.
	debounce = 5 * time.Millisecond
	// poll finds what no event tells: links' targets, directories that were
	// replaced, watches that the system refused.
	poll = 2 * time.Second
	// pollOnly is how often is looked where there are no events, and where they are not
	// taken because many come that concern no rules.
	pollOnly = 25 * time.Millisecond
	// youth is for how long there are none at first.
	youth = 3 * time.Second
)

// NewWatcher starts watching. A nil logger means that nobody hears of problems.
func NewWatcher(log *slog.Logger) *Watcher { return newWatcher(log, youth, poll, systemEvents) }

// systemEvents makes what tells of changes. On Windows there is none: to add a directory
// waits there until events are taken, for which who adds it may be waited for.
func systemEvents() (*fsnotify.Watcher, error) {
	if runtime.GOOS == "windows" {
		return nil, errors.ErrUnsupported
	}
	return fsnotify.NewWatcher()
}

func newWatcher(log *slog.Logger, youth, poll time.Duration, events func() (*fsnotify.Watcher, error)) *Watcher {
	w := &Watcher{
		log:  cmp.Or(log, slog.New(slog.DiscardHandler)),
		stop: make(chan struct{}), done: make(chan struct{}), sets: map[*Set]map[string]bool{},
	}
	go w.run(youth, poll, events)
	return w
}

// Close ends the watching; Sets go on by looking.
func (w *Watcher) Close() error {
	close(w.stop)
	<-w.done
	if w.fs == nil {
		return nil
	}
	defer w.taking.Wait()
	return w.fs.Close()
}

// follow begins to watch for a Set.
func (w *Watcher) follow(s *Set) {
	w.mu.Lock()
	w.sets[s] = map[string]bool{}
	w.mu.Unlock()
	w.extend(s)
}

// extend watches the directories of a Set's rules files, as long as it is
// followed. Rules in a directory that had none are found when something there is
// decided. s.mu is held, or nobody knows s yet.
func (w *Watcher) extend(s *Set) {
	dirs := []string{s.roots[0]}
	if s.global.path != "" && s.global.memory == nil {
		dirs = append(dirs, filepath.Dir(s.global.path))
	}
	for dir := range s.files {
		dirs = append(dirs, filepath.Dir(s.files[dir].path))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if watched := w.sets[s]; watched != nil {
		for _, dir := range dirs {
			w.add(watched, dir)
		}
	}
}

// add watches one directory; w.mu is held.
func (w *Watcher) add(dirs map[string]bool, dir string) {
	if dirs[dir] {
		return
	}
	dirs[dir] = false
	if w.fs == nil {
		return
	}
	err := w.fs.Add(dir)
	dirs[dir] = err == nil
	if err != nil {
		w.log.Debug("a directory is looked at, not watched", "dir", dir, "error", err)
	}
}

// forget ends the watching for a Set.
func (w *Watcher) forget(s *Set) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirs := w.sets[s]
	delete(w.sets, s)
	for dir, watched := range dirs {
		if watched && !w.shared(dir) {
			_ = w.fs.Remove(dir) // it may be gone
		}
	}
}

func (w *Watcher) shared(dir string) bool {
	for _, dirs := range w.sets {
		if dirs[dir] {
			return true
		}
	}
	return false
}

func (w *Watcher) run(youth, poll time.Duration, watch func() (*fsnotify.Watcher, error)) {
	defer close(w.done)
	often := pollOnly
	look := time.NewTimer(often)
	defer look.Stop()
	grown := time.After(youth)
	var due <-chan time.Time
	concerned := map[*Set]bool{}
	lost := make(chan struct{}, 1) // events were
	fs := &fsnotify.Watcher{}      // until there is one
	var events chan fsnotify.Event // those of fs, or nil while a look stands for them
	for {
		select {
		case <-w.stop:
			return
		case <-grown:
			got, err := watch()
			if err != nil {
				w.log.Debug("ignore rules are looked at, not watched", "error", err)
				continue
			}
			w.mu.Lock()
			w.fs = got
			w.mu.Unlock()
			fs = got
			w.taking.Go(func() { w.takeErrors(got.Errors, lost) })
			often = poll
			look.Reset(0)
		case e := <-events:
			switch {
			case !w.concerns(e, concerned):
				// A program that writes to a file beside the rules makes tens of thousands of
				// events in a second, which the kernel keeps as one while nobody takes them.
				events = nil
				look.Reset(pollOnly)
			case due == nil:
				due = time.After(debounce)
			}
		case <-lost:
			w.refreshAll()
		case <-look.C:
			w.refreshAll()
			events = fs.Events
			look.Reset(often)
		case <-due:
			for s := range concerned {
				s.Refresh()
			}
			clear(concerned)
			due = nil
		}
	}
}

// takeErrors takes errors until there are no more. It waits for nobody: some are told while
// no directory can be added, for which mu may be held.
func (w *Watcher) takeErrors(errs <-chan error, lost chan<- struct{}) {
	for err := range errs {
		w.log.Debug("watching ignore rules", "error", err)
		if errors.Is(err, fsnotify.ErrEventOverflow) {
			select {
			case lost <- struct{}{}:
			default:
			}
		}
	}
}

// concerns collects the Sets that an event is about, and reports whether there are any.
func (w *Watcher) concerns(e fsnotify.Event, sets map[*Set]bool) (any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dir := filepath.Dir(e.Name)
	for s, dirs := range w.sets {
		if e.Name == s.o.Global || fold(filepath.Base(e.Name)) == FileName && dirs[dir] {
			sets[s], any = true, true
		}
		if e.Has(fsnotify.Remove|fsnotify.Rename) && dirs[e.Name] {
			dirs[e.Name] = false // to be watched anew when it is back
			sets[s], any = true, true
		}
	}
	return any
}

// refreshAll watches what is not watched yet, or could not be, and looks at everything.
func (w *Watcher) refreshAll() {
	w.mu.Lock()
	var sets []*Set
	for s, dirs := range w.sets {
		sets = append(sets, s)
		for dir, watched := range dirs {
			if !watched {
				w.add(dirs, dir)
			}
		}
	}
	w.mu.Unlock()
	for _, s := range sets {
		s.Refresh()
	}
}
