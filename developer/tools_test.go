package developer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func plainTool(name string, call func(context.Context, Call) (Result, error)) Tool {
	return Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`), Call: call}
}

func newSet(t *testing.T, table Table) *Toolset {
	t.Helper()
	set, err := NewToolset(table)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

var given = json.RawMessage(`{"a":"b"}`)

func TestToolsetCall(t *testing.T) {
	boom := errors.New("boom")
	tools := []Tool{
		plainTool("z", func(_ context.Context, c Call) (Result, error) {
			return Result{Content: []Content{{Text: c.WorkingDir}}}, nil
		}),
		plainTool("fails", func(context.Context, Call) (Result, error) { return Result{}, boom }),
		plainTool("refuses", func(context.Context, Call) (Result, error) { return Result{}, &Error{InvalidParams, "no"} }),
		plainTool("wraps", func(context.Context, Call) (Result, error) {
			return Result{}, errors.Join(&Error{InvalidParams, "inner"})
		}),
		plainTool("panics", func(context.Context, Call) (Result, error) { panic("secret") }),
		plainTool("cancelled", func(ctx context.Context, _ Call) (Result, error) { return Result{}, ctx.Err() }),
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name      string
		ctx       context.Context
		arguments json.RawMessage
		code      int
		want      string
	}{
		{"z", t.Context(), given, 0, ""},
		{"z", t.Context(), nil, InvalidParams, "failed to deserialize parameters: missing field `a`"},
		{"nosuch", t.Context(), given, InvalidParams, `tool not found: there is no "nosuch"; the tools are cancelled, fails, panics, refuses, wraps, z`},
		{"fails", t.Context(), given, InternalError, "boom"},
		{"refuses", t.Context(), given, InvalidParams, "no"},
		{"wraps", t.Context(), given, InvalidParams, "inner"},
		{"panics", t.Context(), given, InternalError, "the tool panics failed because of a mistake in gander; the call may work with other arguments"},
		{"cancelled", ended, given, InternalError, "The call was cancelled"},
	}
	var log bytes.Buffer
	set := newSet(t, Table{Tools: tools, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, tt := range tests {
		_, err := set.Call(tt.ctx, tt.name, Call{ID: "7", Arguments: tt.arguments})
		e, ok := errors.AsType[*Error](err)
		if tt.code == 0 && err != nil || tt.code != 0 && (!ok || e.Code != tt.code || e.Message != tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	stats := set.Stats().Tools()
	if s := stats["z"]; s.Calls != 2 || s.Errors != 1 || s.Running != 0 {
		t.Errorf("z: %+v", s)
	}
	if s := stats["cancelled"]; s.Cancels != 1 || s.Errors != 0 {
		t.Errorf("cancelled: %+v", s)
	}
	for _, want := range []string{"tool call started", "tool call ended", "tool=refuses", `outcome="error -32602"`, "outcome=cancelled", "outcome=done", "call=7"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log", want)
		}
	}
}

// In the current profile what is wrong with arguments is a result.
func TestCurrentProfileArguments(t *testing.T) {
	set := newSet(t, Table{Profile: Current, Tools: []Tool{plainTool("z", nil)}})
	r, err := set.Call(t.Context(), "z", Call{Arguments: json.RawMessage(`{}`)})
	if err != nil || !r.IsError || len(r.Content) != 1 || r.Content[0].Text != "Error: Failed to parse arguments: missing field `a`" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestBadTables(t *testing.T) {
	for name, tools := range map[string][]Tool{
		"twice":      {plainTool("a", nil), plainTool("a", nil)},
		"nameless":   {plainTool("", nil)},
		"schemaless": {{Name: "a"}},
	} {
		if _, err := NewToolset(Table{Tools: tools}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestStatsRecord(t *testing.T) {
	s := newStats()
	s.begin("shell")
	s.begin("shell")(true, false)
	done := s.begin("edit")
	done(true, true)
	s.tools["edit"].end(2*time.Millisecond, false, false)
	s.tools["edit"].end(time.Hour, false, false)
	s.tools["edit"].Running = 0
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Tools map[string]struct {
			Calls, Running, Errors, Cancels int
			Latency                         map[string]int
		}
	}
	if err := json.Unmarshal(raw, &record); err != nil {
		t.Fatal(err)
	}
	shell, edit := record.Tools["shell"], record.Tools["edit"]
	if shell.Calls != 2 || shell.Running != 1 || shell.Errors != 1 || edit.Cancels != 1 || edit.Errors != 0 {
		t.Errorf("got %s", raw)
	}
	if edit.Latency["3ms"] != 1 || edit.Latency["more"] != 1 || edit.Latency["1m0s"] != 0 {
		t.Errorf("latency in %s", raw)
	}
}

func TestStatsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log", "stats.jsonl")
	s := newStats()
	if err := s.Append(file); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file without calls: %v", err)
	}
	s.begin("shell")(false, false)
	for range 2 {
		if err := s.Append(file); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil || bytes.Count(data, []byte("\n")) != 2 || !bytes.HasPrefix(data, []byte(`{"pid":`)) {
		t.Errorf("%s, %v", data, err)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Truncate(file, maxStatsFile+1); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() > 4096 {
		t.Errorf("the file was not put aside: %v", err)
	}
	if _, err := os.Stat(file + ".1"); err != nil {
		t.Error(err)
	}
}
