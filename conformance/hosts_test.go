package conformance

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Where the lists of hosts are that a person may allow by one word, and what tries them:
// what a package registry is called is what they are about.
var presets = regexp.MustCompile(`^sandbox/(egress/|sandboxtest/(site|tools)[.]go$)`)

const registryHost = "a package registry's host"

// What ties a repository to the machine or network it was written on.
var local = []struct {
	what string
	re   *regexp.Regexp
}{
	{registryHost, regexp.MustCompile(`registry[.](npmjs|yarnpkg)|(proxy|sum)[.]golang[.]org|pypi[.]org|crates[.]io/api`)},
	{"the place a package came from in a lock file", regexp.MustCompile(`"resolved" *:`)},
	{"a registry setting", regexp.MustCompile(`(?m)^ *([@\w-]+:)?registry *=|\b(GOPROXY|GONOSUMDB|GOSUMDB|NPM_CONFIG_REGISTRY) *[:?]?=`)},
	{"a folder beside the repository", regexp.MustCompile(`[.][.]/shared/`)},
}

func TestTrackedFilesBelongToNoMachine(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	files := trackedFiles(t, root)
	if len(files) < 10 {
		t.Fatalf("only %d files found: the test looks in the wrong place", len(files))
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range ties(text, root) {
			if presets.MatchString(name) && strings.HasPrefix(what, registryHost) {
				continue
			}
			t.Errorf("%s holds %s", name, what)
		}
	}
}

func TestTies(t *testing.T) {
	tests := []struct {
		text string
		tied bool
	}{
		{`"integrity": "sha512-x"`, false},
		{`"resolved"` + `: "https://example.org/x.tgz"`, true},
		{"registry=https://example.org", true},
		{"@scope:registry = https://example.org", true},
		{"omit-lockfile-registry-resolved=true", false},
		{"https://registry" + ".npmjs.org/x", true},
		{"GOPROXY" + "=off go build", true},
		{"see .." + "/shared/reference", true},
		{"cd /home/me/gander && make", true},
		{"cd gander && make", false},
	}
	for _, tt := range tests {
		if got := ties([]byte(tt.text), "/home/me/gander"); (len(got) > 0) != tt.tied {
			t.Errorf("ties(%q) = %q, want some: %v", tt.text, got, tt.tied)
		}
	}
}

// ties says what in text belongs to one machine; root is where this clone is.
func ties(text []byte, root string) []string {
	var found []string
	for _, l := range local {
		if m := l.re.Find(text); m != nil {
			found = append(found, l.what+": "+string(m))
		}
	}
	if bytes.Contains(text, []byte(root)) {
		found = append(found, "the path of this clone: "+root)
	}
	return found
}

// trackedFiles asks git, also for a clone that belongs to another user; without
// git, or outside a clone, it takes every file that is not ignored by convention.
func trackedFiles(t *testing.T, root string) []string {
	cmd := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z")
	if out, err := cmd.Output(); err == nil && len(out) > 0 {
		return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	}
	var files []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "bin" || d.Name() == "dist"):
			return fs.SkipDir
		case d.Type().IsRegular():
			rel, err := filepath.Rel(root, name)
			files = append(files, rel)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
