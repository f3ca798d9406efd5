package conformance

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "gander.dev/gander"

// The one line of the architecture, left to right: a package may import its own
// folder and the folders to its right. conformance stands apart.
var layers = []string{"cmd", "mcp", "developer", "sandbox", "sessions", "acp"}

// The line within sandbox, from the top down: what is below one of the folders of a floor
// may import its own folder and the floors below. Folders that are not listed are judged
// by the other rows alone; tests may import all.
var floors = [][]string{
	{"sandbox/trials"},
	{"sandbox/router", "sandbox/unattended"},
	{"sandbox/confine"},
	{"sandbox/drivers"},
	{"sandbox/inside"},
	{"sandbox/outbound"},
	{"sandbox/rules"},
}

// The only folders whose packages import the named one, besides its own.
var importers = map[string][]string{
	"sandbox/confine":  {"sandbox/router", "sandbox/unattended", "sandbox/trials", "cmd"},
	"sandbox/goose":    {"sandbox/agents"}, // the list of agents
	"sandbox/opencode": {"sandbox/agents"},
}

// Packages that never meet except in cmd: each can be understood, and removed, alone.
var strangers = [][]string{
	{"sandbox/drivers/local", "sandbox/drivers/docker"},
	{"sandbox/goose", "sandbox/opencode"},
	{"sandbox/drivers/local", "sandbox/goose", "sandbox/router"},
	{"sandbox/drivers/docker", "sandbox/opencode", "sandbox/router"},
	{"sandbox/unattended/loop", "sandbox/goose"},
	{"sandbox/unattended/loop", "sandbox/opencode"},
	{"sandbox/unattended", "sandbox/router"},
	{"sandbox/team/orchestrator", "sandbox/router"},
	{"sandbox/team/orchestrator", "sandbox/drivers"},
	{"sandbox/confine", "sandbox/agents"},
	{"sandbox/confine", "sandbox/goose"},
	{"sandbox/confine", "sandbox/opencode"},
}

// The packages of gander's commands, from the top down: one imports only those on floors
// below its own. Families of commands, side by side, meet in main only.
var commandFloors = [][]string{
	{"cmd/gander"},
	commandsIn("agents", "conformancecmd", "demo", "doctor", "editor", "mcpcmd", "plugincmd", "policycmd", "sandboxcmd", "scenariocmd", "session", "setup", "skillcmd", "unattended"),
	commandsIn("install"),
	commandsIn("wire"),
	commandsIn("chat"),
	commandsIn("show"),
	commandsIn("cli"),
	commandsIn("config"),
	commandsIn("clients", "early", "logging", "replay"),
	commandsIn("redact"),
}

// commandsIn returns the folders of packages below cmd/gander/internal.
func commandsIn(names ...string) []string {
	for i, name := range names {
		names[i] = "cmd/gander/internal/" + name
	}
	return names
}

// Packages that import nothing of ours.
var leaves = []string{
	"acp", "conformance/harness", "conformance/model", "conformance/sitetest", "sandbox/outbound/doorway", "sandbox/rules/ignore", "sandbox/rules/permit", "sandbox/rules/policy", "sandbox/team/artifacts", "sandbox/team/chat", "sandbox/team/presets", "sandbox/team/providers", "sandbox/team/roster", "sandbox/telemetry",
}

// Packages of conformance that tests of others may use.
var forOthersTests = []string{"conformance/model", "conformance/browsertest", "conformance/sitetest", "conformance/twintest"}

