package keeper

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"gander.dev/gander/sandbox/unattended/loop"
)

// promptPause is between two questions for the prompt. The control plane also says
// when it changes.
const promptPause = 5 * time.Second

// prompts follows the run's prompt. The last known one is kept in a file, so that it
// is known without a control plane, too.
type prompts struct {
	plane *plane
	file  string
	log   *slog.Logger
	// changed is told the prompt whenever it is another one.
	changed func(loop.Prompt)
	kicked  chan struct{}

	// mu guards known.
	mu    sync.Mutex
	known knownPrompt
}

// knownPrompt is the last prompt that was heard of.
type knownPrompt struct {
	Content string `json:"content"`
	ETag    string `json:"etag,omitempty"`
	// Known is false as long as nothing was heard of any.
	Known bool `json:"known"`
}

// newPrompts begins with what is in the file, else with what the run was started with.
func newPrompts(p *plane, file string, own *string, log *slog.Logger) *prompts {
	f := &prompts{plane: p, file: file, log: log, changed: func(loop.Prompt) {}, kicked: make(chan struct{}, 1)}
	if own != nil {
		f.known = knownPrompt{Content: *own, Known: true}
	}
	if err := readJSON(file, &f.known); err != nil {
		log.Warn("the last known prompt cannot be read", "err", err)
	}
	return f
}

// current is the prompt as a loop takes it.
func (f *prompts) current() loop.Prompt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known.asLoop()
}

func (k knownPrompt) asLoop() loop.Prompt {
	return loop.Prompt{Content: k.Content, Version: k.ETag, Known: k.Known}
}

// last is the prompt's text; false when nothing was heard of any.
func (f *prompts) last() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known.Content, f.known.Known
}

// kick has the prompt fetched now.
func (f *prompts) kick() {
	select {
	case f.kicked <- struct{}{}:
	default: // it will be
	}
}

// follow fetches the prompt until ctx ends.
func (f *prompts) follow(ctx context.Context) {
	t := time.NewTicker(promptPause)
	defer t.Stop()
	for {
		f.fetch(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-f.kicked:
		}
	}
}

// fetch asks once. Without an answer, or with one that is none, the last known prompt stays.
func (f *prompts) fetch(ctx context.Context) {
	f.mu.Lock()
	was := f.known
	f.mu.Unlock()
	header := http.Header{}
	if was.ETag != "" {
		header.Set("If-None-Match", was.ETag)
	}
	got, err := f.plane.send(ctx, http.MethodGet, "/api/prompt", header, nil)
	if err != nil || got.status != http.StatusOK {
		if err == nil && got.status != http.StatusNotModified {
			f.log.Debug("the control plane does not give the prompt", "status", got.status)
		}
		return
	}
	text, err := decodePrompt(got.body)
	if err != nil {
		f.log.Warn("the prompt that the control plane gave cannot be read", "err", err)
		return
	}
	now := knownPrompt{Content: text, ETag: got.etag, Known: true}
	f.mu.Lock()
	f.known = now
	f.mu.Unlock()
	if now == was {
		return
	}
	if err := writeJSON(f.file, now); err != nil {
		f.log.Warn("the prompt cannot be kept for when the control plane is away", "err", err)
	}
	if now.Content != was.Content || now.Known != was.Known {
		f.changed(now.asLoop())
	}
}
