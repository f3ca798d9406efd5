package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

// gitDir makes what git takes for a git directory.
const gitDir = "mkdir -p $1/objects $1/refs && touch $1/HEAD"

// Repositories are found wherever they are in a project, and what only looks like one, or
// is outside or closed, is not taken for one.
func TestRepositoriesAreFound(t *testing.T) {
	of := func(dir, tree string) sandbox.Repository { return sandbox.Repository{Dir: dir, Tree: tree} }
	for name, tt := range map[string]struct {
		script string
		want   []sandbox.Repository
	}{
		"none":                     {"mkdir -p a/objects b/refs && touch a/HEAD HEAD", nil},
		"the project's own":        {"make .git", []sandbox.Repository{of(".git", ".")}},
		"the project's, broken":    {"mkdir .git", []sandbox.Repository{of(".git", ".")}},
		"the project's, elsewhere": {"echo gitdir: /elsewhere > .git", []sandbox.Repository{of(".git", ".")}},
		"the project is bare":      {"make .", []sandbox.Repository{of(".", ".")}},
		"deep":                     {"make a/b/c/.git; make node_modules/x/.git", []sandbox.Repository{of("a/b/c/.git", "a/b/c"), of("node_modules/x/.git", "node_modules/x")}},
		"one in another":           {"make a/.git; make a/b/.git", []sandbox.Repository{of("a/.git", "a"), of("a/b/.git", "a/b")}},
		"bare":                     {"make a.git; make b", []sandbox.Repository{of("a.git", "a.git"), of("b", "b")}},
		"a submodule":              {"make .git; make .git/modules/x/y; mkdir -p x/y && echo gitdir: ../../.git/modules/x/y > x/y/.git", []sandbox.Repository{of(".git", "."), of(".git/modules/x/y", "x/y")}},
		"of another name":          {"make .git; make .git/modules/n; mkdir x && echo gitdir: ../.git/modules/n > x/.git", []sandbox.Repository{of(".git", "."), of(".git/modules/n", "n"), of(".git/modules/n", "x")}},
		"a submodule's submodule":  {"make .git; make .git/modules/x; make .git/modules/x/modules/y", []sandbox.Repository{of(".git", "."), of(".git/modules/x", "x"), of(".git/modules/x/modules/y", "x/y")}},
		"a linked work tree": {
			"make .git; mkdir -p .git/worktrees/w w && touch .git/worktrees/w/HEAD && echo ../.. > .git/worktrees/w/commondir && echo gitdir: $PWD/.git/worktrees/w > w/.git",
			[]sandbox.Repository{of(".git", "."), {Dir: ".git/worktrees/w", Tree: "w", Linked: true}},
		},
		"linked to what is not there": {"mkdir -p g w && touch g/HEAD && echo ../h > g/commondir && echo gitdir: ../g > w/.git", []sandbox.Repository{of("g", "w")}},
		"a link":                      {"make a/.git; mkdir b c && ln -s ../a/.git b/.git && ln -s /tmp c/.git && ln -s a d", []sandbox.Repository{of("a/.git", "a"), of("a/.git", "b")}},
		"nothing":                     {"mkdir -p a/.git b c d && echo x > b/.git && echo gitdir: ../nowhere > c/.git && mkfifo d/.git", nil},
		"outside":                     {"mkdir a && echo gitdir: ../../x > a/.git && mkdir -p ../x && touch ../x/HEAD", nil},
		"closed":                      {"make private/a/.git; mkdir private/b && make .git/modules/b && echo gitdir: ../../.git/modules/b > private/b/.git", []sandbox.Repository{of(".git", "."), of(".git/modules/b", "private/b")}},
	} {
		t.Run(name, func(t *testing.T) {
			project := filepath.Join(t.TempDir(), "project")
			if err := os.Mkdir(project, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "make() { "+gitDir+"; }; "+tt.script)
			cmd.Dir = project
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			closed := filepath.Join(project, "private")
			s := &search{project: project, roots: []string{project}, closed: func(dir string) bool { return filepath.Dir(filepath.Dir(dir)) == closed }, until: time.Now().Add(time.Minute), found: map[sandbox.Repository]bool{}}
			s.below(project, project)
			if got := s.result(); !slices.Equal(got.Found, tt.want) || got.Partial {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// Repositories are found in further directories, whose paths are absolute then, and work
// trees that belong to a repository in another one.
func TestRepositoriesInFurtherDirectories(t *testing.T) {
	top := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "make() { "+gitDir+`; }; mkdir project beside else && make project/.git && make project/a/.git && make beside/b/.git
		mkdir -p project/.git/worktrees/w && touch project/.git/worktrees/w/HEAD && echo ../.. > project/.git/worktrees/w/commondir && echo "gitdir: $PWD/project/.git/worktrees/w" > beside/.git && echo gitdir: /elsewhere > else/.git`)
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	project, beside := filepath.Join(top, "project"), filepath.Join(top, "beside")
	want := []sandbox.Repository{
		{Dir: ".git", Tree: "."},
		{Dir: ".git/worktrees/w", Tree: beside, Linked: true},
		{Dir: filepath.Join(beside, "b/.git"), Tree: filepath.Join(beside, "b")},
		{Dir: "a/.git", Tree: "a"},
	}
	for name, roots := range map[string][]string{"beside": {project, beside}, "above": {top}} {
		s := &search{project: project, roots: roots, closed: func(string) bool { return false }, until: time.Now().Add(time.Minute), found: map[sandbox.Repository]bool{}}
		for _, root := range roots {
			s.below(root, root)
		}
		if got := s.result(); !slices.Equal(got.Found, want) || got.Partial {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	s := &search{project: project, roots: []string{project, filepath.Join(top, "else")}, closed: func(string) bool { return false }, until: time.Now().Add(time.Minute), found: map[sandbox.Repository]bool{}}
	s.below(s.roots[1], s.roots[1])
	if got := s.result().Found; len(got) != 1 || got[0].Tree != s.roots[1] {
		t.Errorf("of a directory whose repository is elsewhere %+v is found", got)
	}
}

// A project with too many repositories, or files, says so.
func TestRepositoriesAreBounded(t *testing.T) {
	project := t.TempDir()
	for i := range maxRepositories + 1 {
		if err := os.MkdirAll(filepath.Join(project, string(rune('0'+i)), ".git", "objects"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	find := func(until time.Time) sandbox.Repositories {
		s := &search{project: project, roots: []string{project}, closed: func(string) bool { return false }, until: until, found: map[sandbox.Repository]bool{}}
		s.below(project, project)
		return s.result()
	}
	if got := find(time.Now().Add(time.Minute)); len(got.Found) != maxRepositories || !got.Partial {
		t.Errorf("%d of many were found, partial: %v", len(got.Found), got.Partial)
	}
	if got := find(time.Now()); len(got.Found) != 0 || !got.Partial {
		t.Errorf("%d were found in no time, partial: %v", len(got.Found), got.Partial)
	}
}