// The only places where a third-party module is known; a path covers what is below it.
// What is not listed may not be imported: a new dependency is argued for here.
var thirdParty = map[string][]string{
	"github.com/sourcegraph/jsonrpc2":            {"acp", "conformance/bench"}, // the bench builds the plain proxy it compares with
	"github.com/mark3labs/mcp-go":                {"mcp", "conformance/e2e"},   // e2e serves tools to the agents with it
	"github.com/hashicorp/yamux":                 {"sandbox/inside/supervise"},
	"github.com/fsnotify/fsnotify":               {"sandbox/rules/ignore", "cmd"},
	"github.com/sabhiram/go-gitignore":           {"sandbox/rules/ignore", "conformance/bench"}, // the bench compares with it as it is
	"github.com/moby/moby":                       {"sandbox/drivers/docker"},
	"github.com/docker/docker":                   {"sandbox/drivers/docker"},
	"github.com/containerd/errdefs":              {"sandbox/drivers/docker"},                           // how the Docker client names its errors
	"charm.land":                                 {"cmd"},                                              // the conversation on the terminal: its line, keys, screen and Markdown
	"github.com/charmbracelet/x":                 {"sandbox/router", "sandbox/agents/acpagent", "cmd"}, // takes colours out of what commands print; wraps text with colours in it, for that screen
	"github.com/gofrs/flock":                     {"sessions", "sandbox/router/changes", "sandbox/drivers/local", "sandbox/drivers/caches", "sandbox/drivers/registry", "sandbox/rules/permit", "sandbox/unattended/keeper", "sandbox/unattended/fleet", "cmd"},
	"github.com/google/uuid":                     {"sandbox", "sessions"},
	"github.com/natefinch/atomic":                {"sandbox", "sessions", "cmd"},
	"github.com/jezek/xgb":                       {"developer/screen"},
	"github.com/lmittmann/tint":                  {"cmd"},
	"github.com/mattn/go-isatty":                 {"cmd"},
	"github.com/spf13/cobra":                     {"cmd"},
	"github.com/spf13/pflag":                     {"cmd"},
	"github.com/tailscale/hujson":                {"cmd"},
	"go.yaml.in/yaml/v3":                         {"sandbox/team/skills", "cmd"}, // SKILL.md has front matter in YAML
	"golang.org/x/term":                          {"cmd"},
	"mvdan.cc/sh":                                {"developer/guard", "sandbox/rules/permit"},
	"github.com/bluekeyes/go-gitdiff":            {"developer/editor"},
	"golang.org/x/net":                           {"cmd", "sandbox/outbound/gateway", "sandbox/inside/enforce", "sandbox/inside/supervise"}, // the last two: the interpreter of filters, in a test; messages of DNS
	"golang.org/x/mod":                           {"cmd"},                                                                                   // compares versions
	"golang.org/x/image":                         {"developer"},
	"golang.org/x/text":                          {"sandbox/rules/ignore"}, // names that macOS takes for the same
	"golang.org/x/sys":                           {"sandbox", "developer", "sessions", "cmd", "conformance/bench"},
	"github.com/tree-sitter":                     {"developer/analyze"}, // parsers; a grammar each
	"github.com/tree-sitter-grammars":            {"developer/analyze"},
	"github.com/alexaandru/go-sitter-forest":     {"developer/analyze"},
	"github.com/coder/acp-go-sdk":                {"conformance/e2e"},               // a client of other people
	"github.com/chromedp":                        nil,                               // drives the browser in tests of the dashboard
	"github.com/google/go-cmp":                   nil,                               // nil: tests and packages for tests
	"github.com/rogpeppe/go-internal/diff":       {"sandbox/router/changes", "cmd"}, // unified differences, also of hostile texts in linear time
	"github.com/rogpeppe/go-internal/testscript": nil,
	"github.com/rogpeppe/go-internal/txtar":      nil,
	"go.uber.org/goleak":                         nil,
	"github.com/hashicorp/cronexpr":              {"sandbox/unattended/controlplane"},             // cron expressions of schedules; kept by its maker, no dependencies of its own
	"github.com/coder/websocket":                 {"sandbox/unattended/controlplane"},             // the live streams; no dependencies of its own
	"modernc.org/sqlite":                         {"sessions", "sandbox/unattended/controlplane"}, // sessions: measured beside, in a test
}

func TestLayering(t *testing.T) {
	files, err := parseTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d Go files found: the test looks in the wrong place", len(files))
	}
	for _, v := range violations(files) {
		t.Error(v)
	}
}

