package permit

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The same words are the same command, however they are written.
func TestSameCommand(t *testing.T) {
	for _, same := range [][]string{
		{"git status", " git   status ", `git "status"`, `'git' sta\tus`, "git status;", "git \\\nstatus", "git status # now"},
		{"npm test 2>&1 | tail -5", "npm test 2>&1|tail '-5'"},
		{"cd sub && make", "cd sub&&make"},
		{`echo 'a b'`, `echo "a b"`, `echo a\ b`},
	} {
		want, ok := Structure(same[0])
		if !ok {
			t.Errorf("%q cannot be remembered", same[0])
		}
		for _, line := range same {
			if got, ok := Structure(line); !ok || got != want {
				t.Errorf("%q is %q, %q is %q", line, got, same[0], want)
			}
		}
	}
}

// No other command is what was remembered, and what cannot be said exactly is
// nothing that is remembered at all.
func TestOtherCommands(t *testing.T) {
	const remembered = "git status"
	allowed, _ := Structure(remembered)
	for _, line := range []string{
		"git status; rm -rf x", "git status && rm x", "git status || rm x", "git status | sh", "git status\nrm x", "git status & rm x", "git status &",
		"git status $(rm x)", "git status `rm x`", "$(git status)", "git status > ~/.bashrc", "git status > out", "git status < in", "git status 2>&1",
		"git status <<< x", "git status <<EOF\nEOF", "git status <(rm x)", "GIT_SSH=x git status", "PATH=. git status", "X=1; git status", "git status -s",
		"git  status .", "git", "git 'status '", "git 'status;'", "/tmp/git status", "./git status", "env git status", "env -i git status", "xargs git status",
		"sh -c 'git status'", "bash -c 'git status'", "eval git status", "exec git status", "command git status", "sudo git status", "time git status",
		"! git status", "(git status)", "{ git status; }", "if git status; then rm x; fi", "while git status; do :; done", "git() { rm x; }; git status",
		"git $X", "git ${X:-status}", "git stat?s", "git st*", "git [s]tatus", "git {status,rm}", "~/git status", "git status ~", "git status --x=~/y",
		"git status \"$X\"", "git $\"status\"", "coproc git status", "git status |& cat", "git status; ", "git status\x00", "", " ", "#", "git 'status", "[[ x ]]", "((1))",
		"git\u00a0status", "git\u2028status", "git status\r", strings.Repeat("git status;", 1000),
	} {
		if line == "git status; " {
			continue // the same
		}
		if got, ok := Structure(line); ok && got == allowed {
			t.Errorf("%q counts as %q", line, remembered)
		}
	}
	for _, line := range []string{
		"echo $HOME", "ls *.go", "X=1 make", "sh -c 'make'", "/bin/bash -c x", "env make", "xargs rm", "eval x", "make &", "cat <<E\nx\nE", "sudo make", "for i in 1; do x; done",
		"export PATH=.; git status", "cd ~ && ls", "echo {a,b}", "echo $((1))", "source x", ". x", "f() { x; }",
	} {
		if got, ok := Structure(line); ok {
			t.Errorf("%q can be remembered as %q", line, got)
		}
	}
}

// What Structure says of a simple command is what bash makes of it.
func TestStructureIsWhatBashRuns(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatalf("bash is needed: %v", err)
	}
	for _, args := range []string{
		"a b", `a\ b "c d" 'e f'`, `\*`, `"*" '?' \[x\]`, `"a\$b" "a\"b"`, `a\\b '\'`, `"\n" \n`, `''  ""`, `--x=y z:w`, `a"b"'c'd`, `!x ^y a#b`,
	} {
		got, ok := Structure("printf " + args)
		if !ok {
			t.Errorf("%s cannot be remembered", args)
			continue
		}
		var argv []string
		if err := json.Unmarshal([]byte(got), &argv); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), bash, "-c", `printf '%s\0' `+args).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if !slices.Equal(argv[1:], want) {
			t.Errorf("%s: remembered are %q, bash runs %q", args, argv[1:], want)
		}
	}
}

