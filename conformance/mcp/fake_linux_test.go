package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"gander.dev/gander/conformance/harness"
)

// A fake is a developer server that is just good enough to pass every check, in
// one process with as little as possible. With a defect it is good but for that.
type fake struct {
	profile, defect string
	out             *bufio.Writer
	calls           sync.WaitGroup
	watched         sync.Once
	watch           io.WriteCloser
	// mu guards out and what follows.
	mu      sync.Mutex
	running map[string]context.CancelFunc
	history map[string][]string
	leak    []any
	number  int
}

// broken says whether the fake has a defect.
func (f *fake) broken(defect string) bool { return f.defect == defect }

// rewriting is the prefix of defects that change what is sent: rewrite:old=>new.
const rewriting = "rewrite:"

// runFake is the program of the fake server.
func runFake(profile, defect string) {
	f := &fake{profile: profile, defect: defect, out: bufio.NewWriterSize(os.Stdout, 1<<16), running: map[string]context.CancelFunc{}, history: map[string][]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		<-term
		if f.broken("ignores SIGTERM") {
			return
		}
		cancel()
		f.end()
	}()
	f.serve(ctx, os.Stdin)
	if f.broken("ignores EOF") {
		select {}
	}
	if f.broken("fails at EOF") {
		os.Exit(1)
	}
	if f.broken("leaves trees at the end") {
		os.Exit(0)
	}
	f.wait(200 * time.Millisecond) // for those that are quick
	cancel()
	f.end()
}

// wait waits for calls to end.
func (f *fake) wait(d time.Duration) {
	done := make(chan struct{})
	go func() { f.calls.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(d):
	}
}

// end leaves nothing behind.
func (f *fake) end() {
	f.wait(2 * time.Second)
	sweep(serverMark())
	_ = os.RemoveAll(spoolDir())
	os.Exit(0)
}

func (f *fake) serve(ctx context.Context, in io.Reader) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if f.broken("dies of long lines") && len(line) > 1<<20 {
			os.Exit(1)
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 {
			f.handle(ctx, line)
		} else if err == nil && f.broken("dies of blank lines") {
			os.Exit(1)
		}
		if err != nil {
			return
		}
	}
}

// A message is what a client sends.
type message struct {
	JSONRPC string
	ID      json.RawMessage
	Method  any
	Params  json.RawMessage
}

func (f *fake) handle(ctx context.Context, line []byte) {
	if f.broken("dies of a batch") && line[0] == '[' {
		os.Exit(1)
	}
	if f.broken("dies of depth") && bytes.Count(line, []byte("[")) > 1000 {
		os.Exit(1)
	}
	var m message
	err := json.Unmarshal(line, &m)
	if err == nil && !utf8.Valid(line) {
		err = harness.ErrNotJSON
	}
	if err != nil {
		if f.broken("dies of garbage") {
			os.Exit(1)
		}
		id := `null`
		if f.broken("blames garbage on a request") {
			id = `"somebody"`
		}
		f.fail(json.RawMessage(id), -32700, "not a message: "+excerpt(err.Error()))
		return
	}
	method, ok := m.Method.(string)
	if !ok && f.broken("dies of invalid messages") {
		os.Exit(1)
	}
	switch {
	case m.ID == nil || string(m.ID) == "null":
		f.notified(method, m.Params)
	case !ok:
		if bytes.HasPrefix(m.ID, []byte(`"`)) && !bytes.Contains(line, []byte(`"result"`)) && !bytes.Contains(line, []byte(`"error"`)) {
			f.fail(m.ID, -32600, "no method")
		}
	default:
		f.request(ctx, m.ID, method, m.Params)
	}
}

func (f *fake) notified(method string, params json.RawMessage) {
	if method != "notifications/cancelled" {
		if f.broken("answers notifications") && method != "notifications/initialized" {
			f.fail(json.RawMessage(`null`), -32601, "no such notification")
		}
		return
	}
	var p struct{ RequestID json.RawMessage }
	if json.Unmarshal(params, &p) != nil || p.RequestID == nil {
		if f.broken("takes ill-formed cancels for all") {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, cancel := range f.running {
				cancel()
			}
		}
		return
	}
	if f.broken("ignores cancels") {
		return
	}
	key := string(p.RequestID)
	if f.broken("confuses 7 and \"7\"") {
		key = strings.Trim(key, `"`)
	}
	f.mu.Lock()
	cancel := f.running[key]
	if cancel == nil && f.broken("remembers cancels") {
		f.running[key] = func() {}
	}
	f.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (f *fake) request(ctx context.Context, id json.RawMessage, method string, params json.RawMessage) {
	if method != "tools/call" {
		f.simple(id, method, params)
		return
	}
	key := string(id)
	if f.broken("confuses 7 and \"7\"") {
		key = strings.Trim(key, `"`)
	}
	call, cancel := context.WithCancel(ctx)
	register := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.running[key] != nil && f.broken("remembers cancels") {
			cancel()
		}
		f.running[key] = cancel
	}
	late := f.broken("registers late") || f.broken("answers one call at a time")
	if !late {
		register()
	}
	f.calls.Go(func() {
		defer cancel()
		if late {
			time.Sleep(20 * time.Millisecond)
			register()
		}
		if f.broken("answers one call at a time") {
			oneCall.Lock()
			defer oneCall.Unlock()
		}
		f.call(call, id, params)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.running, key)
	})
}

