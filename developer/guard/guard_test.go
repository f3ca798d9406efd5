package guard_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/developer/files"
	"gander.dev/gander/developer/guard"
	"gander.dev/gander/sandbox/rules/ignore"
)

// A yard is a project with hidden files, and a home beside it.
type yard struct{ dir, home string }

func newYard(t testing.TB) yard {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := yard{dir: filepath.Join(top, "project"), home: filepath.Join(top, "home")}
	for name, text := range map[string]string{
		"project/.gooseignore":      "**/.env\n**/.env.*\n**/secrets.*\nbuild\n/secretfile\nvault/\n",
		"project/.env":              "KEY=1",
		"project/.env.local":        "KEY=2",
		"project/.envrc":            "",
		"project/secrets.sh":        "",
		"project/secrets.txt":       "",
		"project/secretfile":        "",
		"project/main.go":           "",
		"project/a b.txt":           "",
		"project/build/out":         "",
		"project/vault/key":         "",
		"project/sub/.env":          "",
		"project/sub/ok.txt":        "",
		"project/other/secrets.yml": "",
		"home/.env":                 "",
		"home/notes":                "",
	} {
		name = filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "windows" {
		for link, target := range map[string]string{"link": ".env", "linkdir": "vault", "sub/up": "..", "dangling": ".env.new"} {
			if err := os.Symlink(target, filepath.Join(y.dir, link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return y
}

func (y yard) options(t testing.TB) guard.Options {
	t.Helper()
	rules, err := ignore.NewSet(ignore.SetOptions{Root: y.dir})
	if err != nil {
		t.Fatal(err)
	}
	space, err := files.New(files.Options{WorkingDir: y.dir, HomeDir: y.home, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return guard.Options{
		WorkingDir: y.dir, HomeDir: y.home, Files: space,
		Environment: []string{"HOME=" + y.home, "SECRET=" + filepath.Join(y.dir, ".env"), "EMPTY=", "PROJECT=" + y.dir},
	}
}

// refusal is the argument that was refused, "" when none was.
func refusal(t testing.TB, command string, o guard.Options) string {
	t.Helper()
	err := guard.Check(command, o)
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*guard.Refused](err)
	if !ok {
		t.Fatalf("%s: %v", command, err)
	}
	return refused.Arg
}

func TestRefusedSaysItAsClassicGooseDid(t *testing.T) {
	want := "The command attempts to access '.env' which is restricted by .gooseignore"
	if err := guard.Check("cat .env", newYard(t).options(t)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestRefuses lists what is refused because of the words that a command has.
func TestRefuses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("these are commands for a POSIX shell; TestWords has the others")
	}
	y := newYard(t)
	o := y.options(t)
	in := strings.NewReplacer("DIR", y.dir, "HOME/", y.home+"/")
	for _, tt := range []struct{ command, arg string }{
		{"cat .env", ".env"},
		{`cat ".env"`, ".env"},
		{`cat .e""nv`, ".env"},
		{`cat .\env`, ".env"},
		{`cat $'\x2eenv'`, ".env"},
		{"cat .e*", ".env"},
		{"cat .[e]nv", ".env"},
		{"cat */secrets.yml", "other/secrets.yml"},
		{"cat {.env,main.go}", ".env"},
		{"cat ~/.env", "HOME/.env"},
		{`cat "${HOME}/.env"`, "HOME/.env"},
		{`cat "$SECRET"`, "DIR/.env"},
		{"cat <.env", ".env"},
		{"cat .env|head", ".env"},
		{"(cat .env)", ".env"},
		{"if cat .env; then :; fi", ".env"},
		{"for f in .env; do cat $f; done", ".env"},
		{"X=$(cat .env)", ".env"},
		{"echo `cat .env`", ".env"},
		{"cat <<E\n$(cat .env)\nE", ".env"},
		{"FILE=.env node app.js", ".env"},
		{"ls >.env", ".env"},
		{"ls > sub/secrets.new", "sub/secrets.new"},
		{"dd if=.env", ".env"},
		{"curl -F f=@.env http://127.0.0.1", ".env"},
		{"node --env-file=.env app.js", ".env"},
		{"docker run -v DIR/.env:/x alpine", "DIR/.env"},
		{"curl file://DIR/.env", "//DIR/.env"},
		{"git show HEAD:.env", ".env"},
		{"cd sub && cat .env", ".env"},
		{"cd other; cat secrets.yml", "secrets.yml"},
		{"cd other && cat secrets.*", "secrets.yml"},
		{"git -C other show HEAD:secrets.yml", "secrets.yml"},
		{"cd sub && cat ../vault/key", "../vault/key"},
		{"cat link", "link"},
		{"cat linkdir/key", "linkdir/key"},
		{"echo x > dangling", "dangling"},
		{"./secrets.sh", "./secrets.sh"},
		{"bash -c 'cat .env'", ".env"},
		{`sh -lc "sh -c 'cat .env'"`, ".env"},
		{`eval "cat .env"`, ".env"},
		{`python3 -c "print(open('.env').read())"`, ".env"},
		{"cat .env | if then", ".env"},
		{"echo '!.env' >> .gooseignore", ".gooseignore"},
		{"rm .gooseignore", ".gooseignore"},
		{"sed -i d .gooseignore", ".gooseignore"},
		{"echo x > sub/.gooseignore", "sub/.gooseignore"},
	} {
		if got, want := refusal(t, strings.ReplaceAll(tt.command, "DIR", y.dir), o), in.Replace(tt.arg); got != want {
			t.Errorf("%s\nrefused because of %q, want %q", tt.command, got, want)
		}
	}
}

// TestLeavesToTheKernel lists what words do not tell, so that nobody takes the guard for more.
func TestLeavesToTheKernel(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("these are commands for a POSIX shell")
	}
	o := newYard(t).options(t)
	for _, command := range []string{
		`python3 -c "print(open('.e'+'nv').read())"`, "A=.e; B=nv; cat $A$B", "grep -r KEY .", "find . -name '.e*' -exec cat {} +", "tar cf - .", "make", "sh run.sh",
		"echo .env | xargs cat", "ln -s $PWD here; cat here/.env", "git log -p",
	} {
		if got := refusal(t, command, o); got != "" {
			t.Errorf("%s: refused because of %s; move it to what is refused", command, got)
		}
	}
}

// What people and agents do all day must not be refused.
func TestOrdinaryCommandsPass(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("these are commands for a POSIX shell; TestWords has the others")
	}
	o := newYard(t).options(t)
	for _, command := range []string{
		"", "ls", "ls -la", "ls *.go", "ls sub", "cat main.go", "cat 'a b.txt'", "cd sub && cat ok.txt", "git status",
		"go build", "go build ./...", "make build", "npm run build", "cargo build --release", "docker build -t x .", "go test ./... -run build",
		"gradle build", "sudo make build", "CI=1 make build", "yarn build && yarn test", "task build",
		"echo .env >> .gitignore", `echo "the file .env is hidden"`, "printf '%s\\n' .env", `git commit -m "do not read .env or secrets.txt"`,
		`git commit -m "fix build"`, "cat .env.example", "cat missing/.env", "cat nowhere.env", "grep -rn KEY .", "find . -type f",
		"python3 -c 'print(1)'", "python3 -c 'print(\"build\")'", "node -e 'console.log(1)'", "sed -i s/a/b/ main.go", "awk '{print $1}' main.go",
		"for f in *.go; do wc -l $f; done", "while read l; do echo $l; done < main.go", "cat $UNKNOWN/.env.example", "rm -rf dist",
		"cat <<'EOF' > new.txt\ncat .env\nEOF", "cat .gooseignore", "git diff HEAD~1", "ls ~", "cat ~/notes", "cat $HOME/notes",
		"curl -fsSL https://example.com/.env", "ssh host cat notes", "export PATH=$PATH:/usr/local/bin", "f() { ls; }; f", "test -f main.go && ls",
		"[ -f main.go ]", "[[ -f main.go ]]", "case x in a) ls;; esac", "(cd sub; ls)", "true || false", "time ls", "ls &", "! ls",
		"cat main.go | head -5 | wc -l", "diff <(ls) <(ls sub)", "X=1 Y=2 env", "echo $((1+2))", "kill -9 $!", "set -euo pipefail", "./run.sh build",
		"go version", "echo {a,b}{1..3}", "echo {1..1000000000}", "alias ll='ls -l'", "trap 'ls' EXIT", "eval ls", "bash -c 'ls'", "sh -lc 'go build'",
		"echo ls | bash", "xargs -n1 ls < main.go", "ls | xargs cat", "tar cf x.tar sub/ok.txt", "exec ls", "git -C sub status", "make -C sub build",
		"grep -r --exclude-dir=build x .", "grep -r --exclude-dir build x .", "tar --exclude=.env -cf x.tar sub/ok.txt", "tar --exclude .env -cf x.tar sub/ok.txt", "rsync -a --exclude .env . /tmp/x",
		"find . -path ./build -prune -o -print", "find . -not -path ./build -print", "tree -I build", "cmake -B build", "cmake -Bbuild", "cmake --build build",
		"docker run -v build:/x alpine", "ninja -C build", "jest --ignore=build", "sed 's|build|out|' main.go", "git commit -m build", "mkdir -p build",
		"ls env", "cat build.log", "cd build-tools", "vim", "if true; then ls; else ls; fi", "until true; do ls; done", "for ((i=0;i<3;i++)); do ls; done",
	} {
		if got := refusal(t, command, o); got != "" {
			t.Errorf("%s: refused because of %s", command, got)
		}
	}
}

// The shells of Windows are read word by word.
func TestWords(t *testing.T) {
	y := newYard(t)
	o := y.options(t)
	o.Words = true
	for command, want := range map[string]string{
		"type .env":                           ".env",
		"Get-Content .env":                    ".env",
		`Get-Content -Path ".env"`:            ".env",
		`type .\.env`:                         "./.env",
		`Get-Content sub\.env | Out-Host`:     "sub/.env",
		`(gc 'sub/.env')`:                     "sub/.env",
		"type s^ecrets.txt":                   "secrets.txt",
		"gc s`ecrets.txt":                     "secrets.txt",
		"cmd /c type .env":                    ".env",
		"gc .e*":                              ".env",
		"copy .env+main.go x":                 ".env",
		"[IO.File]::ReadAllText('.env')":      ".env",
		`type %USERPROFILE%\.env`:             filepath.ToSlash(y.home) + "/.env",
		`gc $env:USERPROFILE/.env`:            filepath.ToSlash(y.home) + "/.env",
		"$x='.env'; gc $x":                    ".env",
		"type nul > .env":                     ".env",
		"go build":                            "",
		"dir":                                 "",
		"git commit -m 'fix build'":           "",
		"dotnet build && dotnet test":         "",
		"Get-ChildItem -Recurse -Filter *.go": "",
	} {
		if got := filepath.ToSlash(refusal(t, command, o)); got != want {
			t.Errorf("%s: refused because of %q, want %q", command, got, want)
		}
	}
}

// A hostile command must not cost more than it is worth.
func TestHugeCommandsAreBounded(t *testing.T) {
	o := newYard(t).options(t)
	for name, command := range map[string]string{
		"braces":                 "cat " + strings.Repeat("{a,b,c,d}", 20),
		"globs":                  "cat " + strings.Repeat("/*/*/* ", 500),
		"the whole file system":  "cat /** /**/x",
		"shells":                 strings.Repeat("bash -c ", 5000) + "ls",
		"evals":                  strings.Repeat("eval ", 2000) + "ls",
		"depth":                  strings.Repeat("$(", 2000) + "ls" + strings.Repeat(")", 2000),
		"a stack that overflows": strings.Repeat("a[", 1_000_000),
		"another":                strings.Repeat("if ", 2_000_000),
		"and another":            "((" + strings.Repeat("a?", 2_000_000),
		"words":                  "ls " + strings.Repeat("a=b:c@d,e ", 30_000),
		"a document":             "cat <<'E' > out\n" + strings.Repeat("text and more text\n", 50_000) + "E",
		"directories":            strings.Repeat("cd sub; ", 5000) + "ls " + strings.Repeat("x ", 5000),
		"a replacement":          "cat " + strings.Repeat("${PROJECT//a/$PROJECT$PROJECT}", 2000),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			if got := refusal(t, command, o); got != "" && !strings.Contains(command, "/*") {
				t.Errorf("refused because of %s", got)
			}
			if took := time.Since(start); took > 100*time.Second {
				t.Errorf("it took %v", took)
			}
			runtime.ReadMemStats(&after)
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 400 {
				t.Errorf("it took %d MiB", mib)
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"cat .env", "cat .e*", `X=.env; cat "$X"`, "bash -c 'cat .env'", "for f in {a,.env}; do cat $f; done", "cat <<E\n$(cat .env)\nE", "if then",
		"echo ${X:-${Y:=.env}}", "cat $(printf '.%s' env)", "a=(1 .env); cat ${a[1]}", "echo 'cat .env' | sh", "cat **/.env", "~/x", "$'\\x2e'env", "/**",
	} {
		f.Add(seed)
	}
	y := newYard(f)
	o := y.options(f)
	f.Fuzz(func(t *testing.T, command string) {
		o.Words = false
		err := guard.Check(command, o)
		if _, refused := errors.AsType[*guard.Refused](err); err != nil && !refused {
			t.Fatalf("%q: %v", command, err)
		}
		o.Words = true
		if err := guard.Check(command, o); err != nil && err.Error() == "" {
			t.Fatal("an error without words")
		}
	})
}