// A checker that finds nothing proves nothing: it must object to each planted line.
func TestLayeringFindsPlantedImports(t *testing.T) {
	tests := []struct {
		name, file, imports string
		bad                 bool
	}{
		{"upward", "acp/a.go", module + "/sessions", true},
		{"upward from a sub-folder", "sandbox/goose/a.go", module + "/cmd/gander", true},
		{"upward from a platform file", "acp/a_windows.go", module + "/sandbox", true},
		{"upward from a test", "acp/a_test.go", module + "/sandbox", true},
		{"downward", "cmd/gander/a.go", module + "/sandbox/drivers/local", false},
		{"own folder", "sandbox/goose/a.go", module + "/sandbox/agents/acpagent", false},
		{"a command's family downward", "cmd/gander/internal/doctor/a.go", module + "/cmd/gander/internal/wire", false},
		{"a command's family upward", "cmd/gander/internal/doctor/a.go", module + "/cmd/gander", true},
		{"two families", "cmd/gander/internal/editor/a.go", module + "/cmd/gander/internal/setup", true},
		{"two families in a test", "cmd/gander/internal/editor/a_test.go", module + "/cmd/gander/internal/setup", true},
		{"the wiring in what families share", "cmd/gander/internal/show/a.go", module + "/cmd/gander/internal/wire", true},
		{"the terminal in what commands share", "cmd/gander/internal/cli/a.go", module + "/cmd/gander/internal/show", true},
		{"a family in the wiring", "cmd/gander/internal/wire/a.go", module + "/cmd/gander/internal/install", true},
		{"a family without a floor", "cmd/gander/internal/a/a.go", module + "/cmd/gander/internal/cli", true},
		{"an unknown top folder", "util/a.go", "fmt", true},
		{"a leaf that imports", "sandbox/rules/policy/a.go", module + "/acp", true},
		{"strangers", "sandbox/goose/a.go", module + "/sandbox/opencode", true},
		{"strangers, router and driver", "sandbox/router/a.go", module + "/sandbox/drivers/local", true},
		{"strangers, router and unattended", "sandbox/router/a.go", module + "/sandbox/unattended/keeper", true},
		{"strangers, unattended and router", "sandbox/unattended/keeper/a.go", module + "/sandbox/router/changes", true},
		{"rules that import a way out", "sandbox/rules/project/a.go", module + "/sandbox/outbound/egress", true},
		{"ways out that import what is inside", "sandbox/outbound/egress/a.go", module + "/sandbox/inside/enforce", true},
		{"what is inside that imports a driver", "sandbox/inside/enforce/a.go", module + "/sandbox/drivers/registry", true},
		{"a driver that imports confine", "sandbox/drivers/local/a.go", module + "/sandbox/confine", true},
		{"confine that imports the router", "sandbox/confine/a.go", module + "/sandbox/router", true},
		{"confine that imports unattended", "sandbox/confine/a.go", module + "/sandbox/unattended/keeper", true},
		{"confine that imports an agent", "sandbox/confine/a.go", module + "/sandbox/agents/acpagent", true},
		{"confine that imports goose", "sandbox/confine/a.go", module + "/sandbox/goose", true},
		{"confine that imports the line below", "sandbox/confine/a.go", module + "/sandbox/drivers/registry", false},
		{"the router that imports confine", "sandbox/router/a.go", module + "/sandbox/confine", false},
		{"a keeper that imports confine", "sandbox/unattended/keeper/a.go", module + "/sandbox/confine", false},
		{"the list of agents", "sandbox/agents/a.go", module + "/sandbox/goose", false},
		{"a command that imports an agent", "cmd/gander/internal/wire/a.go", module + "/sandbox/goose", true},
		{"an agent that imports confine", "sandbox/agents/acpagent/a.go", module + "/sandbox/confine", true},
		{"a tool that imports confine", "developer/a.go", module + "/sandbox/confine", true},
		{"cmd that imports confine", "cmd/gander/a.go", module + "/sandbox/confine", false},
		{"trials that import all", "sandbox/trials/probe/a.go", module + "/sandbox/router", false},
		{"the router that imports trials", "sandbox/router/a.go", module + "/sandbox/trials/probe", true},
		{"a driver's test that imports trials", "sandbox/drivers/local/a_test.go", module + "/sandbox/trials/probe", false},
		{"telemetry that imports", "sandbox/telemetry/a.go", module + "/sandbox", true},
		{"conformance imports ours", "conformance/a.go", module + "/acp", true},
		{"the bench imports ours", "conformance/bench/a_test.go", module + "/sandbox/drivers/local", false},
		{"conformance imports itself", "conformance/e2e/a.go", module + "/conformance/model", false},
		{"conformance in a product package", "sandbox/a.go", module + "/conformance/model", true},
		{"conformance in cmd", "cmd/gander/a.go", module + "/conformance/model", false},
		{"the model in a test", "sandbox/a_test.go", module + "/conformance/model", false},
		{"the browser in a test", "sandbox/a_test.go", module + "/conformance/browsertest", false},
		{"the browser in the product", "cmd/gander/a.go", module + "/conformance/browsertest", true},
		{"the site in a package for tests", "sandbox/trials/sandboxtest/a.go", module + "/conformance/sitetest", false},
		{"more of conformance in a test", "sandbox/a_test.go", module + "/conformance/e2e", true},
		{"third party at home", "acp/a.go", "github.com/sourcegraph/jsonrpc2", false},
		{"third party away", "sandbox/a.go", "github.com/sourcegraph/jsonrpc2", true},
		{"third party not listed", "cmd/gander/a.go", "github.com/pkg/errors", true},
		{"a test module in a test", "acp/a_test.go", "github.com/google/go-cmp/cmp", false},
		{"a test module in a package for tests", "acp/acptest/a.go", "go.uber.org/goleak", false},
		{"a test module in the product", "acp/a.go", "github.com/google/go-cmp/cmp", true},
		{"a package for tests in the product", "sandbox/a.go", module + "/acp/acptest", true},
		{"a package for tests in a test", "sandbox/a_test.go", module + "/acp/acptest", false},
		{"the standard library", "acp/a.go", "encoding/json", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, tt.file)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			src := fmt.Sprintf("package a\n\nimport _ %q\n", tt.imports)
			if err := os.WriteFile(name, []byte(src), 0o644); err != nil {
				t.Fatal(err)
			}
			files, err := parseTree(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			if got := violations(files); (len(got) > 0) != tt.bad {
				t.Errorf("violations = %q, want some: %v", got, tt.bad)
			}
		})
	}
}

