package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/ignore"
)

// followOwn passes on what becomes of the person's own rules file, until the
// stream to the supervisor ends.
func (h *Host) followOwn(path string) error {
	watcher := ignore.NewWatcher(h.log)
	changed := make(chan struct{}, 1)
	set, err := ignore.NewSet(ignore.SetOptions{
		Root: filepath.Dir(path), Global: path, Watcher: watcher, Logger: h.log,
		OnChange: func() {
			select {
			case changed <- struct{}{}:
			default: // it is read after the last change anyway
			}
		},
	})
	if err != nil {
		_ = watcher.Close()
		return err
	}
	h.wg.Go(func() {
		defer func() {
			_ = set.Close()
			_ = watcher.Close()
		}()
		h.passOwn(path) // what changed before the watch stood
		for {
			select {
			case <-h.done:
				return
			case <-changed:
				h.passOwn(path)
			}
		}
	})
	return nil
}

// renewOwn passes on the person's own rules, if their file is another than the one that was
// passed on last: a command that is started now has them.
func (h *Host) renewOwn() {
	if h.ownPath == "" {
		return
	}
	now, _ := os.Stat(h.ownPath)
	h.ownMu.Lock()
	seen := h.ownSeen
	h.ownMu.Unlock()
	if now == nil && seen == nil || now != nil && seen != nil && os.SameFile(now, seen) && now.Size() == seen.Size() && now.ModTime().Equal(seen.ModTime()) {
		return
	}
	h.passOwn(h.ownPath)
}

// passOwn passes on the person's own rules as they are now. What cannot be read
// leaves those that hold; a sandbox that has ended needs none.
func (h *Host) passOwn(path string) {
	h.ownMu.Lock()
	defer h.ownMu.Unlock()
	h.ownSeen, _ = os.Stat(path)
	text, there, err := readOwn(path)
	if err != nil {
		h.log.Warn("your own rules for files cannot be read; those before them hold", "err", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ownRulesTime)
	defer cancel()
	err = h.ctl.call(ctx, "ownRules", ownRulesParams{text, there}, nil)
	if err != nil && !errors.Is(err, sandbox.ErrGone) {
		h.log.Warn("passing your own rules for files on to the sandbox", "err", err)
	}
}
