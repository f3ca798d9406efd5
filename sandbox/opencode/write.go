package opencode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// methodWriteTextFile asks a client to write a file. opencode sends it for every
// edit that a person has approved, to clients that offer it and to others, and
// writes the file itself at the same time.
const methodWriteTextFile = "fs/write_text_file"

// maxProposals bounds the edits that are remembered; of more all are forgotten.
const maxProposals = 64

// A writer answers requests to write a file, inside the sandbox and in the
// project only. It lets opencode go first: a file is written only if it still has
// the content that the person saw replaced when opencode's own call has ended.
type writer struct {
	sb      sandbox.Sandbox
	project string
	env     []string
	mend    *mender

	// mu guards proposals.
	mu        sync.Mutex
	proposals map[string]proposal // by path
}

// A proposal is an edit that a person was asked about.
type proposal struct {
	callID string // opencode's
	before string // the file's content, as hex of its SHA-256
}

// propose notes what the edits of a question would replace.
func (w *writer) propose(question json.RawMessage) {
	var q struct {
		ToolCallID string `json:"toolCallId"`
		Content    []struct {
			Type    string `json:"type"`
			Path    string `json:"path"`
			OldText string `json:"oldText"`
		} `json:"content"`
	}
	if json.Unmarshal(question, &q) != nil {
		return
	}
	if len(q.ToolCallID) > acpagent.MaxName {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range q.Content {
		if c.Type != "diff" || len(c.Path) > acpagent.MaxName {
			continue
		}
		if len(w.proposals) >= maxProposals {
			clear(w.proposals)
		}
		w.proposals[filepath.Clean(c.Path)] = proposal{q.ToolCallID, digest(c.OldText)}
	}
}

// callTime is how long opencode's own call may take to write a file that it was
// allowed to.
const callTime = 5 * time.Second

func (w *writer) write(ctx context.Context, params json.RawMessage) error {
	var req struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(params, &req); err != nil || req.Content == nil {
		return acp.InvalidParams("path and content must be strings", nil)
	}
	file := filepath.Clean(req.Path)
	if rel, err := filepath.Rel(w.project, file); err != nil || rel == "." || !filepath.IsLocal(rel) || !filepath.IsAbs(file) {
		return acp.InvalidParams(fmt.Sprintf("%s is not in the project %s", req.Path, w.project), nil)
	}
	p := w.take(file)
	if p.before == digest(*req.Content) {
		return nil
	}
	if p.callID != "" {
		ctx, done := context.WithTimeout(ctx, callTime)
		w.mend.awaitEnd(ctx, p.callID)
		done()
	}
	var err error
	if direct {
		err = writeHere(w.project, file, p.before, *req.Content)
	} else {
		_, err = run(ctx, w.sb, sandbox.Command{
			Args: []string{"sh", "-c", writeScript, "write", w.project, file, p.before},
			Env:  w.env, Dir: w.project,
		}, []byte(*req.Content))
	}
	if err != nil {
		return fmt.Errorf("writing %s in the sandbox: %w", file, err)
	}
	return nil
}

// take returns what is known of an edit, once.
func (w *writer) take(file string) proposal {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.proposals[file]
	delete(w.proposals, file)
	return p
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
