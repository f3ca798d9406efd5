package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reader finds a program that reads what a client reads.
func reader(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("GANDER_CHECK") == "1" {
		t.Fatalf("%s is missing (make deps)", names[0])
	}
	t.Skipf("%s is missing", names[0])
	return ""
}

// python is Debian's own, which has Debian's modules, where there is one.
func python(t *testing.T, module string) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import "+module).Run() == nil {
			return name
		}
	}
	if os.Getenv("GANDER_CHECK") == "1" {
		t.Fatalf("python3 with %s is missing (make deps)", module)
	}
	t.Skipf("python3 with %s is missing", module)
	return ""
}

func output(t *testing.T, stdin string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\nreading\n%s", program, err, errs.String(), stdin)
	}
	return string(out)
}

// awkward is an entry that an unquoted string would break.
func awkward(t *Target) Entry {
	return Entry{
		Name: `my "agent"`, Command: `/home/jo o'n \ "x" ${y} $(z)/gander`,
		Args: []string{"acp", "--agent", "ünï", "a: b", "{}", "#no", "--", "tab\there", "'"},
	}
}

// Every document that is JSON is read by a reader of JSON with comments that is
// not ours, in a file with comments in all places.
func TestJSONIsReadByAnother(t *testing.T) {
	program := python(t, "json5")
	for _, target := range Targets() {
		f, ok := target.format.(jsonFormat)
		if !ok {
			continue
		}
		e := awkward(target)
		text, err := target.Put([]byte("// a\n{ // b\n  \"x\": [1, 2,], // c\n  /* d */ \"y\": {},\n}\n"), e)
		if err != nil {
			t.Fatal(err)
		}
		out := output(t, string(text), program, "-c", "import json5, json, sys; json.dump(json5.loads(sys.stdin.read()), sys.stdout)")
		var got any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		entry, _ := at(got, f.path(target.complete(e))).(map[string]any)
		checkStart(t, target.Name, entry["command"], entry["args"], e)
	}
}

func checkStart(t *testing.T, name string, command, args any, e Entry) {
	t.Helper()
	var got []string
	switch c := command.(type) {
	case string:
		got = append(got, c)
	case []any:
		got = append(got, words(c)...)
	}
	list, _ := args.([]any)
	got = append(got, words(list)...)
	if want := append([]string{e.Command}, e.Args...); !slices.Equal(got, want) {
		t.Errorf("%s starts %q, want %q", name, got, want)
	}
}

func words(list []any) (out []string) {
	for _, w := range list {
		s, _ := w.(string)
		out = append(out, s)
	}
	return out
}

func TestYAMLIsReadByAnother(t *testing.T) {
	program := python(t, "yaml")
	e := awkward(Find("goose"))
	text, err := Find("goose").Put([]byte("# a\nA: |\n  b\n\n\nextensions:\n  developer:\n    enabled: true\n"), e)
	if err != nil {
		t.Fatal(err)
	}
	out := output(t, string(text), program, "-c", "import yaml, json, sys; json.dump(yaml.safe_load(sys.stdin.read()), sys.stdout)")
	var got any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	entry, _ := at(got, []string{"extensions", e.Name}).(map[string]any)
	checkStart(t, "goose", entry["cmd"], entry["args"], e)
	if at(got, []string{"extensions", "developer", "enabled"}) != false {
		t.Error("goose's own developer is still on")
	}
}

// The modules are run by Lua, with the plugin's function that they call stood in for.
func TestLuaRunsTheModules(t *testing.T) {
	program := reader(t, "lua5.4", "lua")
	e := awkward(Find("neovim"))
	for plugin, script := range map[string]string{
		"codecompanion": `package.preload["codecompanion.adapters"] = function() return {extend = function(base, o) return o end} end
			local m = dofile(arg[1]); local name = m.interactions.chat.adapter
			local a = m.adapters.acp[name](); assert(a.name == name)
			for _, w in ipairs(a.commands.default) do print(w) end`,
		"avante": `local m = dofile(arg[1]); local a = m.acp_providers[m.provider]
			print(a.command); for _, w in ipairs(a.args) do print(w) end`,
	} {
		dir := t.TempDir()
		e.Plugin = plugin
		mustWrite(t, filepath.Join(dir, "module.lua"), string(Find("neovim").Document(e)))
		mustWrite(t, filepath.Join(dir, "script.lua"), script)
		out := output(t, "", program, filepath.Join(dir, "script.lua"), filepath.Join(dir, "module.lua"))
		if want := strings.Join(append([]string{e.Command}, e.Args...), "\n") + "\n"; out != want {
			t.Errorf("%s starts %q, want %q", plugin, out, want)
		}
	}
}

// An init file with the lines that gander config prints starts with the module, and without it.
func TestLuaStartsWithoutTheModule(t *testing.T) {
	program := reader(t, "lua5.4", "lua")
	e := Entry{Command: "/bin/gander", Args: []string{"acp"}, Plugin: "codecompanion"}
	_, lines, _ := strings.Cut(Find("neovim").Next("", e), "\n")
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "init.lua"), `package.path = "`+dir+`/?.lua"
		vim = {tbl_deep_extend = function(_, a, b) for k, v in pairs(b) do a[k] = v end return a end}
		package.preload["codecompanion"] = function() return {setup = function(o) print(o.adapters ~= nil) end} end
		`+lines)
	if out := output(t, "", program, filepath.Join(dir, "init.lua")); out != "false\n" {
		t.Errorf("without the module it says %q", out)
	}
	mustWrite(t, filepath.Join(dir, "gander_codecompanion.lua"), string(Find("neovim").Document(e)))
	if out := output(t, "", program, filepath.Join(dir, "init.lua")); out != "true\n" {
		t.Errorf("with the module it says %q", out)
	}
}

// The file is loaded by Emacs, with the functions of agent-shell stood in for.
func TestEmacsLoadsTheFile(t *testing.T) {
	if _, err := exec.LookPath("emacs"); err != nil && os.Getenv("GANDER_EVERYWHERE") != "1" {
		t.Skip("emacs is missing; make soak installs it")
	}
	program := reader(t, "emacs")
	e := awkward(Find("emacs"))
	file := filepath.Join(t.TempDir(), "gander-agent-shell.el")
	mustWrite(t, file, string(Find("emacs").Document(e)))
	out := output(t, "", program, "--batch", "--eval", `(progn
  (defvar agent-shell-agent-configs nil)
  (defun agent-shell-make-agent-config (&rest c) c)
  (defun acp-make-client (&rest c) c)
  (load "`+file+`" nil t)
  (provide 'agent-shell)
  (let* ((config (car agent-shell-agent-configs))
         (client (funcall (plist-get config :client-maker) 'buffer)))
    (unless (string-match-p (plist-get config :shell-prompt-regexp) (plist-get config :shell-prompt)) (error "prompt"))
    (princ (mapconcat #'identity (cons (plist-get client :command) (plist-get client :command-params)) "\n"))))`)
	if want := strings.Join(append([]string{e.Command}, e.Args...), "\n"); out != want {
		t.Errorf("Emacs starts %q, want %q", out, want)
	}
}