// A source file, as far as these tests care.
type goFile struct {
	name    string // slash-separated, from the root of the repository
	pkg     string // the name in its package clause
	doc     string // its package comment
	imports []string
}

func (f goFile) dir() string { return path.Dir(f.name) }

// forTests says whether the file is no part of the product: a test, or a package like acptest.
func (f goFile) forTests() bool {
	return strings.HasSuffix(f.name, "_test.go") || forTests(f.dir())
}

func forTests(dir string) bool {
	return dir == "conformance" || dir == "conformance/e2e" || dir == "conformance/bench" || strings.HasSuffix(dir, "test")
}

// parseTree reads every Go file below root, whatever platform it is for. It reads
// them itself, and does not ask the go command: the test cache cannot see what a
// child process reads, and a planted violation would pass as "(cached)".
func parseTree(root fs.FS) ([]goFile, error) {
	var files []goFile
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipDir(d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		f, err := parseFile(root, name)
		if err == nil {
			files = append(files, f)
		}
		return err
	})
	return files, err
}

func skipDir(name string) bool {
	return name == "testdata" || name == "node_modules" || name != "." && strings.HasPrefix(name, ".")
}

func parseFile(root fs.FS, name string) (goFile, error) {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return goFile{}, err
	}
	tree, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return goFile{}, fmt.Errorf("parsing the imports of %s: %w", name, err)
	}
	f := goFile{name: name, pkg: tree.Name.Name, doc: strings.TrimSpace(tree.Doc.Text())}
	for _, spec := range tree.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return goFile{}, fmt.Errorf("parsing the imports of %s: %w", name, err)
		}
		f.imports = append(f.imports, p)
	}
	return f, nil
}

