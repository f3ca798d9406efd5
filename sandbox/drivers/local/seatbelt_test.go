package local

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/policy"
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
	compareGolden(t, "seatbelt.sb", exampleSeatbelt().profile())
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
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

// TestSeatbeltKeeps: for the developer server's commands a profile closes the same files, and
// nothing else.
func TestSeatbeltKeeps(t *testing.T) {
	s := exampleSeatbelt()
	s.writes = policy.Writes{}
	for _, g := range policy.Groups() {
		s.writes.Allow = append(s.writes.Allow, "@"+g.Name)
	}
	profile := s.keeping()
	compareGolden(t, "seatbelt-keeping.sb", profile)
	const read, write, move, link, clone = "file-read-data", "file-write-data", "file-write-unlink", "file-link", "file-clone"
	p := s.project
	for _, name := range []string{"/.env", "/a/b/.ENV", "/a/x.pem", "/private/deep/key", "/deploy/key1", "/a/conf/token"} {
		for _, operation := range []string{read, write, move, link, clone, "file-read-xattr"} {
			if got := decide(t, profile, operation, p+name); got != "deny" {
				t.Errorf("%s %s: %s", operation, name, got)
			}
		}
	}
	for _, tt := range []struct{ operation, path, want string }{
		{write, p + "/.gooseignore", "deny"},
		{move, p + "/.gooseignore", "deny"},
		{read, p + "/.gooseignore", "allow"},
		{move, p + "/deploy/", "deny"},
		{read, p + "/main.go", "allow"},
		{write, p + "/main.go", "allow"},
		{read, p + "/public.pem", "allow"},
		{write, p + "/.git/config", "allow"}, // as outside
		{write, p + "/.git/hooks/pre-commit", "allow"},
		{write, p + "/.vscode/tasks.json", "allow"},
		{read, "/Users/me/.ssh/id_rsa", "allow"},
		{read, "/Users/me/.env", "allow"},
		{write, "/Users/me/other/x", "allow"},
		{"network-outbound", "/var/run/x", "allow"},
	} {
		if got := decide(t, profile, tt.operation, tt.path); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.operation, tt.path, got, tt.want)
		}
	}
}

// clauseRE is a clause about files, as decide reads it.
var clauseRE = regexp.MustCompile(`^\((allow|deny) ([a-z* -]+?)(?: (?:\(require-all (\(vnode-type DIRECTORY\)) )?\((regex|subpath|literal) #?"(.*)"\)\)?)?\)$`)

// decide reads the profile's clauses about files: the last one that matches decides. Where
// a clause that names the operation matches, those that name a group of operations do not
// count: some say so of the kernel, and the profile must mean the same either way. A path
// that ends with a slash is a directory.
func decide(t *testing.T, profile, operation, path string) string {
	t.Helper()
	path, directory := strings.CutSuffix(path, "/")
	last, named := "allow", ""
	for line := range strings.Lines(profile) {
		m := clauseRE.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || !covers(m[2], operation) {
			continue
		}
		hit := m[4] == ""
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
		if !hit || m[3] != "" && !directory {
			continue
		}
		last = m[1]
		if slices.Contains(strings.Fields(m[2]), operation) {
			named = m[1]
		}
	}
	if named != "" && named != last {
		t.Errorf("%s %s: %s by the last clause, %s by the last one that names the operation", operation, path, last, named)
	}
	return last
}

func covers(operations, operation string) bool {
	for o := range strings.FieldsSeq(operations) {
		if prefix, ok := strings.CutSuffix(o, "*"); o == operation || ok && strings.HasPrefix(operation, prefix) {
			return true
		}
	}
	return false
}

// TestSeatbeltLanguage: the profile uses no word that macOS may not know. One such word
// and no sandbox starts. These are in profiles that are in use on macOS 13 to 27.
func TestSeatbeltLanguage(t *testing.T) {
	known := strings.Fields(`version allow deny default require-all vnode-type DIRECTORY regex subpath literal extension local remote ip target same-sandbox
		global-name sysctl-name-prefix network* network-bind network-inbound network-outbound appleevent-send lsopen job-creation
		user-preference-write file-mount mach-lookup signal process-info* mach-priv-task-port sysctl-read file-read* file-read-data
		file-read-xattr file-read-metadata file-write* file-write-data file-write-unlink file-link file-clone`)
	for line := range strings.Lines(exampleSeatbelt().profile() + exampleSeatbelt().keeping()) {
		code, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		code = regexp.MustCompile(`#?"[^"]*"`).ReplaceAllString(code, `""`)
		if strings.Count(code, "(") != strings.Count(code, ")") {
			t.Errorf("parentheses: %s", line)
		}
		for _, word := range regexp.MustCompile(`[^()\s"]+`).FindAllString(code, -1) {
			if !slices.Contains(known, word) && word != "1" {
				t.Errorf("%q in %s", word, line)
			}
		}
	}
}

