package shell_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/developer/shell"
	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// keepers are a Runner that keeps the rules of a directory, and one that does not.
func keepers(t *testing.T, dir string, more ...string) (kept, free *shell.Runner) {
	t.Helper()
	if err := shell.CanKeepRules(); err != nil {
		if os.Getenv("GANDER_CHECK") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	variables := append(env(newMark()), more...)
	kept = newRunner(t, shell.Options{Env: variables, WorkingDir: dir, KeepRules: true, OwnRules: filepath.Join(dir, "..", "own")})
	return kept, newRunner(t, shell.Options{Env: variables, WorkingDir: dir})
}

const secret = "the-content-of-it"

// put makes files; a name that ends with a slash is a directory.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeepRules: what .gooseignore closes stays closed to whatever a command starts, also in
// the background; without KeepRules each of the tricks works.
func TestKeepRules(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "project")
	files := map[string]string{
		".gooseignore": ".secret\n/vault/\n", ".secret": secret + "\n", "vault/deep/f": secret + "\n", "sub/x": "x\n", "open": "open\n",
		"read.sh": "cat .secret\n", "Makefile": "all:\n\t@cat .secret\n", "../own": "mine\n", "mine": secret + "\n",
	}
	put(t, dir, files)
	kept, free := keepers(t, dir)
	reset := func() {
		for _, made := range []string{"l1", "h1", "c1", "m1", "g2", "n", "../copy"} {
			if err := os.RemoveAll(filepath.Join(dir, made)); err != nil {
				t.Fatal(err)
			}
		}
		put(t, dir, files)
	}
	for i, line := range []string{
		"cat .secret", "cat $(echo .sec)ret", "cd sub && cat ../.secret", "grep -rh content .", "sh read.sh", "make -s",
		`python3 -c "print(open('.sec'+'ret').read())"`, "cat vault/deep/f", "cd vault/deep && cat f", "cat mine",
		"ln -s .secret l1 && cat l1", "ln .secret h1 && cat h1", "cp .secret c1 && cat c1", "mv .secret m1 && cat m1 && mv m1 .secret",
		"tar cf - .secret | tar xOf -", "dd if=.secret 2>/dev/null", "mkdir -p n && mv vault n/v && cat n/v/deep/f && mv n/v vault",
		"exec 3<.secret && cat <&3", "cat /proc/self/cwd/.secret", "(setsid sh -c 'cat .secret' | cat)", "awk 1 .secret", "perl -pe1 .secret",
		"rm -f .gooseignore && cat .secret", "echo > .gooseignore; cat .secret", "mv .gooseignore g2; cat .secret",
		"cp -r . ../copy 2>/dev/null; cat ../copy/.secret", "git -c alias.x='!cat .secret' x", "env -i /bin/cat .secret", "cat </dev/null - .secret",
	} {
		if res := run(t, kept, shell.Command{Line: line}); strings.Contains(res.Merged.Shown, secret) {
			t.Errorf("%s: %s", line, res.Merged.Shown)
		}
		reset()
		if i%4 == 0 {
			job, err := kept.Start(t.Context(), shell.Command{Line: line})
			if err != nil {
				t.Fatal(err)
			}
			if err := job.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := job.Text(shell.Limits{}).Shown; strings.Contains(got, secret) {
				t.Errorf("in the background, %s: %s", line, got)
			}
			reset()
		}
		if res := run(t, free, shell.Command{Line: line}); !strings.Contains(res.Merged.Shown, secret) {
			t.Errorf("the control of %s shows nothing: %s", line, res.Merged.Shown)
		}
		reset()
	}
	for _, line := range []string{
		"echo x > .secret", "echo x >> vault/deep/f", "echo x > vault/new", "rm -f .secret", "mv open .secret", "ln -sf open .secret", "truncate -s 0 .secret",
		"chmod 777 .secret", "rm -rf vault", "mkdir vault/d", "sed -i s/t/u/ .secret", "echo x > .gooseignore", "rm -f .gooseignore", "mv sub/x .gooseignore",
	} {
		_ = run(t, kept, shell.Command{Line: line})
		for name, text := range files {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || name != "sub/x" && name != "open" && string(got) != text {
				t.Errorf("%s: %s is %q, %v", line, name, got, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, "vault/new")); err == nil {
			t.Errorf("%s made it", line)
		}
		reset()
	}
}

// TestKeepRulesFollows: rules hold as they are now, of the directory that a command runs in.
func TestKeepRulesFollows(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "project"), filepath.Join(t.TempDir(), "other")
	put(t, dir, map[string]string{".gooseignore": "a\n", "a": secret, "b": secret})
	put(t, other, map[string]string{".gooseignore": "b\n", "a": secret, "b": secret})
	kept, _ := keepers(t, dir)
	shows := func(at, line string, want bool) {
		t.Helper()
		if res := run(t, kept, shell.Command{Line: line, Dir: at}); strings.Contains(res.Merged.Shown, secret) != want {
			t.Errorf("%s in %s: %s", line, at, res.Merged.Shown)
		}
	}
	shows(dir, "cat a", false)
	shows(dir, "cat b", true)
	shows(other, "cat a", true)
	shows(other, "cat b", false)
	put(t, dir, map[string]string{".gooseignore": "b\n"})
	eventually(t, "the new rules hold", func() bool {
		return strings.Contains(run(t, kept, shell.Command{Line: "cat a"}).Merged.Shown, secret)
	})
	shows(dir, "cat b", false)
	own := filepath.Join(dir, "..", "own") // the next command has what the person's own file says
	for range 20 {
		put(t, dir, map[string]string{"../own": "a\n"})
		shows(dir, "cat a", false)
		if err := os.Remove(own); err != nil {
			t.Fatal(err)
		}
		shows(dir, "cat a", true)
	}
	for range 20 { // the supervisors are bounded
		at := filepath.Join(t.TempDir(), "further")
		put(t, at, map[string]string{".gooseignore": "b\n", "b": secret})
		shows(at, "cat b", false)
	}
	shows(dir, "cat b", false)
}

