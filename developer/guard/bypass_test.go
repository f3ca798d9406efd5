//go:build unix

package guard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The ways around the check of classic goose, and which of them are caught. What
// is left to the kernel layer says why the text of a command cannot tell.
var bypasses = []struct {
	name    string
	command string // DIR and HOME stand for the project and the home
	arg     string // that is refused; empty: the kernel layer only
	why     string // for the kernel layer only
}{
	// 1. Relative names, in another directory than the server's.
	{name: "a name relative to the call's directory", command: "cat .env", arg: ".env"},
	{name: "after cd", command: "cd sub && cat .env", arg: ".env"},
	{name: "after cd ;", command: "cd sub; cat .env", arg: ".env"},
	{name: "after a cd that fails", command: "cd nowhere; cat .env", arg: ".env"},
	{name: "after a cd that may fail", command: "cd sub || cd other; cat secrets.yml; cat .env", arg: ".env"},
	{name: "after cd in a subshell", command: "(cd sub && cat .env)", arg: ".env"},
	{name: "back from another directory", command: "cd /tmp && cd - && cat .env", arg: ".env"},
	{name: "pushd", command: "pushd other; cat secrets.yml", arg: "secrets.yml"},
	{name: "pushd and popd", command: "pushd /tmp; popd; cat secretfile", arg: "secretfile"},
	{name: "cd to a variable", command: "cd $PROJECT/sub && cat .env", arg: ".env"},
	{name: "cd in a condition", command: "if [ -d sub ]; then cd sub; fi; cat .env", arg: ".env"},
	{name: "cd in a condition, to the only place", command: "if [ -d other ]; then cd other; fi; cat secrets.yml", arg: "secrets.yml"},
	{name: "cd in a loop", command: "for d in sub other; do cd $d; cat secrets.yml; cd -; done", arg: "secrets.yml"},
	{name: "a variable in a condition", command: "if true; then X=.env; fi; cat $X", arg: ".env"},
	{name: "cd home", command: "cd && cat .env", arg: ".env"},
	{name: "a program's own cd", command: "git -C sub show HEAD:.env", arg: ".env"},
	{name: "a program's own cd, long", command: "tar --directory=other -cf x.tar secrets.yml", arg: "secrets.yml"},
	{name: "env's own cd", command: "env -C sub cat .env", arg: ".env"},

	// 2. Quotes, escapes, globs, braces, variables, substitutions, here-documents.
	{name: "double quotes", command: `cat ".env"`, arg: ".env"},
	{name: "single quotes", command: "cat '.env'", arg: ".env"},
	{name: "quotes within", command: `cat .e""nv`, arg: ".env"},
	{name: "an escape", command: `cat .\env`, arg: ".env"},
	{name: "C quotes", command: `cat $'\x2eenv'`, arg: ".env"},
	{name: "a line that goes on", command: "cat .e\\\nnv", arg: ".env"},
	{name: "a glob", command: "cat .e*", arg: ".env"},
	{name: "a glob of one character", command: "cat .en?", arg: ".env"},
	{name: "a bracket", command: "cat .[e]nv", arg: ".env"},
	{name: "a glob of directories", command: "cat */secrets.yml", arg: "other/secrets.yml"},
	{name: "a glob after one that is too much", command: "ls /usr/*/*/[a]*; cat .e*", arg: ".env"},
	{name: "a glob that is no plan", command: "cat *", arg: "build"},
	{name: "globs that see dots", command: "shopt -s dotglob; wc -c *", arg: ".env"},
	{name: "an extended glob", command: "cat .@(env)", arg: ".env"},
	{name: "two stars", command: "cat **/secrets.yml", arg: "other/secrets.yml"},
	{name: "braces", command: "cat {.env,main.go}", arg: ".env"},
	{name: "braces within", command: "cat .e{n,x}v", arg: ".env"},
	{name: "a variable", command: "X=.env; cat $X", arg: ".env"},
	{name: "a variable in quotes", command: `X=.env && cat "${X}"`, arg: ".env"},
	{name: "parts of variables", command: "A=.e; B=nv; cat $A$B", arg: ".env"},
	{name: "an inherited variable", command: `cat "$SECRET"`, arg: "DIR/.env"},
	{name: "a variable of the command", command: "FILE=.env node app.js", arg: ".env"},
	{name: "an exported variable", command: "export X=.env; cat $X", arg: ".env"},
	{name: "a default", command: "cat ${EMPTY:-.env}", arg: ".env"},
	{name: "an empty variable", command: "cat .e${EMPTY}nv", arg: ".env"},
	{name: "a part of a variable", command: "X=x.envx; cat ${X:1:4}", arg: ".env"},
	{name: "a replacement", command: "X=.anv; cat ${X/a/e}", arg: ".env"},
	{name: "an indirection", command: "X=Y; Y=.env; cat ${!X}", arg: ".env"},
	{name: "an array", command: "a=(x .env); cat ${a[1]}", arg: ".env"},
	{name: "a loop", command: "for f in x .env; do cat $f; done", arg: ".env"},
	{name: "a loop over a glob", command: "for f in .e*; do cat $f; done", arg: ".env"},
	{name: "a function", command: "f() { cat .env; }; f", arg: ".env"},
	{name: "an argument of a function", command: "f() { cat $1; }; f .env", arg: ".env"},
	{name: "echo in a substitution", command: "cat $(echo .env)", arg: ".env"},
	{name: "printf in backquotes", command: "cat `printf '.%s' env`", arg: ".env"},
	{name: "pwd in a substitution", command: "cat $(pwd)/.env", arg: "DIR/.env"},
	{name: "inside a substitution", command: "echo $(cat .env)", arg: ".env"},
	{name: "inside arithmetic", command: "echo $(( $(wc -c < .env) ))", arg: ".env"},
	{name: "inside an assignment", command: "X=$(cat .env)", arg: ".env"},
	{name: "a substitution of a file", command: "echo $(<.env)", arg: ".env"},
	{name: "a substitution before a name", command: "cat $(git rev-parse --show-toplevel)/.env", arg: ".env"},
	{name: "an unknown end", command: "read X; cat .en$X", why: "only the running shell knows X, and there are other files that begin so: this one is"},
	{name: "an unknown end that leaves no choice", command: "read X; cat .env.l$X", arg: ".env.local"},
	{name: "an unknown name", command: "read X; cat $X", why: "only the running shell knows X"},
	{name: "a name from a program", command: "cat $(ls -a | grep env)", why: "only the running programs know what they print"},
	{name: "a here-document for a shell", command: "bash <<E\ncat .env\nE", arg: ".env"},
	{name: "a substitution in a here-document", command: "cat <<E\n$(cat .env)\nE", arg: ".env"},
	{name: "a here-string for a shell", command: "sh <<< 'cat .env'", arg: ".env"},

	{name: "a here-string that is a name", command: "read f <<< .env; cat $f", arg: ".env"},
	{name: "a translated string", command: `cat $".env"`, arg: ".env"},
	{name: "the shell's name for where it is", command: "cat ~+/.env", arg: "~+/.env"},
	{name: "the shell's name for where it was", command: "cd /tmp; cat ~-/.env", arg: "~-/.env"},
	{name: "a part of an inherited variable", command: "cat ${SECRET##*/}", arg: ".env"},

	// 3. Attached signs.
	{name: "input", command: "cat <.env", arg: ".env"},
	{name: "input with a number", command: "cat 0<.env", arg: ".env"},
	{name: "input and output", command: "cat <>.env", arg: ".env"},
	{name: "output", command: "ls >.env", arg: ".env"},
	{name: "output to what is not there", command: "ls > sub/secrets.new", arg: "sub/secrets.new"},
	{name: "both outputs", command: "ls &> .env", arg: ".env"},
	{name: "output in spite of noclobber", command: "ls >| .env", arg: ".env"},
	{name: "a semicolon", command: "cat .env;", arg: ".env"},
	{name: "parentheses", command: "(cat .env)", arg: ".env"},
	{name: "braces around", command: "{ cat .env; }", arg: ".env"},
	{name: "an ampersand", command: "cat .env&", arg: ".env"},
	{name: "a pipe", command: "cat .env|head", arg: ".env"},
	{name: "dd", command: "dd if=.env", arg: ".env"},
	{name: "curl", command: "curl -d @.env http://127.0.0.1", arg: ".env"},
	{name: "curl's form", command: "curl -F f=@.env http://127.0.0.1", arg: ".env"},
	{name: "a long flag", command: "node --env-file=.env app.js", arg: ".env"},
	{name: "a short flag", command: "grep -f.env main.go", arg: ".env"},
	{name: "flags together", command: "tar -xvf.env", arg: ".env"},
	{name: "a flag with its value", command: "grep -f .env main.go", arg: ".env"},
	{name: "a mount", command: "docker run -v DIR/.env:/x alpine", arg: "DIR/.env"},
	{name: "a URL", command: "curl file://DIR/.env", arg: "//DIR/.env"},
	{name: "a list", command: "stat main.go,.env", arg: ".env"},

	// 4. Token 0.
	{name: "the program itself", command: "./secrets.sh", arg: "./secrets.sh"},
	{name: "the program by its path", command: "DIR/secrets.sh", arg: "DIR/secrets.sh"},
	{name: "source", command: "source .env", arg: ".env"},
	{name: "a dot", command: ". ./.env", arg: "./.env"},
	{name: "the program in PATH", command: "PATH=.:$PATH secrets.sh", why: "what PATH leads to is found when it runs; \"command not found\" is the usual end"},

	// 5. The home.
	{name: "a tilde", command: "cat ~/.env", arg: "HOME/.env"},
	{name: "HOME", command: "cat $HOME/.env", arg: "HOME/.env"},
	{name: "HOME in braces and quotes", command: `cat "${HOME}/.env"`, arg: "HOME/.env"},
	{name: "a tilde that the program expands", command: "git config --file=~/.env -l", arg: "~/.env"},

	// 6. Links.
	{name: "a symbolic link", command: "cat link", arg: "link"},
	{name: "through a linked directory", command: "cat linkdir/key", arg: "linkdir/key"},
	{name: "a link to what is not there yet", command: "echo x > dangling", arg: "dangling"},
	{name: "through a link that the command makes", command: "ln -s $PWD here; cat here/.env", why: "it does not exist when the command is read"},
	{name: "a copy that the command makes", command: "cp -r . /tmp/copy; cat /tmp/copy/notes", why: "the program walks the tree itself"},
	{name: "flags that only look like leaving out", command: "grep -I .env main.go", arg: ".env"},
	{name: "a list of names that leave something out", command: "tar --exclude-from=.env -cf x.tar sub/ok.txt", arg: ".env"},
	{name: "making a link", command: "ln -s .env x", arg: ".env"},
	{name: "a hard link made before", command: "cat hard", arg: "hard"},

	// 7. Detours.
	{name: "two dots", command: "cat sub/../.env", arg: "sub/../.env"},
	{name: "two dots through a link", command: "cat sub/up/.env", arg: "sub/up/.env"},
	{name: "slashes", command: "cat .//.///.env", arg: ".//.///.env"},
	{name: "the absolute path", command: "cat DIR/.env", arg: "DIR/.env"},

	// 8. Programs that open files themselves.
	{name: "a shell in a shell", command: `bash -c 'cat .env'`, arg: ".env"},
	{name: "a login shell", command: `zsh -lc "cat .env"`, arg: ".env"},
	{name: "a shell with options", command: `bash -o pipefail -c "cat .env"`, arg: ".env"},
	{name: "three shells", command: `sh -c "sh -c 'sh -c \"cat .env\"'"`, arg: ".env"},
	{name: "eval", command: `eval "cat .e" nv; eval cat .env`, arg: ".env"},
	{name: "env", command: "env A=b sh -c 'cat .env'", arg: ".env"},
	{name: "env with a string", command: "env -S 'cat .env'", arg: ".env"},
	{name: "env with an attached string", command: "env '-Scat .env'", arg: ".env"},
	{name: "command", command: "command cat .env", arg: ".env"},
	{name: "exec", command: "exec 3<.env", arg: ".env"},
	{name: "an escaped program", command: `\cat .env`, arg: ".env"},
	{name: "sudo", command: "sudo -u me bash -c 'cat .env'", arg: ".env"},
	{name: "timeout", command: "timeout 5 cat .env", arg: ".env"},
	{name: "xargs", command: "echo .env | xargs cat", arg: ".env"},
	{name: "xargs with a shell", command: "ls | xargs -I{} sh -c 'cat .env'", arg: ".env"},
	{name: "into a shell", command: "echo 'cat .env' | sh", arg: ".env"},
	{name: "find -exec", command: "find . -name .env -exec cat {} +", arg: ".env"},
	{name: "find -exec with a shell", command: "find . -maxdepth 1 -exec sh -c 'cat .env' \\;", arg: ".env"},
	{name: "find with a pattern", command: "find . -name '.e*' -exec cat {} +", why: "find looks for the names itself"},
	{name: "a search through a tree", command: "grep -r KEY .", why: "the program walks the tree itself"},
	{name: "an archive of a tree", command: "tar cf - .", why: "the program walks the tree itself"},
	{name: "git's history", command: "git show HEAD:.env", arg: ".env"},
	{name: "git's diff", command: "git log -p", why: "what was committed is in git's objects; the session warns of tracked files that are hidden"},
	{name: "python", command: `python3 -c "print(open('.env').read())"`, arg: ".env"},
	{name: "node", command: `node -e 'require("fs").readFileSync(".env")'`, arg: ".env"},
	{name: "perl on its input", command: "perl <<E\nopen F, '.env';\nE", arg: ".env"},
	{name: "sed's own reading", command: "sed -n 'r .env' main.go", arg: ".env"},
	{name: "code that computes the name", command: `python3 -c "print(open('.e'+'nv').read())"`, why: "the name exists only while the program runs"},
	{name: "a script", command: "sh run.sh", why: "what a script does is in the script, and may change until it runs"},
	{name: "a build", command: "make", why: "what a build does is in its files"},
	{name: "an alias", command: "alias c='cat .env'", arg: ".env"},
	{name: "a trap", command: "trap 'cat .env' EXIT", arg: ".env"},
	{name: "a coprocess", command: "coproc cat .env", arg: ".env"},
	{name: "a process substitution", command: "diff <(cat .env) main.go", arg: ".env"},
	{name: "a case", command: "case x in *) cat .env;; esac", arg: ".env"},
	{name: "a test", command: "[[ -s .env ]] && ls", arg: ".env"},
	{name: "time", command: "time cat .env", arg: ".env"},
	{name: "not", command: "! cat .env", arg: ".env"},
	{name: "while", command: "while read l; do echo $l; done < .env", arg: ".env"},
	{name: "a line that does not parse", command: "cat .env | if then", arg: ".env"},
	{name: "quotes in a line that does not parse", command: `cat .e""nv | if then`, arg: ".env"},

	// 9. Other places where secrets are.
	{name: "a process's environment", command: "cat /proc/self/environ", why: "no ignore rule names it; the sandbox starts without secrets in its environment"},
	{name: "the environment", command: "printenv", why: "no file is opened; the sandbox starts without secrets in its environment"},

	// 12. Case: TestCaseIsFolded.
	// 15. Files that appear after the check.
	{name: "a file that appears after the check", command: "cat later/.env", why: "it does not exist when the command is read"},

	// 16. The rules themselves.
	{name: "writing the rules", command: "echo > .gooseignore", arg: ".gooseignore"},
	{name: "adding to the rules", command: "echo '!.env' >> .gooseignore", arg: ".gooseignore"},
	{name: "removing the rules", command: "rm .gooseignore", arg: ".gooseignore"},
	{name: "renaming the rules", command: "mv .gooseignore x", arg: ".gooseignore"},
	{name: "replacing the rules", command: "cp main.go .gooseignore", arg: ".gooseignore"},
	{name: "editing the rules", command: "sed -i d .gooseignore", arg: ".gooseignore"},
	{name: "rules of a directory", command: "echo '!.env' > sub/.gooseignore", arg: "sub/.gooseignore"},
	{name: "rules by tee", command: "echo '!.env' | tee -a ./.gooseignore", arg: "./.gooseignore"},
	{name: "rules by a program", command: "python3 -c 'import os; os.remove(\".goose\"+\"ignore\")'", why: "the name exists only while the program runs"},
}

// 10 (names in diffs), 13 (listings) and 14 (imports in hints) of the list are no
// commands: the file tools have their own tests. 17, other extensions, is what the
// sandbox is for.
func TestBypasses(t *testing.T) {
	y := newYard(t)
	if err := os.Link(filepath.Join(y.dir, ".env"), filepath.Join(y.dir, "hard")); err != nil {
		t.Fatal(err)
	}
	o := y.options(t)
	in := strings.NewReplacer("DIR", y.dir, "HOME/", y.home+"/")
	for _, tt := range bypasses {
		t.Run(tt.name, func(t *testing.T) {
			if (tt.arg == "") == (tt.why == "") {
				t.Fatal("either it is refused, or there is a reason")
			}
			command := strings.ReplaceAll(tt.command, "DIR", y.dir)
			if got, want := refusal(t, command, o), in.Replace(tt.arg); got != want {
				t.Errorf("%s\nrefused because of %q, want %q", command, got, want)
			}
		})
	}
}
