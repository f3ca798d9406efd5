package supervise

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
			s := &search{project: project, agent: os.Geteuid(), roots: []string{project}, closed: func(dir string) bool { return filepath.Dir(filepath.Dir(dir)) == closed }, until: time.Now().Add(time.Minute), found: map[sandbox.Repository]bool{}}
			s.below(project, project)
			if got := s.result(); !slices.Equal(got, tt.want) || s.partial || s.err != nil {
				t.Errorf("%+v, %v, want %+v", got, s.err, tt.want)
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
		s := &search{project: project, agent: os.Geteuid(), roots: roots, closed: func(string) bool { return false }, until: time.Now().Add(time.Minute), found: map[sandbox.Repository]bool{}}
		for _, root := range roots {
			s.below(root, root)
		}
		if got := s.result(); !slices.Equal(got, want) || s.partial || s.err != nil {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	s := &search{project: project, agent: os.Geteuid(), roots: []string{project, filepath.Join(top, "else")}, closed: func(string) bool { return false }, until: time.Now().Add(time.Minute), found: map[sandbox.Repository]bool{}}
	s.below(s.roots[1], s.roots[1])
	if got := s.result(); len(got) != 1 || got[0].Tree != s.roots[1] {
		t.Errorf("of a directory whose repository is elsewhere %+v is found", got)
	}
}

// searched looks for all repositories of a project.
func searched(project string, until time.Time) *search {
	s := &search{project: project, agent: os.Geteuid(), roots: []string{project}, closed: func(string) bool { return false }, until: until, found: map[sandbox.Repository]bool{}}
	s.below(project, project)
	return s
}

// A project with too many repositories, or files, says so, and what can be made inside
// puts no other out of sight.
func TestRepositoriesAreBounded(t *testing.T) {
	project := t.TempDir()
	script := "make() { " + gitDir + "; }; i=0; while [ $i -lt 70 ]; do make 00/$i; i=$((i+1)); done; make lib/r/.git"
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.Dir = project
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := searched(project, time.Now().Add(time.Minute))
	if got := s.result(); len(got) != 71 || got[0].Dir != "lib/r/.git" || s.partial {
		t.Errorf("%d were found, partial: %v, the first: %v", len(got), s.partial, got[:min(1, len(got))])
	}
	if s := searched(project, time.Now()); len(s.result()) != 0 || !s.partial {
		t.Errorf("%d were found in no time, partial: %v", len(s.result()), s.partial)
	}
}

// A directory or file that cannot be read, and that somebody inside could make readable
// again, is not taken for one without a repository.
func TestRepositoriesCannotBeHidden(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	for name, script := range map[string]string{
		"a directory":              "chmod 0311 lib",
		"a directory's entries":    "chmod 0644 lib",
		"the repository's":         "chmod 0 lib/r",
		"its git directory":        "chmod 0 lib/r/.git",
		"a file that leads to one": "mv lib/r/.git g; echo gitdir: ../../g > lib/r/.git; chmod 0 lib/r/.git",
		"a bare one":               "chmod 0644 bare",
	} {
		t.Run(name, func(t *testing.T) {
			project := t.TempDir()
			t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwx", project).Run() })
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "make() { "+gitDir+"; }; make lib/r/.git; make bare; "+script)
			cmd.Dir = project
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if s := searched(project, time.Now().Add(time.Minute)); s.err == nil || !strings.Contains(s.err.Error(), "permission") {
				t.Errorf("%v, and found %v", s.err, s.result())
			}
		})
	}
}

// A file that another program has a lease on is waited for, and not without end.
func TestLeasedConfiguration(t *testing.T) {
	signal.Ignore(syscall.SIGIO) // by which the holder is told
	t.Cleanup(func() { signal.Reset(syscall.SIGIO) })
	tree := t.TempDir()
	layOut(t, tree, map[string]string{".git/config": "[core]\nhooksPath=h\n"})
	f, err := os.Open(filepath.Join(tree, ".git", "config"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no leases here: ", err)
	}
	if got, err := gitPlaces(tree, ""); err == nil {
		t.Errorf("a configuration that cannot be opened names %q", got.Files)
	}
	given := make(chan struct{})
	time.AfterFunc(2*leaseTime, func() {
		defer close(given)
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	})
	defer func() { <-given }()
	if got, err := gitPlaces(tree, ""); err != nil || !slices.Equal(got.Files, []string{"h", ".git/h"}) {
		t.Errorf("%q, %v", got.Files, err)
	}
}
