package cli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/logging"
	"gander.dev/gander/sandbox/router"
)

// A tracer writes every frame to a file, a line of JSON each: the time, the
// direction as gander sees it, and the frame as it was on the wire, or text when
// that was not JSON. Secrets are taken out.
type Tracer struct {
	secrets *Secrets
	log     *slog.Logger
	file    *os.File
	// once reports the first line that could not be written.
	once sync.Once
}

// NewTracer appends to the file at path.
func (a *App) NewTracer(path string) (*Tracer, error) {
	f, err := logging.Append(path)
	if err != nil {
		return nil, UsageError("--trace: the file cannot be written: %w", err)
	}
	return &Tracer{secrets: a.Secrets, log: a.Log, file: f}, nil
}

// Options are those of a connection whose frames t records; t may be nil.
func (t *Tracer) Options(log *slog.Logger) *acp.Options {
	o := &acp.Options{Log: log}
	if t != nil {
		o.Trace = t.frame
	}
	return o
}

func (t *Tracer) frame(dir acp.Direction, line []byte) {
	t.learn(line)
	entry := []byte(`{"time":"`)
	entry = time.Now().UTC().AppendFormat(entry, time.RFC3339Nano)
	entry = append(append(append(entry, `","dir":"`...), dir...), '"')
	if json.Valid(line) {
		entry = append(append(entry, `,"frame":`...), line...)
	} else {
		text, _ := json.Marshal(string(line)) // strings always marshal
		entry = append(append(entry, `,"text":`...), text...)
	}
	entry = append(t.secrets.Hide(append(entry, '}')), '\n')
	if _, err := t.file.Write(entry); err != nil { // a full disk must not end the session
		t.once.Do(func() { t.log.Error("frames are missing in the trace", "err", err) })
	}
}

// learn learns the secrets of MCP servers that an editor passes: their frame is written
// before a session has looked at it.
func (t *Tracer) learn(line []byte) {
	if !bytes.Contains(line, []byte(`"mcpServers"`)) {
		return
	}
	var request struct {
		Params struct {
			Servers []json.RawMessage `json:"mcpServers"`
		} `json:"params"`
	}
	_ = json.Unmarshal(line, &request) // what is not such a list names no secrets
	for _, server := range request.Params.Servers {
		t.secrets.LearnAmong(router.ServerValues(server))
	}
}

// Close ends the trace; t may be nil.
func (t *Tracer) Close() {
	if t != nil {
		_ = t.file.Close()
	}
}