// TestKeepRulesLetsWork: what a person does every day works as without rules.
func TestKeepRulesLetsWork(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "project")
	put(t, dir, map[string]string{".gooseignore": ".secret\n", ".gitignore": ".secret\n", ".secret": secret, "a.txt": "a\n"})
	put(t, dir, map[string]string{"package.json": `{"name":"x","version":"1.0.0","scripts":{"test":"node -e \"console.log('tests ran')\""}}`})
	put(t, home, map[string]string{".gitconfig": "[user]\n\tname = Person\n\temail = p@example.com\n"})
	kept, _ := keepers(t, dir, "HOME="+home)
	for _, c := range []struct{ line, want string }{
		{"git init -q . && git add -A && git commit -qm first && git log --format=%an", "Person"},
		{"mkdir -p .git/hooks && printf '#!/bin/sh\\necho hooked\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit && echo b >> a.txt && git commit -qam second 2>&1", "hooked"},
		{"git config user.name Other && git config user.name", "Other"},
		{"mkdir -p .vscode && echo '{}' > .vscode/settings.json && cat .vscode/settings.json", "{}"},
		{"ps -p " + itoa(os.Getpid()) + " -o pid= | tr -d ' '", itoa(os.Getpid())},
		{"python3 -c \"import socket; a,b=socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.send(b'datagram'); print(b.recv(9).decode())\"", "datagram"},
		{"python3 -c \"import socket,os; s=socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen(); c=socket.socket(socket.AF_UNIX); c.connect('sock'); print('connected')\"; rm -f sock", "connected"},
		{"npm test 2>&1", "tests ran"},
		{"python3 -c 'import os; os.setgid(os.getgid()); os.setuid(os.getuid()); print(open(\"a.txt\").read())'", "a\n"},
		{"cat a.txt", "a\n"}, // also after a program that became the same user again
		{"cat /etc/hostname >/dev/null && echo outside > ../outside && cat ../outside", "outside"},
	} {
		if res := run(t, kept, shell.Command{Line: c.line}); !strings.Contains(res.Merged.Shown, c.want) {
			t.Errorf("%s: %d, %s", c.line, res.Code, res.Merged.Shown)
		}
	}
}

