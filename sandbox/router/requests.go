package router

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"gander.dev/gander/acp"
)

// HandleRequest implements acp.RequestHandler: what agents ask of an editor besides
// permissions. It ends with the turn.
func (r *relay) HandleRequest(ctx context.Context, method string, params json.RawMessage) (any, error) {
	r.mu.Lock()
	t := r.turn
	r.mu.Unlock()
	if t == nil {
		return nil, acp.InvalidRequest(method + " came outside of a turn")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(t.ctx, stop)()
	if r.b.hosted() && method != acp.MethodCreateElicitation {
		return r.passRequest(ctx, method, params)
	}
	switch method {
	case methodReadTextFile:
		return r.oneFile(ctx, params, r.b.readTextFile)
	case methodWriteTextFile:
		return r.oneFile(ctx, params, r.b.writeTextFile)
	case acp.MethodCreateElicitation:
		return r.elicit(ctx, t, params)
	}
	return nil, acp.ErrMethodNotFound
}

// maxFiles bounds the files that pass at a time, each of them in memory, and the
// connections that ask for some.
const maxFiles = 8

// oneFile is do when its turn has come.
func (r *relay) oneFile(ctx context.Context, params json.RawMessage, do func(context.Context, json.RawMessage) (any, error)) (any, error) {
	select {
	case r.files <- struct{}{}:
		defer func() { <-r.files }()
		return do(ctx, params)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *backend) readTextFile(ctx context.Context, params json.RawMessage) (any, error) {
	var req struct {
		Path  string `json:"path"`
		Line  *int   `json:"line"` // 1 is the first
		Limit *int   `json:"limit"`
	}
	if json.Unmarshal(params, &req) != nil {
		return nil, acp.InvalidParams("path must be a string, line and limit numbers", nil)
	}
	text, err := b.readEditor(ctx, req.Path)
	if errors.Is(err, errNotEditors) {
		text, err = b.readInside(ctx, req.Path)
	}
	if err != nil {
		return nil, err
	}
	return map[string]string{"content": linesOf(text, req.Line, req.Limit)}, nil
}

// linesOf are limit lines of a text from a line on; nil means the first, and all.
func linesOf(text string, line, limit *int) string {
	if line == nil && limit == nil {
		return text
	}
	if line != nil {
		for range max(*line, 1) - 1 {
			_, rest, found := strings.Cut(text, "\n")
			if text = rest; !found {
				break
			}
		}
	}
	if limit == nil {
		return text
	}
	end := 0
	for range max(*limit, 0) {
		n := strings.IndexByte(text[end:], '\n')
		if n < 0 {
			return text
		}
		end += n + 1
	}
	return text[:end]
}

func (b *backend) writeTextFile(ctx context.Context, params json.RawMessage) (any, error) {
	var req struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
	}
	if json.Unmarshal(params, &req) != nil || req.Content == nil {
		return nil, acp.InvalidParams("path and content must be strings", nil)
	}
	err := b.writeEditor(ctx, req.Path, *req.Content)
	if errors.Is(err, errNotEditors) {
		err = b.writeInside(ctx, req.Path, *req.Content)
	}
	if err != nil {
		return nil, err
	}
	return struct{}{}, nil
}
