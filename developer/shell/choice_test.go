package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"bash", "sh", "fish", "nu", "zsh", "own"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ksh"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ own, want string }{
		{"", "bash"},
		{dir + "/zsh", "zsh"},
		{dir + "/fish", "fish"},
		{dir + "/sh", "sh"},
		{dir + "/nu", "bash"},       // does not understand what models write
		{dir + "/ksh", "bash"},      // is no program
		{dir + "/gone/zsh", "bash"}, // is not there
		{"/bin/false", "bash"},
	}
	for _, tt := range tests {
		got, err := choose(nil, []string{"PATH=" + dir, "SHELL=" + tt.own})
		if err != nil || got.Path != filepath.Join(dir, tt.want) || got.Name() != tt.want {
			t.Errorf("SHELL=%s: %+v %v, want %s", tt.own, got, err, tt.want)
		}
	}
	if got, err := choose([]string{"own"}, []string{"PATH=.:" + dir}); err != nil || got.Name() != "own" {
		t.Errorf("named: %+v %v", got, err)
	}
	if _, err := choose([]string{"no-such"}, []string{"PATH=" + dir}); err == nil || !strings.Contains(err.Error(), "no-such") {
		t.Errorf("missing: %v", err)
	}
}

func TestCommandLines(t *testing.T) {
	tests := []struct {
		shell, line, dir string
		args             []string
		startDir         string
	}{
		{"/bin/bash", "echo hi", "/w", []string{"/bin/bash", "-c", "echo hi"}, "/w"},
		{"/usr/bin/fish", "echo hi", "/w", []string{"/usr/bin/fish", "-c", "echo hi"}, "/w"},
		{`C:\pwsh.exe`, "Get-Item .", `C:\w`, []string{`C:\pwsh.exe`, "-NoProfile", "-NonInteractive", "-Command", "Get-Item ."}, `C:\w`},
		{`C:\powershell.exe`, "dir", `\\host\share`, []string{`C:\powershell.exe`, "-NoProfile", "-NonInteractive", "-Command", "dir"}, `\\host\share`},
		{`C:\cmd.exe`, `echo "a b"`, `C:\w`, []string{`C:\cmd.exe`, "/d", "/s", "/c", `"echo "a b""`}, `C:\w`},
		{`C:\cmd.exe`, "echo a\r\necho b\n", `C:\w`, []string{`C:\cmd.exe`, "/d", "/s", "/c", `"echo a & echo b"`}, `C:\w`},
	}
	for _, tt := range tests {
		args, dir := Interpreter{Path: tt.shell, kind: kindOf(tt.shell)}.command(tt.line, tt.dir)
		if !slices.Equal(args, tt.args) || dir != tt.startDir {
			t.Errorf("%s: %q in %s, want %q in %s", tt.shell, args, dir, tt.args, tt.startDir)
		}
	}
	args, dir := Interpreter{Path: `C:\cmd.exe`, kind: "cmd"}.command("dir", `\\host\share`)
	if args[4] != `"pushd "\\host\share" && dir"` || strings.HasPrefix(dir, `\\`) {
		t.Errorf("on a share: %q in %s", args, dir)
	}
}

func TestEnvironment(t *testing.T) {
	r := &Runner{shell: Interpreter{kind: "bash"}, o: Options{
		Env: []string{"EDITOR=vim", "KEEP=1", "PATH=/p", "GIT_PAGER=less"}, BashEnv: "/b",
	}}
	env := r.environment(Command{SessionID: "s1", Env: []string{"KEEP=2"}}, "/login")
	for name, want := range map[string]string{
		"GOOSE_TERMINAL": "1", "AGENT": "goose", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "AGENT_SESSION_ID": "s1",
		"BASH_ENV": "/b", "PATH": "/login", "KEEP": "2",
	} {
		if got := lookup(env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		if n := len(slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return !strings.HasPrefix(kv, name+"=") })); n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	for _, name := range []string{"GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "EDITOR", "VISUAL"} {
		if got := lookup(env, name); !strings.Contains(got, "exit 1") {
			t.Errorf("%s is %q", name, got)
		}
	}
	r.shell.kind = "zsh"
	plain := r.environment(Command{SessionID: "a\x00b"}, "")
	if lookup(plain, "BASH_ENV") != "" || lookup(plain, "AGENT_SESSION_ID") != "" || lookup(plain, "PATH") != "/p" {
		t.Errorf("%q", plain)
	}
}

func TestBetweenMarks(t *testing.T) {
	for text, want := range map[string]string{
		"hello\n\n" + pathMark + "\n/a:/b\n" + pathMark + "\nbye\n":                "/a:/b",
		pathMark + "\r\n/a\r\n" + pathMark + "\r\n":                                "/a",
		pathMark + "\n/old\n" + pathMark + "\n" + pathMark + "\n/new\n" + pathMark: "/new",
		"nothing":                  "",
		pathMark + "\n" + pathMark: "",
	} {
		if got := betweenMarks(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