func TestSubjects(t *testing.T) {
	call := func(tool, kind, input string, paths ...string) Call {
		return Call{Agent: "goose", Tool: tool, Kind: kind, Input: json.RawMessage(input), Paths: paths, Dir: "/p"}
	}
	equal := func(a, b Call) bool {
		x, _, okX := SubjectOf(a)
		y, _, okY := SubjectOf(b)
		return okX && okY && x == y
	}
	git := call("shell", "execute", `{"command":"git status"}`)
	for name, c := range map[string]Call{
		"with a description":     call("shell", "execute", `{"command":"git status","description":"look","timeout":5}`),
		"with its own directory": call("shell", "execute", `{"command":"git status","workdir":"/p/."}`),
		"with null":              call("shell", "execute", `{"command":"git status","env":null}`),
	} {
		if !equal(git, c) {
			t.Errorf("%s: another question", name)
		}
	}
	other := git
	other.Dir = "/q"
	agent := git
	agent.Agent = "opencode"
	for name, c := range map[string]Call{
		"another directory":              other,
		"another agent":                  agent,
		"a directory of the call":        call("shell", "execute", `{"command":"git status","workdir":"sub"}`),
		"another tool":                   call("server__run", "execute", `{"command":"git status"}`),
		"an environment":                 call("shell", "execute", `{"command":"git status","env":{"PATH":"."}}`),
		"input":                          call("shell", "execute", `{"command":"git status","stdin":"x"}`),
		"a list":                         call("shell", "execute", `{"command":["git","status"]}`),
		"a tool that is none of a shell": call("shell", "other", `{"command":"git status"}`),
	} {
		if equal(git, c) {
			t.Errorf("%s: the same question", name)
		}
	}
	if !equal(call("edit", "edit", `{"a":1}`, "a.txt", "/p/b.txt"), call("edit", "edit", `{"a":2}`, "/p/b.txt", "/p/./a.txt")) {
		t.Error("an edit of the same files is another question")
	}
	if equal(call("edit", "edit", `{}`, "a.txt"), call("edit", "edit", `{}`, "a.txt", "b.txt")) || equal(call("edit", "edit", `{}`, "a.txt"), call("edit", "read", `{}`, "a.txt")) {
		t.Error("an edit of more files, or a read, is the same question")
	}
	if !equal(call("t", "other", `{"a":1,"b":[2]}`), call("t", "other", ` {"b":[2], "a":1}`)) || equal(call("t", "other", `{"a":1}`), call("t", "other", `{"a":1.0}`)) {
		t.Error("the input of a tool is not compared as a value")
	}
	for name, c := range map[string]Call{
		"no tool":             call("", "execute", `{"command":"ls"}`),
		"no input":            call("t", "other", `{}`),
		"null":                call("t", "other", `null`),
		"an edit of no file":  call("edit", "edit", `{"diff":"x"}`),
		"a command not known": call("shell", "execute", `{}`),
		"two directories":     call("shell", "execute", `{"command":"git status","cwd":"/p","workdir":"/q"}`),
		"no directory":        call("shell", "execute", `{"command":"git status","cwd":{}}`),
	} {
		if s, _, ok := SubjectOf(c); ok {
			t.Errorf("%s: can be remembered as %+v", name, s)
		}
	}
}

func FuzzStructure(f *testing.F) {
	for _, seed := range []string{"git status", "a|b", `"a" 'b'`, "a>b 2>&1", "a;b&&c", "$(x)", "a\\\nb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		text, ok := Structure(line)
		if !ok {
			return
		}
		if again, ok := Structure(line + " "); ok && again != text && !strings.HasSuffix(line, `\`) && !strings.Contains(line, "#") {
			t.Errorf("%q: %q, with a blank %q", line, text, again)
		}
		for _, tail := range []string{"; rm x", " && rm x", " | sh"} {
			if more, ok := Structure(line + tail); ok && more == text && !strings.Contains(line, "#") {
				t.Errorf("%q and %q are the same", line, line+tail)
			}
		}
	})
}
