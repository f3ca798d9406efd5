package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/team/roster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// loadWith loads a user's file, and a project's when it is not empty.
func loadWith(t *testing.T, user, project string, environ ...string) (*Config, error) {
	t.Helper()
	o := Options{Home: t.TempDir(), Environ: environ}
	if user != "" {
		write(t, filepath.Join(o.Home, UserFile), user)
	}
	if project != "" {
		o.ProjectDir = t.TempDir()
		write(t, filepath.Join(o.ProjectDir, ProjectFile), project)
	}
	return Load(o)
}

func mustLoad(t *testing.T, user, project string, environ ...string) *Config {
	t.Helper()
	c, err := loadWith(t, user, project, environ...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	person := t.TempDir()
	c, err := Load(Options{Environ: []string{"HOME=" + person, "USERPROFILE=" + person}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Agent != "goose" || c.Sandbox.Driver != "auto" || c.Log.Level != "warn" || c.CancelDeadline != Duration(2*time.Second) {
		t.Errorf("defaults = %+v", c)
	}
	if c.Home != filepath.Join(person, ".gander") {
		t.Errorf("home = %s", c.Home)
	}
	if _, err := os.Stat(c.Home); !os.IsNotExist(err) {
		t.Errorf("loading made the home directory (%v)", err)
	}
}

func TestHome(t *testing.T) {
	flag, variable := t.TempDir(), t.TempDir()
	c, err := Load(Options{Home: flag, Environ: []string{"GANDER_HOME=" + variable}})
	if err != nil || c.Home != flag {
		t.Errorf("home = %v, %v; want the flag's", c, err)
	}
	c, err = Load(Options{Environ: []string{"GANDER_HOME=" + variable}})
	if err != nil || c.Home != variable {
		t.Errorf("home = %v, %v; want the variable's", c, err)
	}
}

func TestPrecedence(t *testing.T) {
	user := `{"agent": "goose", "log": {"level": "info", "format": "json"}, "agents": {"goose": {"model": "u", "mode": "approve"}}}`
	o := Options{Home: t.TempDir(), ProjectDir: t.TempDir()}
	write(t, filepath.Join(o.Home, UserFile), user)
	write(t, filepath.Join(o.ProjectDir, ProjectFile), `{"agent": "opencode", "agents": {"goose": {"model": "p"}}}`)
	o.Environ = []string{"GANDER_LOG_LEVEL=debug", "NO_COLOR=1"}
	o.Flags = Flags{LogLevel: "error", Sandbox: "off"}
	c, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Agent != "opencode" || c.Log.Level != "error" || c.Log.Format != "json" || c.Sandbox.Driver != "off" || !c.NoColor {
		t.Errorf("config = %+v", c)
	}
	if diff := cmp.Diff(Agent{Model: "p", Mode: "approve"}, c.Agents["goose"]); diff != "" {
		t.Errorf("agents are not merged: %s", diff)
	}
	o.Flags = Flags{}
	if c, err = Load(o); err != nil || c.Log.Level != "debug" {
		t.Errorf("level = %q, %v; want the variable's", c.Log.Level, err)
	}
}

func TestForProject(t *testing.T) {
	c := mustLoad(t, `{"agent": "goose"}`, "")
	dir := t.TempDir()
	write(t, filepath.Join(dir, ProjectFile), `{"agent": "opencode"}`)
	p, err := c.ForProject(dir)
	if err != nil || p.Agent != "opencode" || c.Agent != "goose" || p.Home != c.Home {
		t.Errorf("for the project: %+v, %v", p, err)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct{ name, user, want string }{
		{"near miss", `{"agents": {"goose": {"comand": []}}}`, `:1:23: agents.goose.comand: unknown key; did you mean "command"?`},
		{"unknown", `{"xyzzyx": 1}`, `:1:2: xyzzyx: unknown key; known here: agent, log, model, providers, agents, tools, toolchains, toolSettings, skills, permissions, mcp, sandbox, upgrade, policy, sessions, changes, notify, cancelDeadline, silence, orchestrator`},
		{"hour", `{"sessions": {"reset": {"atHour": 24}}}`, `sessions.reset.atHour: 24 is not an hour`},
		{"no traces", `{"sessions": {"runs": {"keep": 0}}}`, `sessions.runs.keep: want at least 1`},
		{"case", `{"Agent": "goose"}`, `Agent: unknown key; did you mean "agent"?`},
		{"unknown agent", `{"agents": {"gose": {}}}`, `agents.gose: unknown key; did you mean "goose"?`},
		{"type", "{\n  \"log\": {\"level\": 3}\n}", `:2:20: log.level: want a string, got a number`},
		{"type of a switch", `{"sandbox": {"allowWeaker": "yes"}}`, `sandbox.allowWeaker: want a boolean, got a string`},
		{"type of a list", `{"sandbox": {"readOnlyPaths": "/x"}}`, `sandbox.readOnlyPaths: want an array, got a string`},
		{"type in a list", `{"sandbox": {"readOnlyPaths": ["/x", null]}}`, `sandbox.readOnlyPaths[1]: want a string, got null`},
		{"type of a group", `{"log": true}`, `log: want an object, got a boolean`},
		{"root", `[]`, `:1:1: want an object, got an array`},
		{"enumeration", `{"sandbox": {"driver": "vm"}}`, `sandbox.driver: "vm" is not one of auto, local, docker, off`},
		{"duration", `{"cancelDeadline": "soon"}`, `cancelDeadline: "soon" is not a duration`},
		{"range", `{"cancelDeadline": "2h"}`, `cancelDeadline: 2h0m0s is out of range`},
		{"kept for a moment", `{"changes": {"keep": "5m"}}`, `changes.keep: 5m0s is too short`},
		{"nothing kept", `{"changes": {"maxMiB": 0}}`, `changes.maxMiB: 0 is out of range`},
		{"url", `{"model": {"host": "example.com"}}`, `model.host: not a URL that begins with http://`},
		{"url with a password", `{"model": {"host": "https://u:p@example.com"}}`, `model.host: the URL contains`},
		{"notices to nowhere", `{"notify": {"url": "ntfy.sh/x"}}`, `notify.url: not a URL that begins`},
		{"a link with a token", `{"notify": {"page": "http://box:3000/#token=x"}}`, `notify.page: the URL has a query or a fragment`},
		{"relative path", `{"sandbox": {"readOnlyPaths": ["x"]}}`, `sandbox.readOnlyPaths[0]: "x" is not an absolute path`},
		{"secret name", `{"sandbox": {"environment": ["LANG", "GITHUB_TOKEN"]}}`, `sandbox.environment[1]: GITHUB_TOKEN holds a secret`},
		{"secret for an agent", `{"agents": {"goose": {"env": {"OPENAI_API_KEY": "x"}}}}`, `agents.goose.env.OPENAI_API_KEY: OPENAI_API_KEY holds a secret`},
		{"no variable", `{"sandbox": {"environment": ["A=B"]}}`, `sandbox.environment[0]: "A=B" is not the name`},
		{"empty command", `{"agents": {"goose": {"command": []}}}`, `agents.goose.command: is empty`},
		{"syntax", "{\n \"agent\": \"goose\",\n}", `:3:1: JSON: invalid character '}'`},
		{"cut off", "{\n \"agent\": ", `:2:11: JSON: the text ends too early`},
		{"empty", "\n", `JSON: the text ends too early`},
		{"two values", `{} {}`, `:1:4: JSON: more text`},
		{"twice", `{"agent": "goose", "agent": "goose"}`, `:1:20: JSON: the key "agent" is there twice`},
		{"deep", strings.Repeat("[", 1000), `JSON: nested too deeply`},
		{"huge", `{"agent": "` + strings.Repeat("x", 1<<20) + `"}`, `larger than`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadWith(t, tt.user, "")
			if err == nil || !strings.Contains(err.Error(), UserFile) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	_, err := loadWith(t, `{"agent": "x", "log": {"levle": ""}}`, "", "GANDER_LOG_FORMAT=xml")
	want := []string{`agent: "x" is not`, `log.levle: unknown key`, `GANDER_LOG_FORMAT: "xml" is not one of pretty, json`}
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v lacks %s", err, w)
		}
	}
}

func TestProjectMayNot(t *testing.T) {
	tests := []struct{ project, want string }{
		{`{"model": {"host": "https://evil.example"}}`, "model.host: not allowed in a project's file: a project must not choose where"},
		{`{"model": {"apiKey": "x"}}`, "model.apiKey: not allowed"},
		{`{"agents": {"goose": {"command": ["./evil"]}}}`, "agents.goose.command: not allowed in a project's file: a project must not choose what runs"},
		{`{"agents": {"goose": {"env": {"A": "b"}}}}`, "agents.goose.env.A: not allowed in a project's file: a project must not choose what runs"},
		{`{"agents": {"goose": {"mode": "auto"}}}`, "agents.goose.mode: not allowed"},
		{`{"sandbox": {"driver": "off"}}`, "sandbox.driver: not allowed"},
		{`{"sandbox": {"allowWeaker": true}}`, "sandbox.allowWeaker: not allowed"},
		{`{"sandbox": {"readOnlyPaths": ["/"]}}`, "sandbox.readOnlyPaths: not allowed"},
		{`{"sandbox": {"environment": ["LANG"]}}`, "sandbox.environment: not allowed"},
		{`{"log": {"file": "/etc/passwd"}}`, "log.file: not allowed"},
		{`{"cancelDeadline": "1m"}`, "cancelDeadline: not allowed"},
		{`{"sessions": {"sync": "never"}}`, "sessions.sync: not allowed"},
		{`{"agnet": "goose"}`, `agnet: unknown key; did you mean "agent"?`},
		{`{"xyzzyx": 1}`, "xyzzyx: unknown key; known here: agent, model, agents, policy\n"},
		{`{"model": {"hots": "x"}}`, "model.hots: unknown key; known here: model\n"},
		{`{"agents": {"goose": {"xyzzyx": 1}}}`, "agents.goose.xyzzyx: unknown key; known here: model\n"},
		{`{"log": {"levle": "x"}}`, "log.levle: unknown key; a project's file sets nothing here\n"},
		{`{"policy": {"gti": "warn"}}`, `policy.gti: unknown key; did you mean "git"?`},
	}
	if _, err := loadWith(t, "", `{"model": {"hots": "x"}}`); err == nil || strings.Contains(err.Error(), "not allowed") {
		t.Errorf("of a key that there is not: %v", err)
	}
	for _, tt := range tests {
		if _, err := loadWith(t, "", tt.project); err == nil || !strings.Contains(err.Error()+"\n", tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.project, err, tt.want)
		}
	}
	mustLoad(t, "", `{"$schema": "x", "agent": "goose", "model": {"model": "m"}, "agents": {"goose": {"model": "m"}}}`)
}

// A project's file may be anything in somebody's repository.
func TestProjectFileIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ProjectFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Options{Home: t.TempDir(), ProjectDir: dir}); err == nil || !strings.Contains(err.Error(), "not a regular file; make it readable, or take it out of the project") {
		t.Errorf("Load = %v", err)
	}
}

func TestValues(t *testing.T) {
	person := t.TempDir()
	c := mustLoad(t, "\xef\xbb\xbf"+`{
		"$schema": "https://gander.dev/schema/config.schema.json",
		"cancelDeadline": "1500ms",
		"sandbox": {"readOnlyPaths": ["~/sdk"], "environment": ["LANG", "UNSET"]},
		"log": {"file": "~/log"}}`, "", "HOME="+person, "USERPROFILE="+person, "LANG=C=1")
	if got, want := c.Sandbox.ReadOnlyPaths[0], filepath.Join(person, "sdk"); got != want {
		t.Errorf("read-only path = %s, want %s", got, want)
	}
	if got, want := c.Log.File, filepath.Join(person, "log"); got != want {
		t.Errorf("log file = %s, want %s", got, want)
	}
	if c.CancelDeadline != Duration(1500*time.Millisecond) {
		t.Errorf("deadline = %v", c.CancelDeadline)
	}
	if diff := cmp.Diff([]string{"LANG=C=1"}, c.SandboxEnvironment()); diff != "" {
		t.Error(diff)
	}
}

func TestSecretsStaySecret(t *testing.T) {
	c := mustLoad(t, `{"model": {"apiKey": "key-in-file", "headers": {"X-Team": "key-in-header"}}, "notify": {"url": "https://ntfy.example/secret-topic"}}`, "", "LLM_API_KEY=key-in-env", "HOME=/x")
	if diff := cmp.Diff([]string{"key-in-env", "key-in-file", "https://ntfy.example/secret-topic", "key-in-header"}, c.Secrets()); diff != "" {
		t.Error(diff)
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{string(encoded), fmt.Sprint(c.Model), fmt.Sprintf("%+v %#v", c.Model, c.Model)} {
		if strings.Contains(shown, "key-in") {
			t.Errorf("the key is shown: %s", shown)
		}
	}
}

// The published schema says of every key what the structs say.
func TestSchema(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	delete(root["properties"].(map[string]any), "$schema")
	checkSchema(t, "", root, reflect.TypeFor[Config](), "")
	defaultOf := func(keys ...string) any {
		var v any = root
		for _, k := range keys {
			v = v.(map[string]any)["properties"].(map[string]any)[k]
		}
		return v.(map[string]any)["default"]
	}
	d := defaults()
	for _, tt := range []struct{ got, want any }{
		{defaultOf("agent"), d.Agent},
		{defaultOf("toolchains"), d.Toolchains},
		{defaultOf("toolSettings"), d.ToolSettings},
		{defaultOf("log", "level"), d.Log.Level},
		{defaultOf("sandbox", "driver"), d.Sandbox.Driver},
		{defaultOf("sandbox", "pool"), float64(d.Sandbox.Pool)},
		{defaultOf("sessions", "sync"), d.Sessions.Sync},
		{defaultOf("sessions", "reset", "mode"), d.Sessions.Reset.Mode},
		{defaultOf("sessions", "reset", "atHour"), float64(d.Sessions.Reset.AtHour)},
		{defaultOf("sessions", "runs", "keep"), float64(d.Sessions.Runs.Keep)},
		{defaultOf("cancelDeadline"), d.CancelDeadline.String()},
		{defaultOf("silence"), d.Silence.String()},
		{defaultOf("mcp", "patience"), d.MCP.Patience.String()},
		{defaultOf("changes", "keep"), d.Changes.Keep.String()},
		{defaultOf("changes", "maxMiB"), float64(d.Changes.MaxMiB)},
		{defaultOf("policy", "git"), policy.Default().Git},
		{defaultOf("policy", "canaries"), policy.Default().Canaries},
	} {
		if tt.got != tt.want {
			t.Errorf("the schema's default is %v, want %v", tt.got, tt.want)
		}
	}
}

func checkSchema(t *testing.T, path string, s map[string]any, typ reflect.Type, tag reflect.StructTag) {
	t.Helper()
	want := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int64: "integer", reflect.Float64: "number", reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object",
	}[typ.Kind()]
	if typ == reflect.TypeFor[Duration]() || reflect.PointerTo(typ).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		want = "string"
	}
	if s["type"] != want {
		t.Errorf("%s: schema type %v, want %s", path, s["type"], want)
	}
	enum := tag.Get("enum")
	if typ.Kind() == reflect.Slice { // of its items
		checkSchema(t, path+"[]", s["items"].(map[string]any), typ.Elem(), tag)
		return
	}
	if got := strings.Join(stringList(s["enum"]), ","); got != enum {
		t.Errorf("%s: schema enum %q, want %q", path, got, enum)
	}
	switch typ.Kind() {
	case reflect.Map:
		names, _ := s["propertyNames"].(map[string]any)
		if path == "agents" && names["pattern"] != roster.IDPattern {
			t.Errorf("%s: schema names %q, want %q", path, names["pattern"], roster.IDPattern)
		}
		checkSchema(t, path+".*", s["additionalProperties"].(map[string]any), typ.Elem(), "")
	case reflect.Struct:
		checkObject(t, path, s, typ)
	}
}

func checkObject(t *testing.T, path string, s map[string]any, typ reflect.Type) {
	t.Helper()
	if s["additionalProperties"] != false {
		t.Errorf("%s: the schema allows unknown keys", path)
	}
	properties := s["properties"].(map[string]any)
	fields := jsonFields(typ)
	if len(properties) != len(fields) {
		t.Errorf("%s: %d keys in the schema, want %d", path, len(properties), len(fields))
	}
	for _, f := range fields {
		name := f.Tag.Get("json")
		p, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("%s is not in the schema", join(path, name))
			continue
		}
		if d, _ := p["description"].(string); d == "" {
			t.Errorf("%s has no description", join(path, name))
		}
		checkSchema(t, join(path, name), p, f.Type, f.Tag)
	}
}

func stringList(v any) []string {
	var list []string
	items, _ := v.([]any)
	for _, item := range items {
		list = append(list, item.(string))
	}
	return list
}