// violations lists, in words, every import that points the wrong way.
func violations(files []goFile) []string {
	var bad []string
	for _, f := range files {
		if top := topFolder(f.dir()); top != "conformance" && !slices.Contains(layers, top) {
			bad = append(bad, fmt.Sprintf("%s: a new top folder %q: give it a place in layers", f.name, top))
		}
		for _, p := range f.imports {
			if why := objection(f, p); why != "" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", f.name, p, why))
			}
		}
	}
	return bad
}

func objection(f goFile, p string) string {
	if ours, ok := strings.CutPrefix(p, module+"/"); ok {
		return objectionOurs(f, ours)
	}
	if !strings.Contains(topFolder(p), ".") {
		return "" // standard library
	}
	return objectionThirdParty(f, p)
}

func objectionOurs(f goFile, target string) string {
	dir, from, to := f.dir(), topFolder(f.dir()), topFolder(target)
	switch {
	case target == dir:
		return "" // an external test of its own package
	case forTests(target) && !f.forTests():
		return "it is for tests only"
	case to == "conformance":
		return objectionConformance(f, target)
	case from == "conformance" && dir != "conformance/bench": // which measures parts as well as the whole
		return "conformance judges from outside and imports nothing of ours"
	case slices.Contains(leaves, dir) && !f.forTests():
		return dir + " imports nothing of ours"
	case slices.Index(layers, from) > slices.Index(layers, to):
		return "imports point to the right in " + strings.Join(layers, " → ")
	case within(dir, "cmd/gander") && within(target, "cmd/gander") && commandFloor(dir) >= commandFloor(target):
		return "a family of commands imports floors below its own only; see commandFloors"
	case !f.forTests() && areStrangers(dir, target):
		return "these two meet in cmd only"
	case !f.forTests() && floor(dir) > floor(target) && floor(target) >= 0:
		return "it is on a floor above that of " + dir
	case !f.forTests() && !mayImport(dir, target):
		return "only " + strings.Join(importers[target], ", ") + " may"
	}
	return ""
}

func objectionConformance(f goFile, target string) string {
	switch from := topFolder(f.dir()); {
	case from == "conformance", from == "cmd", f.forTests() && slices.Contains(forOthersTests, target):
		return ""
	}
	return "conformance is for cmd, and its model, its browser and its site for tests"
}

// floor returns on which floor a package is, the top being 0; -1 when it is on none.
func floor(dir string) int {
	return slices.IndexFunc(floors, func(folders []string) bool {
		return slices.ContainsFunc(folders, func(folder string) bool { return within(dir, folder) })
	})
}

func mayImport(dir, target string) bool {
	homes, bound := importers[target]
	return !bound || within(dir, target) || slices.ContainsFunc(homes, func(h string) bool { return within(dir, h) })
}

// commandFloor returns the floor of a package of commands; a package without one is below all,
// so that it imports no other.
func commandFloor(dir string) int {
	i := slices.IndexFunc(commandFloors, func(floor []string) bool { return slices.Contains(floor, dir) })
	if i < 0 {
		return len(commandFloors)
	}
	return i
}

func areStrangers(a, b string) bool {
	return slices.ContainsFunc(strangers, func(group []string) bool {
		return slices.ContainsFunc(group, func(s string) bool { return within(a, s) && !within(b, s) }) &&
			slices.ContainsFunc(group, func(s string) bool { return within(b, s) && !within(a, s) })
	})
}

func objectionThirdParty(f goFile, p string) string {
	for mod, homes := range thirdParty {
		if !within(p, mod) {
			continue
		}
		if homes == nil && f.forTests() || slices.ContainsFunc(homes, func(h string) bool { return within(f.dir(), h) }) {
			return ""
		}
		if homes == nil {
			return "a module for tests"
		}
		return "known only in " + strings.Join(homes, ", ")
	}
	return "not among the modules we use; argue for it in thirdParty"
}

// within says whether p is root or below it.
func within(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

func topFolder(p string) string {
	top, _, _ := strings.Cut(p, "/")
	return top
}