// TestKeepRulesHolds: below the kernel's rules, too, a cancelled tree leaves nothing however it
// escapes, a daemon runs on, and much output is whole.
func TestKeepRulesHolds(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{".gooseignore": ".secret\n", ".secret": secret})
	kept, _ := keepers(t, dir)
	for _, e := range escapes {
		cancelOne(t, kept, e.name, e.line)
	}
	res := run(t, kept, shell.Command{Line: "(setsid sh -c 'while :; do cat .secret; sleep 0.1; done' </dev/null >out 2>&1 &); echo started"})
	if res.Merged.Shown != "started\n" || len(res.Left) == 0 {
		t.Errorf("a daemon: %+v", res)
	}
	eventually(t, "the daemon is refused", func() bool {
		out, err := os.ReadFile(filepath.Join(dir, "out"))
		return err == nil && strings.Contains(string(out), "Permission denied")
	})
	if out, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || strings.Contains(string(out), secret) {
		t.Errorf("the daemon says %q, %v", out, err)
	}
	size := 64 << 20
	if os.Getenv("GANDER_EVERYWHERE") != "" {
		size = gigabyte
	}
	res = run(t, kept, shell.Command{Line: "yes 'a line of output' | head -c " + itoa(size) + "; echo; echo the end"})
	if res.Merged.Bytes < int64(size) || !strings.HasSuffix(res.Merged.Shown, "\nthe end") {
		t.Errorf("%d bytes of output, the end is %.40q", res.Merged.Bytes, res.Merged.Shown[max(0, len(res.Merged.Shown)-40):])
	}
}

// TestKeepRulesOfOtherUsers: a command of root's that becomes somebody else has the rights of
// that user, and no others.
func TestKeepRulesOfOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root only")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	top, err := os.MkdirTemp("/tmp", "gander-users-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	dir := filepath.Join(top, "project")
	put(t, dir, map[string]string{".gooseignore": ".secret\n", ".secret": secret, "mine": "root's\n", "theirs": "theirs\n"})
	for name, mode := range map[string]os.FileMode{"": 0o755, "project": 0o777, "project/mine": 0o600, "project/.secret": 0o644} {
		if err := os.Chmod(filepath.Join(top, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(dir, "theirs"), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept, _ := keepers(t, dir)
	const user = "setpriv --reuid 12345 --regid 12345 --clear-groups "
	for _, c := range []struct{ line, want string }{
		{"cat theirs", "theirs"}, // root's rights on files of others
		{"chown 12345:12345 mine && stat -c %u mine && chown 0:0 mine", "12345"},
		{user + "cat theirs", "theirs"},
		{user + "cat mine 2>&1; true", "Permission denied"},
		{user + "cat .secret 2>&1; true", "Permission denied"},
		{user + "sh -c 'echo x > new'; stat -c %u:%g new", "12345:12345"},
		{"cat mine", "root's"},
		{"setpriv --bounding-set=-dac_override --inh-caps=-dac_override cat mine", "root's"},
		{"echo y > again; stat -c %u again", "0"},
	} {
		if res := run(t, kept, shell.Command{Line: c.line}); !strings.Contains(res.Merged.Shown, c.want) {
			t.Errorf("%s: %d, %s", c.line, res.Code, res.Merged.Shown)
		}
	}
}

func TestKeepRulesAsOrdinaryUser(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^TestKeepRules(|Follows|LetsWork|Holds)$"})
}
