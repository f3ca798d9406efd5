package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// The only product files outside of an agent's own folder that know one by its name. All
// others ask sandbox/agents.
var knowAnAgent = []string{
	"cmd/gander/internal/cli/paths.go",         // goose's own configuration, which has the person's .gooseignore; gander installed as goose
	"cmd/gander/internal/clients/targets.go",   // programs that gander config writes to; they need not be agents
	"sandbox/unattended/controlplane/steer.go", // the agent of a start that names none, which is contract
	"mcp/client.go", // clients of the MCP server
}

// TestAgentsNames: to add an agent nobody has to find the places where the others are named.
func TestAgentsNames(t *testing.T) {
	root := os.DirFS("..")
	bad, err := namesOfAgents(root, knowAnAgent)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bad {
		t.Error(b + ": take it from the agent's Registration, by sandbox/agents")
	}
	for _, file := range knowAnAgent {
		if found, err := namesOfAgents(root, slices.DeleteFunc(slices.Clone(knowAnAgent), func(f string) bool { return f == file })); err != nil || len(found) == 0 {
			t.Errorf("%s knows no agent any more: take it out of knowAnAgent (%v)", file, err)
		}
	}
}

func TestAgentsNamesAreFound(t *testing.T) {
	bad, err := namesOfAgents(fstest.MapFS{
		"sandbox/duck/Dockerfile": {},
		"sandbox/duck/duck.go":    {Data: []byte("package duck\n\nconst Name = \"duck\"\n")},
		"sandbox/swan/swan.go":    {Data: []byte("package swan\n\nconst Name = \"swan\"\n")}, // has no image
		"cmd/gander/a.go":         {Data: []byte("package main\n\nvar _ = \"duck\"\n")},
		"cmd/gander/b.go":         {Data: []byte("package main\n\n// \"duck\" in a comment is talk.\nvar _ = \"a duck\"\n")},
		"cmd/gander/c.go":         {Data: []byte("package main\n\nvar _ = `duck`\n")},
		"cmd/gander/d.go":         {Data: []byte("package main\n\ntype d struct {\n\tA string `duck:\"duck\"`\n}\n")},
		"cmd/gander/a_test.go":    {Data: []byte("package main\n\nvar _ = \"duck\"\n")},
	}, []string{"cmd/gander/c.go"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{`cmd/gander/a.go:3 knows the agent "duck"`}; !slices.Equal(bad, want) {
		t.Errorf("found %q, want %q", bad, want)
	}
}

// namesOfAgents lists the product code that has the name of an agent as a string. An agent is a
// folder of sandbox with a Dockerfile.
func namesOfAgents(root fs.FS, except []string) ([]string, error) {
	images, err := fs.Glob(root, "sandbox/*/Dockerfile")
	if err != nil {
		return nil, err
	}
	files, err := parseTree(root)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, f := range files {
		if f.forTests() || topFolder(f.name) == "conformance" || slices.Contains(except, f.name) {
			continue
		}
		text, err := fs.ReadFile(root, f.name)
		if err != nil {
			return nil, err
		}
		positions := token.NewFileSet()
		tree, err := parser.ParseFile(positions, f.name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			word, ok := n.(*ast.BasicLit)
			if !ok || word.Kind != token.STRING {
				return true
			}
			name, _ := strconv.Unquote(word.Value) // which the parser has read
			if home := "sandbox/" + name; slices.Contains(images, home+"/Dockerfile") && !within(f.name, home) {
				bad = append(bad, fmt.Sprintf("%s:%d knows the agent %q", f.name, positions.Position(word.Pos()).Line, name))
			}
			return true
		})
	}
	return bad, nil
}

// TestEveryAgentIsListed: a folder with an image is an agent, and the list has it.
func TestEveryAgentIsListed(t *testing.T) {
	root := os.DirFS("..")
	images, err := fs.Glob(root, "sandbox/*/Dockerfile")
	if err != nil || len(images) < 2 {
		t.Fatalf("images: %q, %v", images, err)
	}
	list, err := fs.ReadFile(root, "sandbox/agents/agents.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range images {
		if agent := path.Base(path.Dir(image)); !strings.Contains(string(list), "\n\t\t"+agent+".Registration,\n") {
			t.Errorf("sandbox/agents/agents.go does not list %s", agent)
		}
	}
}