var oneCall sync.Mutex

// reply and fail send the answer to a request.
func (f *fake) reply(id json.RawMessage, result any) {
	if f.broken("rounds ids") && len(id) > 15 && id[0] != '"' {
		id = json.RawMessage(`9007199254740992`)
	}
	f.send(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	if f.broken("answers twice") {
		f.send(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	}
}

func (f *fake) fail(id json.RawMessage, code int, text string) {
	f.send(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
}

func (f *fake) send(v any) {
	text := marshal(v)
	if change, ok := strings.CutPrefix(f.defect, rewriting); ok {
		from, to, _ := strings.Cut(change, "=>")
		text = strings.ReplaceAll(text, from, to)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	begun := time.Now()
	_, _ = f.out.WriteString(text + "\n")
	_ = f.out.Flush()
	if f.broken("breaks with slow clients") && time.Since(begun) > time.Second/2 {
		os.Exit(1)
	}
}

// simple answers everything but calls.
func (f *fake) simple(id json.RawMessage, method string, params json.RawMessage) {
	switch method {
	case "initialize":
		if f.broken("answers initialize late") {
			f.calls.Go(func() { time.Sleep(50 * time.Millisecond); f.initialize(id, params) })
			return
		}
		f.initialize(id, params)
	case "ping":
		if f.broken("ping is slow") {
			time.Sleep(unhurried)
		}
		f.reply(id, map[string]any{})
	case "logging/setLevel":
		f.reply(id, map[string]any{})
	case "tools/list":
		f.reply(id, map[string]any{"tools": f.inventory()})
	case "prompts/list":
		f.reply(id, json.RawMessage(fakePrompts))
	case "prompts/get":
		f.prompt(id, params)
	case "server/discover":
		if f.broken("offers the newest protocol") {
			f.reply(id, map[string]any{"supportedVersions": []string{latestVersion, "2026-07-28"}})
			return
		}
		f.fail(id, -32601, "Method not found")
	default:
		f.fail(id, -32601, "Method not found: "+method)
	}
}

func (f *fake) initialize(id, params json.RawMessage) {
	var p struct{ ProtocolVersion string }
	_ = json.Unmarshal(params, &p)
	version := latestVersion
	for _, v := range versions() {
		if v == p.ProtocolVersion && !f.broken("speaks one version only") {
			version = v
		}
	}
	if f.broken("echoes any version") {
		version = p.ProtocolVersion
	}
	if f.broken("runs once") && !once() {
		os.Exit(1)
	}
	result := map[string]any{
		"protocolVersion": version, "serverInfo": map[string]any{"name": "fake-developer", "version": "1"},
		"capabilities": map[string]any{"tools": map[string]any{}, "prompts": map[string]any{}, "logging": map[string]any{}},
		"instructions": "Use shell and text_editor.\noperating system: linux\ncurrent directory: /\n",
	}
	if f.broken("declares resources") {
		result["capabilities"].(map[string]any)["resources"] = map[string]any{}
	}
	f.reply(id, result)
}

// once says whether no other fake runs in this directory.
func once() bool {
	lock, err := os.OpenFile("fake.lock", os.O_CREATE|os.O_RDWR, 0o600)
	return err == nil && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

const fakePrompts = `{"prompts":[{"name":"unit_test","description":"x","arguments":[{"name":"source_code","required":true},{"name":"language","required":true}]}]}`

func (f *fake) prompt(id, params json.RawMessage) {
	var p struct {
		Name      string
		Arguments map[string]string
	}
	_ = json.Unmarshal(params, &p)
	code, language := p.Arguments["source_code"], p.Arguments["language"]
	switch {
	case p.Name != "unit_test":
		f.fail(id, -32603, "Prompt '"+p.Name+"' not found")
	case code == "":
		f.fail(id, -32602, "Missing required argument: 'source_code'")
	case len(code) > 1000:
		f.fail(id, -32602, "Argument values must not exceed 1000 characters")
	case strings.Contains(code, "../"):
		f.fail(id, -32602, "Arguments contain potentially unsafe pattern: ../")
	default:
		if f.broken("leaves placeholders") {
			language = "{language}"
		}
		text := fmt.Sprintf("Write tests for this %s:\n%s", language, code)
		f.reply(id, map[string]any{"description": text, "messages": []any{map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": text}}}})
	}
}

// A toolError is a failure with a code.
type toolError struct {
	code int
	text string
}

func (e *toolError) Error() string { return e.text }

func invalid(format string, args ...any) error {
	return &toolError{invalidParams, fmt.Sprintf(format, args...)}
}

func internal(format string, args ...any) error {
	return &toolError{internalError, fmt.Sprintf(format, args...)}
}

// A fakeCall is one call of a tool.
type fakeCall struct {
	*fake
	ctx     context.Context
	dir     string
	session string
	args    map[string]json.RawMessage
	rules   *fakeRules
}

// A content is a result: blocks, and what else belongs to it.
type content map[string]any

func text(s string) content {
	return content{"content": []any{map[string]any{"type": "text", "text": s}}}
}

// both is a text for the model and one for the person.
func both(assistant, user string, priority float64) content {
	return content{"content": []any{
		map[string]any{"type": "text", "text": assistant, "annotations": map[string]any{"audience": []string{"assistant"}}},
		map[string]any{"type": "text", "text": user, "annotations": map[string]any{"audience": []string{"user"}, "priority": priority}},
	}}
}

func (f *fake) call(ctx context.Context, id, params json.RawMessage) {
	var p struct {
		Name      string
		Arguments map[string]json.RawMessage
		Meta      json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil {
		f.fail(id, invalidParams, "params of the wrong type")
		return
	}
	if f.broken("takes prefixed names") {
		p.Name = strings.TrimPrefix(p.Name, "developer__")
	}
	tools := f.tools()
	run := tools[p.Name]
	if run == nil {
		code := invalidParams
		if f.broken("unknown tools are internal errors") {
			code = internalError
		}
		f.fail(id, code, "tool not found")
		return
	}
	c := &fakeCall{fake: f, ctx: ctx, args: p.Arguments}
	if err := c.readMeta(p.Meta); err != nil {
		f.fail(id, invalidParams, err.Error())
		return
	}
	c.rules = f.rulesOf(c.dir)
	if f.broken("sends progress to everyone") {
		f.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": map[string]any{"progressToken": 0, "progress": 1}})
	}
	result, err := run(c)
	f.finish(id, result, err)
}

func (f *fake) finish(id json.RawMessage, result content, err error) {
	e, _ := err.(*toolError)
	switch {
	case e == nil:
		if _, ok := result["isError"]; !ok {
			result["isError"] = false
		}
		f.reply(id, result)
	case f.profile == Current:
		r := text("Error: " + e.text)
		r["isError"] = true
		f.reply(id, r)
	default:
		f.fail(id, e.code, e.text)
	}
}

func (c *fakeCall) readMeta(meta json.RawMessage) error {
	var m map[string]any
	if json.Unmarshal(meta, &m) != nil && c.broken("dies of invalid metadata") {
		os.Exit(1)
	}
	word := func(key string) string {
		s, ok := m[key].(string)
		if !ok && m[key] != nil && c.broken("refuses ill-typed metadata") {
			return "\x00"
		}
		if strings.ContainsRune(s, 0) && !c.broken("refuses ill-typed metadata") {
			return ""
		}
		return s
	}
	if len(m) > 3 && c.broken("refuses unknown metadata") {
		return invalid("unknown metadata")
	}
	c.dir, c.session = word("agent-working-dir"), word("agent-session-id")
	if strings.ContainsRune(c.dir+c.session, 0) {
		return invalid("metadata")
	}
	if c.session == "" && c.broken("keeps the session id") {
		c.session = lastSession
	}
	lastSession = c.session
	if c.dir == "" || c.broken("ignores the working directory") {
		c.dir, _ = os.Getwd()
		if c.broken("works in the root") {
			c.dir = "/"
		}
	}
	return nil
}

var lastSession string

// get reads an argument; present is false when it is missing or null.
func get[T any](c *fakeCall, name string) (v T, present bool, err error) {
	raw, ok := c.args[name]
	if !ok || string(raw) == "null" {
		return v, false, nil
	}
	if json.Unmarshal(raw, &v) != nil {
		return v, false, invalid("failed to deserialize parameters: %s", name)
	}
	return v, true, nil
}

func need[T any](c *fakeCall, name string) (T, error) {
	v, ok, err := get[T](c, name)
	if err == nil && !ok {
		err = invalid("failed to deserialize parameters: missing field `%s`", name)
	}
	return v, err
}
