package conformance

import (
	"flag"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// riddle matches the first line of a comment that names nothing: "x is what …", "What …", "Who …".
var riddle = regexp.MustCompile(`^// (\w+ (is|are) (what|who|whom|how|where|why)\b|(What|Who|Whom|Whoever|Whatever)\b)`)

// oldRiddles holds, one on a line, the comments that began so before the rule. It only gets shorter.
const oldRiddles = "testdata/riddles.txt"

var shrink = flag.Bool("shrink", false, "remove from "+oldRiddles+" the comments that are gone")

// TestComments fails on a new comment that begins with a riddle, and on a listed one that is gone.
func TestComments(t *testing.T) {
	text, err := os.ReadFile(oldRiddles)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Split(strings.TrimSpace(string(text)), "\n")
	found, err := riddles(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, comment := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(old, comment) {
			t.Errorf("%s: %q: begin the comment with the name and a verb, or with the thing itself", found[comment], comment)
		}
	}
	left := slices.DeleteFunc(slices.Clone(old), func(comment string) bool { return found[comment] == "" })
	if len(left) == len(old) {
		return
	}
	if !*shrink {
		t.Errorf("%d comments of %s are gone: go test ./conformance -run TestComments -shrink", len(old)-len(left), oldRiddles)
		return
	}
	if err := os.WriteFile(oldRiddles, []byte(strings.Join(left, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRiddlesFindsThem(t *testing.T) {
	const src = `package a

// plain is what an agent offered.
func plain() {}

// Names returns the names. What it leaves out is said elsewhere.
func Names() {}

func f() {
	// What is gone stays gone.
	_ = 1 // where x is how it was
}
`
	found, err := riddles(fstest.MapFS{"acp/a.go": {Data: []byte(src)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"// What is gone stays gone.", "// plain is what an agent offered."}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// riddles returns the first lines of the comments that begin with a riddle, each with its file.
func riddles(root fs.FS) (map[string]string, error) {
	found := map[string]string{}
	return found, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipDir(d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			if first := group.List[0].Text; riddle.MatchString(first) {
				found[first] = name
			}
		}
		return nil
	})
}
