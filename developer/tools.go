package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A Profile is a family of tools under the names that one generation of goose had.
type Profile string

// The profiles.
const (
	// Classic is the developer extension of goose up to 1.25: shell, text_editor,
	// analyze, image_processor, list_windows, screen_capture, the prompt unit_test.
	Classic Profile = "classic"
	// Current is what goose 1.52 has built in: shell, write, edit, tree,
	// read_image, analyze. Its failures are results, not protocol errors.
	Current Profile = "current"
)

// Profiles are all there are.
func Profiles() []Profile { return []Profile{Classic, Current} }

// A Table is what a [Toolset] is made of.
type Table struct {
	// Profile says how arguments that do not fit are refused; empty means Classic.
	Profile Profile
	Tools   []Tool
	Prompts []Prompt
	// Instructions makes the text that tells a model how to use the tools; nil means none.
	Instructions func(Reader) string
	// Close ends what the tools keep running and keep on disk; it may be nil.
	Close func() error
	// Log gets the start and the end of every call, never what a tool printed; nil means none.
	Log *slog.Logger
}

// A Toolset is the tools of a server, ready to be called. Its methods may be
// called concurrently.
type Toolset struct {
	table   Table
	schemas map[string]*schema
	tools   map[string]Tool
	stats   *Stats
	log     *slog.Logger
}

// NewToolset checks a table: names are there and not taken twice, schemas can be read.
func NewToolset(table Table) (*Toolset, error) {
	t := &Toolset{table: table, schemas: map[string]*schema{}, tools: map[string]Tool{}, stats: newStats(), log: table.Log}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.table.Tools = slices.Clone(table.Tools)
	slices.SortFunc(t.table.Tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	for _, tool := range t.table.Tools {
		if _, twice := t.tools[tool.Name]; twice || tool.Name == "" {
			return nil, fmt.Errorf("the table of tools has two tools %q, or one without a name", tool.Name)
		}
		s, err := parseSchema(tool.InputSchema)
		if err == nil && tool.OutputSchema != nil && !json.Valid(tool.OutputSchema) {
			err = errors.New("its output schema is not JSON")
		}
		if err == nil && tool.OutcomeSchema != nil && !json.Valid(tool.OutcomeSchema) {
			err = errors.New("its outcome schema is not JSON")
		}
		if err != nil {
			return nil, fmt.Errorf("the schema of the tool %s: %w", tool.Name, err)
		}
		t.tools[tool.Name], t.schemas[tool.Name] = tool, s
	}
	return t, nil
}

// Tools lists the tools, sorted by name.
func (t *Toolset) Tools() []Tool { return t.table.Tools }

// Stats counts the calls since the toolset was made.
func (t *Toolset) Stats() *Stats { return t.stats }

// Close ends what the tools still run and removes what they keep on disk.
func (t *Toolset) Close() error {
	if t.table.Close == nil {
		return nil
	}
	return t.table.Close()
}

// Call checks the arguments and runs a tool. A failure that is the protocol's is
// an [*Error]: an unknown tool, in the classic profile arguments that do not fit,
// and whatever the tool itself returns.
func (t *Toolset) Call(ctx context.Context, name string, call Call) (Result, error) {
	tool, ok := t.tools[name]
	if !ok {
		return Result{}, &Error{InvalidParams, fmt.Sprintf("tool not found: there is no %q; the tools are %s", clip(name), t.names())}
	}
	done := t.stats.begin(name)
	started := time.Now()
	log := t.log.With("tool", name, "call", clip(call.ID), "session", clip(call.SessionID))
	log.Info("tool call started", "argument_bytes", len(call.Arguments))
	result, err := t.run(ctx, tool, call)
	cancelled := err != nil && ctx.Err() != nil
	if !json.Valid(result.Structured) {
		result.Structured = nil // it could not be sent
	}
	done(err != nil || result.IsError, cancelled)
	log.Info("tool call ended", "duration", time.Since(started), "result_bytes", sizeOf(result), "outcome", outcome(result, err, cancelled))
	return result, wireError(ctx, err)
}

func (t *Toolset) names() string {
	var names []string
	for _, tool := range t.table.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, ", ")
}

// run checks, and calls, and makes an error of a panic.
func (t *Toolset) run(ctx context.Context, tool Tool, call Call) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("a tool panicked", "tool", tool.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result, err = Result{}, &Error{InternalError, fmt.Sprintf("the tool %s failed because of a mistake in gander; the call may work with other arguments", tool.Name)}
		}
	}()
	if err := t.schemas[tool.Name].check(call.Arguments); err != nil {
		if t.table.Profile == Current {
			return Result{Content: []Content{{Text: "Error: Failed to parse arguments: " + err.Error(), Priority: new(float64)}}, IsError: true}, nil
		}
		return Result{}, &Error{InvalidParams, "failed to deserialize parameters: " + err.Error()}
	}
	return tool.Call(ctx, call)
}

// outcome is one word for the log. Messages stay out of it: they may quote what a
// tool printed.
func outcome(r Result, err error, cancelled bool) string {
	switch e, ok := errors.AsType[*Error](err); {
	case cancelled:
		return "cancelled"
	case ok:
		return fmt.Sprintf("error %d", e.Code)
	case err != nil:
		return "error"
	case r.IsError:
		return "failed"
	}
	return "done"
}

// wireError makes every failure one that the protocol can say.
func wireError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return &Error{InternalError, "The call was cancelled"}
	}
	return &Error{InternalError, err.Error()}
}

func sizeOf(r Result) (n int) {
	for _, c := range r.Content {
		n += len(c.Text) + len(c.Data)
	}
	return n
}

// clip bounds what a client chose, for messages and the log.
func clip(s string) string {
	const limit = 100
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
