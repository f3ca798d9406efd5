package local

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

func exampleSeatbelt() seatbelt {
	return seatbelt{
		project: "/Users/me/pro.ject", home: "/Users/me/.gander/sandboxes/x/home", temporary: []string{"/private/tmp"},
		readable: []string{"/opt/tools"}, private: []string{"/Users", "/Volumes"},
		rules: []seatbeltRule{
			{"/Users/me/pro.ject", "# mine"},
			{"/Users/me/pro.ject", "**/.env"},
			{"/Users/me/pro.ject", "*.pem"},
			{"/Users/me/pro.ject", "private/"},
			{"/Users/me/pro.ject", "/deploy/key?"},
			{"/Users/me/pro.ject", "**/conf/token"},
			{"/Users/me/pro.ject", "keys/**/id"},
			{"/Users/me/pro.ject", "!public.pem"},
		},
		writes: policy.Writes{Protect: []string{"@ci"}, Allow: []string{".vscode/settings.json", "@shell"}},
	}
}

// TestSeatbeltProfile compares the profile with the one that was looked at.
func TestSeatbeltProfile(t *testing.T) {
	file := filepath.Join("testdata", "seatbelt.sb")
	got := exampleSeatbelt().profile()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
		t.Errorf("the profile has changed; look at it, and run with -update:\n%s", diff)
	}
}

// decide reads the profile's clauses with regular expressions as the kernel does:
// the last one that matches decides. A path that ends with a slash is a directory.
func decide(t *testing.T, profile, operation, path string) string {
	t.Helper()
	clause := regexp.MustCompile(`^\((allow|deny) ([a-z* -]+) (?:\(require-all (\(vnode-type DIRECTORY\)) )?\((regex|subpath|literal) #?"(.*)"\)\)?\)$`)
	verdict := "allow"
	path, directory := strings.CutSuffix(path, "/")
	for line := range strings.Lines(profile) {
		m := clause.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || !covers(m[2], operation) {
			if line == "(deny file-write*)\n" && strings.HasPrefix(operation, "file-write") {
				verdict = "deny"
			}
			continue
		}
		hit := false
		switch m[4] {
		case "regex":
			re, err := regexp.Compile(m[5])
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			hit = re.MatchString(path)
		case "subpath":
			hit = path == m[5] || strings.HasPrefix(path, m[5]+"/")
		case "literal":
			hit = path == m[5]
		}
		if hit && (m[3] == "" || directory) {
			verdict = m[1]
		}
	}
	return verdict
}

func covers(operations, operation string) bool {
	for o := range strings.FieldsSeq(operations) {
		if prefix, ok := strings.CutSuffix(o, "*"); o == operation || ok && strings.HasPrefix(operation, prefix) {
			return true
		}
	}
	return false
}

// TestSeatbeltDecides: what the profile means, by its own rule.
func TestSeatbeltDecides(t *testing.T) {
	profile := exampleSeatbelt().profile()
	const read, write, move = "file-read-data", "file-write-data", "file-write-unlink"
	p := "/Users/me/pro.ject"
	for _, tt := range []struct{ operation, path, want string }{
		{read, p + "/main.go", "allow"},
		{write, p + "/main.go", "allow"},
		{read, "/Users/me/.ssh/id_rsa", "deny"},
		{read, "/Users/me/proXject/x", "deny"},
		{read, "/opt/tools/x", "allow"},
		{write, "/opt/tools/x", "deny"},
		{write, "/etc/hosts", "deny"},
		{write, "/private/tmp/x", "allow"},
		{read, p + "/.env", "deny"},
		{read, p + "/a/b/.ENV", "deny"},
		{write, p + "/.env", "deny"},
		{read, p + "/a/x.pem", "deny"},
		{read, p + "/a/public.pem", "allow"},
		{read, p + "/private/deep/key", "deny"},
		{read, p + "/deploy/key1", "deny"},
		{read, p + "/a/deploy/key1", "allow"},
		{read, p + "/a/conf/token", "deny"},
		{read, p + "/keys/a/b/id", "deny"},
		{move, p + "/", "deny"},
		{move, p + "/deploy/", "deny"},
		{move, p + "/Deploy/", "deny"},
		{move, p + "/deploy/old/", "allow"},
		{move, p + "/a/deploy/", "allow"},
		{move, p + "/a/conf/", "deny"},
		{move, p + "/keys/", "deny"},
		{move, p + "/keys/a/b/", "deny"},
		{move, p + "/keys/a/readme", "allow"},
		{move, p + "/build/", "allow"},
		{move, p + "/.env", "deny"},
		{move, "/Users/me/", "deny"},
		{read, "/etc/hosts", "allow"},
		{read, "/Users/other/", "deny"},
		{write, p + "/.git/config", "deny"},
		{read, p + "/.git/config", "allow"},
		{write, p + "/.git/index", "allow"},
		{write, p + "/.git/hooks/pre-commit", "deny"},
		{write, p + "/.GIT/config", "deny"},
		{write, p + "/.git", "deny"},
		{write, p + "/sub/.git/modules/a/b/config", "deny"},
		{write, p + "/.vscode/tasks.json", "deny"},
		{write, p + "/.vscode/settings.json", "allow"},
		{write, p + "/.github/workflows/ci.yml", "deny"},
		{write, p + "/.github/CODEOWNERS", "allow"},
		{write, p + "/.envrc", "allow"}, // the group @shell is allowed
		{write, p + "/.gander.json", "deny"},
		{write, p + "/.gooseignore", "deny"},
	} {
		if got := decide(t, profile, tt.operation, tt.path); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.operation, tt.path, got, tt.want)
		}
	}
}

// TestSeatbeltWords: what is said of a sandbox under a profile is what the profile does.
func TestSeatbeltWords(t *testing.T) {
	var p plan
	p.weaker = []string{"files and network are not closed off", "closed files are open"}
	p.confined("somehow")
	if got := strings.Join(p.weaker, ", "); got != "files outside of people's directories are visible, loopback is open, files are closed by name only" {
		t.Errorf("what does not hold: %q", got)
	}
	profile := exampleSeatbelt().profile()
	_, network, _ := strings.Cut(profile, "(deny network*)\n")
	for line := range strings.Lines(network) {
		if strings.HasPrefix(line, "(allow network") && !strings.Contains(line, `ip "localhost:*"`) && !strings.Contains(line, `(subpath "/Users/me/`) {
			t.Errorf("more than loopback and sockets of the project and the home: %s", line)
		}
	}
	for _, want := range []string{"processes are held somehow", "directories that are moved out of the project", "listen on loopback"} {
		if !strings.Contains(p.isolation, want) {
			t.Errorf("%q is not said in %q", want, p.isolation)
		}
	}
	if len(p.warnings) != 1 || !strings.Contains(p.warnings[0], "the network by loopback only") {
		t.Errorf("warnings %q", p.warnings)
	}
}
