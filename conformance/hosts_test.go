package conformance

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	registryHost    = "a package registry's host"
	registrySetting = "a registry setting"
	lockedPlace     = "the place a package came from in a lock file"
	folderBeside    = "a folder beside the repository"
	clonePath       = "the path of this clone"
)

// What ties a repository to the machine or network it was written on.
var local = []struct {
	what string
	re   *regexp.Regexp
}{
	{registryHost, regexp.MustCompile(`registry[.](npmjs|yarnpkg)|(proxy|sum)[.]golang[.]org|pypi[.]org|crates[.]io/api`)},
	{lockedPlace, regexp.MustCompile(`"resolved" *:`)},
	{registrySetting, regexp.MustCompile(`(?m)^ *([@\w-]+:)?registry *=|\b(GOPROXY|GONOSUMDB|GOSUMDB|NPM_CONFIG_REGISTRY) *[:?]?=`)},
	{folderBeside, regexp.MustCompile(`[.][.]/shared/`)},
}

// The places that may hold some of it, each with its reason. It ties them to nothing.
var mayHold = []struct {
	where *regexp.Regexp
	what  []string
	why   string
}{
	{regexp.MustCompile(`^sandbox/outbound/egress/`), []string{registryHost}, "the lists of hosts that a person may allow by one word are there"},
	{regexp.MustCompile(`^sandbox/trials/sandboxtest/site[.]go$`), []string{registryHost}, "a site of a test answers under the names of these lists"},
	{regexp.MustCompile(`^sandbox/trials/sandboxtest/tools[.]go$`), []string{registryHost, registrySetting}, "the real tools are sent to that site, and not where this machine's settings send them"},
	{regexp.MustCompile(`^cmd/gander/clients_linux_test[.]go$`), []string{registrySetting}, "the real go is sent to a server of the test, and not where this machine's settings send it"},
	{regexp.MustCompile(`^conformance/hosts_test[.]go$`), []string{registryHost, registrySetting, lockedPlace, folderBeside}, "what is looked for is planted there"},
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
		for what, held := range ties(text, root) {
			if !allowed(name, what) {
				t.Errorf("%s holds %s: %s", name, what, held)
			}
		}
	}
}

// allowed reports whether a file may hold what would tie another to a machine.
func allowed(file, what string) bool {
	for _, place := range mayHold {
		if place.where.MatchString(file) && slices.Contains(place.what, what) {
			return true
		}
	}
	return false
}

// Every exception is one that is needed.
func TestPlacesHoldWhatTheyMay(t *testing.T) {
	files := trackedFiles(t, "..")
	for _, place := range mayHold {
		held := map[string]bool{}
		for _, name := range files {
			if !place.where.MatchString(name) {
				continue
			}
			text, err := os.ReadFile(filepath.Join("..", name))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			for what := range ties(text, "/home/me/gander") {
				held[what] = true
			}
		}
		for _, what := range place.what {
			if !held[what] {
				t.Errorf("%s may hold %s (%s), and does not: take it out of mayHold", place.where, what, place.why)
			}
		}
	}
}

func TestTies(t *testing.T) {
	tests := []struct {
		text string
		tied bool
	}{
		{`"integrity": "sha512-x"`, false},
		{`"resolved": "https://example.org/x.tgz"`, true},
		{"registry=https://example.org", true},
		{"@scope:registry = https://example.org", true},
		{"omit-lockfile-registry-resolved=true", false},
		{"https://registry.npmjs.org/x", true},
		{"GOPROXY=off go build", true},
		{"see ../shared/reference", true},
		{"cd /home/me/gander && make", true},
		{"cd gander && make", false},
	}
	for _, tt := range tests {
		if got := ties([]byte(tt.text), "/home/me/gander"); (len(got) > 0) != tt.tied {
			t.Errorf("ties(%q) = %v, want some: %v", tt.text, got, tt.tied)
		}
	}
}

// ties says what in text belongs to one machine, and an example of each; root is where
// this clone is.
func ties(text []byte, root string) map[string]string {
	found := map[string]string{}
	for _, l := range local {
		if m := l.re.Find(text); m != nil {
			found[l.what] = string(m)
		}
	}
	if bytes.Contains(text, []byte(root)) {
		found[clonePath] = root
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