// TestSeatbeltNetwork: what goes out is judged by where it goes. A clause that looks at
// this end instead lets everything out, because this end is not bound before.
func TestSeatbeltNetwork(t *testing.T) {
	var out []string
	clause := regexp.MustCompile(`^\((allow|deny) ([a-z* -]+?)(?: (\(.*\)))?\)$`)
	for line := range strings.Lines(exampleSeatbelt().profile()) {
		if m := clause.FindStringSubmatch(strings.TrimSpace(line)); m != nil && covers(m[2], "network-outbound") {
			out = append(out, strings.TrimSpace(m[1]+" "+m[3]))
		}
	}
	want := []string{"deny", `allow (remote ip "localhost:*")`, `allow (subpath "/Users/me/pro.ject")`, `allow (subpath "/Users/me/.gander/sandboxes/x/home")`}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("what may go out: %s", diff)
	}
}

// TestSeatbeltDecides: what the profile means, by its own rule.
func TestSeatbeltDecides(t *testing.T) {
	profile := exampleSeatbelt().profile()
	const read, write, move, link, clone = "file-read-data", "file-write-data", "file-write-unlink", "file-link", "file-clone"
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
		{link, p + "/.env", "deny"}, // to give it another name, which is open
		{clone, p + "/.env", "deny"},
		{"file-read-xattr", p + "/.env", "deny"},
		{link, p + "/main.go", "allow"},
		{clone, p + "/main.go", "allow"},
		{link, "/Users/me/.ssh/id_rsa", "deny"},
		{clone, "/Users/me/.ssh/id_rsa", "deny"},
		{link, "/etc/hosts", "deny"},
		{link, p + "/.git/hooks/pre-commit", "deny"},
		{clone, p + "/.vscode/tasks.json", "deny"},
		{clone, p + "/.vscode/settings.json", "allow"},
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
		{write, "/dev/null", "allow"},
		{write, "/dev/ptmx", "allow"},
		{read, "/dev/ttys003", "deny"}, // a window of the person's
		{write, "/dev/ttys003", "deny"},
		{write, p + "/.git/config", "deny"},
		{read, p + "/.git/config", "allow"},
		{write, p + "/.git/index", "allow"},
		{write, p + "/.git/hooks/pre-commit", "deny"},
		{write, p + "/.GIT/config", "deny"},
		{write, p + "/.git", "deny"},
		{write, p + "/sub/.git/modules/a/b/config", "deny"},
		{write, p + "/.git/remotes/origin", "deny"},
		{write, p + "/.git/branches/origin", "deny"},
		{write, p + "/.git/modules/a/remotes", "deny"},
		{write, p + "/.git/modules/a/remotes/o", "deny"},
		{write, p + "/.git/modules/a/remotes/b/index", "allow"},
		{write, p + "/.git/modules/a/remotes/b/config", "deny"},
		{write, p + "/.git/refs/remotes/origin/main", "allow"},
		{write, p + "/.git/modules/a/refs/remotes/origin/main", "allow"},
		{write, p + "/.vscode/tasks.json", "deny"},
		{write, p + "/.vscode/settings.json", "allow"},
		{write, p + "/.github/workflows/ci.yml", "deny"},
		{write, p + "/.github/CODEOWNERS", "allow"},
		{write, p + "/.envrc", "allow"}, // the group @shell is allowed
		{write, p + "/.gander.json", "deny"},
		{write, p + "/.gander-undo-A7/new-0", "deny"},
		{write, p + "/.gooseignore", "deny"},
	} {
		if got := decide(t, profile, tt.operation, tt.path); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.operation, tt.path, got, tt.want)
		}
	}
	strict := exampleSeatbelt()
	strict.writes.Allow = nil // for which the closed files are not repeated
	for _, operation := range []string{read, write, move, link, clone} {
		if got := decide(t, strict.profile(), operation, p+"/.env"); got != "deny" {
			t.Errorf("%s of a closed file: %s", operation, got)
		}
	}
}

// TestSeatbeltStrings: a rule that sandbox-exec would not take is told by name.
func TestSeatbeltStrings(t *testing.T) {
	s := exampleSeatbelt()
	if err := checkStrings(s.profile()); err != nil {
		t.Error(err)
	}
	name := strings.Repeat("a", 300)
	s.rules = append(s.rules, seatbeltRule{s.project, name + ".key"})
	if err := checkStrings(s.profile()); err == nil || !strings.Contains(err.Error(), "[aA][aA]") || !strings.Contains(err.Error(), ".gooseignore") {
		t.Errorf("a name of %d letters: %v", len(name), err)
	}
}

// TestSeatbeltWords: what is said of a sandbox under a profile is what the profile does.
func TestSeatbeltWords(t *testing.T) {
	var p plan
	p.weaker = []string{"files and network are not closed off", "closed files are open"}
	p.confined("somehow")
	if got := strings.Join(p.weaker, ", "); got != "files outside of people's directories are visible, loopback is open, files are closed by name only, environments of other processes are visible" {
		t.Errorf("what does not hold: %q", got)
	}
	for _, want := range []string{"processes are held somehow", "directories that are moved out of the project", "listen on loopback", "before macOS 27 the environments"} {
		if !strings.Contains(p.isolation, want) {
			t.Errorf("%q is not said in %q", want, p.isolation)
		}
	}
	if want := (sandbox.Enforcement{Closed: sandbox.ByName, Protected: sandbox.ByName}); p.kept != want {
		t.Errorf("rules are said to be kept by %+v", p.kept)
	}
	if len(p.warnings) != 1 || !strings.Contains(p.warnings[0], "the network by loopback only") {
		t.Errorf("warnings %q", p.warnings)
	}
}
