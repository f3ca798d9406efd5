package clients

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func entryOf(t *Target) Entry {
	args := []string{"acp"}
	if t.MCP {
		args = []string{"mcp", "developer"}
	}
	return Entry{Command: "/opt/gander", Args: args}
}

// Texts that people have, with what the entry makes of them. The entry taken out
// again leaves the first text where exact is true.
func TestPutAndTake(t *testing.T) {
	tests := []struct {
		name, target, before, after string
		exact                       bool
	}{
		{"nothing", "acpx", "", "{\n  \"agents\": {\n    \"gander\": {\n      \"command\": \"/opt/gander\",\n      \"args\": [\"acp\"]\n    }\n  }\n}\n", false},
		{"an empty object", "acpx", "{}\n", "{\n  \"agents\": {\n    \"gander\": {\n      \"command\": \"/opt/gander\",\n      \"args\": [\"acp\"]\n    }\n  }\n}\n", false},
		{
			"comments, tabs and a comma at the end", "acpx",
			"// mine\n{\n\t\"theme\": \"dark\", // good for the eyes\n\t/* servers */\n\t\"agents\": {\n\t\t\"other\": {\"command\": \"x\"}, // keep\n\t},\n}\n// end\n",
			"// mine\n{\n\t\"theme\": \"dark\", // good for the eyes\n\t/* servers */\n\t\"agents\": {\n\t\t\"other\": {\"command\": \"x\"}, // keep\n\t\t\"gander\": {\n\t\t\t\"command\": \"/opt/gander\",\n\t\t\t\"args\": [\"acp\"]\n\t\t},\n\t},\n}\n// end\n",
			true,
		},
		{
			"a comment behind the last member", "acpx",
			"{\n  \"a\": 1 // one\n}",
			"{\n  \"a\": 1, // one\n  \"agents\": {\n    \"gander\": {\n      \"command\": \"/opt/gander\",\n      \"args\": [\"acp\"]\n    }\n  }\n}",
			true,
		},
		{
			"Windows line ends and a mark", "acpx",
			"\xef\xbb\xbf{\r\n    \"a\": 1\r\n}\r\n",
			"\xef\xbb\xbf{\r\n    \"a\": 1,\r\n    \"agents\": {\r\n        \"gander\": {\r\n            \"command\": \"/opt/gander\",\r\n            \"args\": [\"acp\"]\r\n        }\r\n    }\r\n}\r\n",
			true,
		},
		{"comments only", "acpx", "// mine\n", "// mine\n{\n  \"agents\": {\n    \"gander\": {\n      \"command\": \"/opt/gander\",\n      \"args\": [\"acp\"]\n    }\n  }\n}\n", false},
		{"a comment without a line break", "acpx", "/* mine */", "/* mine */\n{\n  \"agents\": {\n    \"gander\": {\n      \"command\": \"/opt/gander\",\n      \"args\": [\"acp\"]\n    }\n  }\n}\n", false},
		{"one line", "acpx", `{"a": 1}`, `{"a": 1, "agents": {"gander":{"command":"/opt/gander","args":["acp"]}}}`, true},
		{
			"an older entry of gander's, with what the person added", "zed",
			"{\n  \"agent_servers\": {\n    \"Gander\": {\n      // my key\n      \"env\": {\"LLM_HOST\": \"http://x\"},\n      \"command\": \"/old/gander\",\n      \"default_mode\": \"code\"\n    }\n  }\n}\n",
			"{\n  \"agent_servers\": {\n    \"Gander\": {\n      // my key\n      \"env\": {\"LLM_HOST\": \"http://x\"},\n      \"command\": \"/opt/gander\",\n      \"default_mode\": \"code\",\n      \"type\": \"custom\",\n      \"args\": [\"acp\"]\n    }\n  }\n}\n",
			false,
		},
		{
			"no configuration of goose", "goose", "",
			"extensions:\n" + gooseText("  ") + developerText("  "), false,
		},
		{
			"a goose without extensions", "goose",
			"# mine\nGOOSE_PROVIDER: openai  # cheap\nGOOSE_MODEL: \"x\"\n",
			"# mine\nGOOSE_PROVIDER: openai  # cheap\nGOOSE_MODEL: \"x\"\nextensions:\n" + gooseText("  ") + developerText("  "), true,
		},
		{
			"goose's own developer is on", "goose",
			"extensions:  # all of them\n    # the first\n    memory:\n        enabled: false\n        type: builtin\n    developer:\n        enabled: true  # needed\n        type: platform\n        name: developer\n\nGOOSE_MODEL: x\n",
			"extensions:  # all of them\n" + gooseText("    ") + "    # the first\n    memory:\n        enabled: false\n        type: builtin\n    developer:\n        enabled: false  # needed\n        type: platform\n        name: developer\n\nGOOSE_MODEL: x\n",
			true,
		},
		{
			"goose's own developer on one line", "goose",
			"extensions:\n  developer: {enabled: true, type: builtin, name: developer}\n",
			"extensions:\n" + gooseText("  ") + "  developer: {enabled: false, type: builtin, name: developer}\n", true,
		},
		{
			"an older entry of gander's in goose, with what the person set", "goose",
			"extensions:\n  gander:\n    enabled: false\n    type: stdio\n    cmd: /old/gander\n    args: [mcp, developer, --root, /w]\n    envs:\n      A: \"1\"\n    env_keys: [B]\n    timeout: 60\n    available_tools: [shell]\n" + developerText("  "),
			"extensions:\n" + strings.NewReplacer(": true\n", ": false\n", "{}", `{"A":"1"}`, "[]", `["B"]`, "3600", "60", "bundled: null\n", "bundled: null\n    available_tools: [\"shell\"]\n").Replace(gooseText("  ")) + developerText("  "),
			false,
		},
		{"no extensions at all", "goose", "a: 1\nextensions: {}\nb: |\n  text\n", "a: 1\nextensions:\n" + gooseText("  ") + developerText("  ") + "b: |\n  text\n", false},
		{"without a line break at the end", "goose", "a: 1", "a: 1\nextensions:\n" + gooseText("  ") + developerText("  "), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := Find(tt.target)
			e := entryOf(target)
			after, err := target.Put([]byte(tt.before), e)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.after, string(after)); diff != "" {
				t.Fatalf("put (-want +got):\n%s", diff)
			}
			if again, err := target.Put(after, e); err != nil || string(again) != string(after) {
				t.Errorf("a second time: %v\n%s", err, cmp.Diff(string(after), string(again)))
			}
			out, err := target.Take(after, nil, e)
			if err != nil {
				t.Fatal(err)
			}
			if tt.exact && string(out) != tt.before {
				t.Errorf("take (-want +got):\n%s", cmp.Diff(tt.before, string(out)))
			}
			if bytes.Contains(out, []byte("/opt/gander")) {
				t.Errorf("the entry is still there:\n%s", out)
			}
			if once, err := target.Take(out, nil, e); err != nil || string(once) != string(out) {
				t.Errorf("take again: %v, %q", err, once)
			}
		})
	}
}

func indented(indent string, lines []string) string {
	return indent + strings.Join(lines, "\n"+indent) + "\n"
}

func gooseText(indent string) string {
	return indented(indent, []string{
		"gander:", "  enabled: true", "  type: stdio", "  name: developer  # the tools' names begin with it", "  description: gander's developer tools",
		`  cmd: "/opt/gander"`, `  args: ["mcp", "developer"]`, "  envs: {}", "  env_keys: []", "  timeout: 3600  # seconds, for one tool call", "  bundled: null",
	})
}

func developerText(indent string) string { return indented(indent, developerLines()) }

// What is not understood is left alone, with the reason.
func TestPutRefuses(t *testing.T) {
	tests := []struct{ name, target, text, want string }{
		{"not JSON", "zed", `{"a": }`, "not JSON"},
		{"an array", "zed", `[]`, "no object"},
		{"two documents of JSON", "zed", `{} {}`, "not JSON"},
		{"servers that are none", "zed", `{"agent_servers": ["x"]}`, "agent_servers is not an object"},
		{"an entry that is none", "zed", `{"agent_servers": {"Gander": 7}}`, "agent_servers.Gander is not an object"},
		{"a key that is there twice", "zed", `{"agent_servers": {}, "agent_servers": {}}`, `"agent_servers" is there twice`},
		{"not YAML", "goose", "a: [", "not YAML"},
		{"two documents of YAML", "goose", "a: 1\n---\nb: 2\n", "more than one document"},
		{"a list", "goose", "- a\n", "not the keys"},
		{"extensions on one line", "goose", "extensions: {a: {enabled: true}}\n", "put the entry in by hand"},
		{"a key of YAML that is there twice", "goose", "extensions:\n  a: 1\n  a: 2\n", "cannot be understood"},
		{"a developer that is none", "goose", "extensions:\n  developer: yes please\n", "not as goose writes it"},
		{"somebody else's extension", "goose", "extensions:\n  gander:\n    cmd: /usr/local/bin/gander-wrapper\n", "choose another --name"},
		{"an extension that is nothing", "goose", "extensions:\n  gander:\n", "choose another --name"},
		{"an alias of what the edit changes", "goose", "extensions:\n  developer: &d\n    enabled: true\nz: *d\n", "anchors and aliases"},
		{"somebody else's remote server", "opencode", `{"mcp": {"developer": {"type": "remote", "url": "https://x", "headers": {"A": "b"}}}}`, "choose another --name"},
		{"somebody else's local server", "opencode", `{"mcp": {"developer": {"type": "local", "command": ["npx", "x"], "environment": {"A": "b"}}}}`, "choose another --name"},
		{"somebody else's agent in Zed", "zed", `{"agent_servers": {"Gander": {"command": "npx"}}}`, "choose another --name"},
		{"somebody else's agent in an IDE", "jetbrains", `{"agent_servers": {"Gander": {"command": "npx"}}}`, "choose another --name"},
		{"somebody else's agent in VS Code", "vscode", `{"acp.agents": {"Gander": {"command": "npx"}}}`, "choose another --name"},
		{"somebody else's agent in acpx", "acpx", `{"agents": {"gander": {"command": "npx"}}}`, "choose another --name"},
		{"a comment that does not end", "zed", "/* x", "not JSON"},
		{"somebody else's file", "neovim", "require('x')\n", "not a file that gander config wrote"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := Find(tt.target)
			_, err := target.Put([]byte(tt.text), entryOf(target))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestTakeLeavesWhatIsNotOurs(t *testing.T) {
	for target, text := range map[string]string{
		"zed":   `{"agent_servers": {"Gander": {"command": "/opt/other"}}}`,
		"goose": "extensions:\n  gander:\n    cmd: other\n",
		"emacs": ";; mine\n",
	} {
		_, err := Find(target).Take([]byte(text), nil, entryOf(Find(target)))
		if err == nil {
			t.Errorf("%s: an entry of somebody else was taken out", target)
		}
	}
}

// What the person changed in gander's entry stays as long as the entry need not change;
// when it changes, what was there is kept, and no backup is written over.
func TestPutKeepsEdits(t *testing.T) {
	for target, edit := range map[string][2]string{
		"zed":   {`"acp"`, `"acp", "--agent", "opencode"`},
		"goose": {`"developer"]`, `"developer", "--root", "/w"]  # mine`},
		"emacs": {"(provide", ";; mine\n(provide"},
	} {
		t.Run(target, func(t *testing.T) {
			tt, file := Find(target), filepath.Join(t.TempDir(), "file")
			put := func() Change {
				t.Helper()
				c, err := Put(tt, file, entryOf(tt))
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			if target != "emacs" { // whose file is gander's alone
				mustWrite(t, file, "")
			}
			put()
			written := mustRead(t, file)
			backups := map[string]string{}
			for _, more := range []string{"", " "} {
				edited := strings.Replace(written, edit[0], edit[1]+more, 1)
				mustWrite(t, file, edited)
				c := put()
				if _, ok := backups[c.Backup]; ok || c.Backup == file+backupSuffix || !c.Changed {
					t.Errorf("the backup is %s", c.Backup)
				}
				backups[c.Backup] = edited
				if got := mustRead(t, file); got != written {
					t.Errorf("the entry is not as it should be:\n%s", cmp.Diff(written, got))
				}
			}
			for name, want := range backups {
				if got := mustRead(t, name); got != want {
					t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want, got))
				}
			}
			if c := put(); c.Changed || c.Backup != "" {
				t.Errorf("a put that changes nothing: %+v", c)
			}
		})
	}
}

// What the person changed after the entry came stays when the entry goes.
func TestTakeKeepsLaterChanges(t *testing.T) {
	for target, text := range map[string]string{
		"zed":   "{\n  \"theme\": \"a\"\n}\n",
		"goose": "extensions:\n  developer:\n    enabled: true\nmode: a\n",
	} {
		tt := Find(target)
		file := filepath.Join(t.TempDir(), "file")
		mustWrite(t, file, text)
		if _, err := Put(tt, file, entryOf(tt)); err != nil {
			t.Fatal(err)
		}
		changed := strings.NewReplacer(`"a"`, `"b"`, "mode: a", "mode: b")
		mustWrite(t, file, changed.Replace(mustRead(t, file)))
		if _, err := Put(tt, file, Entry{Command: "/new/gander", Args: []string{"acp"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := Take(tt, file, entryOf(tt)); err != nil {
			t.Fatal(err)
		}
		if got, want := mustRead(t, file), changed.Replace(text); got != want {
			t.Errorf("%s (-want +got):\n%s", target, cmp.Diff(want, got))
		}
	}
}

func TestEveryTargetInAFile(t *testing.T) {
	for _, target := range Targets() {
		t.Run(target.Name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "below", "file")
			e := entryOf(target)
			c, err := Put(target, file, e)
			if err != nil || !c.Changed || c.Backup != "" {
				t.Fatalf("put: %+v, %v", c, err)
			}
			if got := mustRead(t, file); got != string(target.Document(e)) {
				t.Errorf("what is written is not what is printed:\n%s", got)
			}
			if c, err := Put(target, file, e); err != nil || c.Changed {
				t.Errorf("put again: %+v, %v", c, err)
			}
			if c, err := Take(target, file, e); err != nil || !c.Changed || !c.Removed || isThere(file) {
				t.Errorf("take: %+v, %v", c, err)
			}
			if c, err := Take(target, file, e); err != nil || c.Changed {
				t.Errorf("take again: %+v, %v", c, err)
			}
		})
	}
}

// The file is as it was before to the byte, however oddly it was written.
func TestTakeRestores(t *testing.T) {
	tests := map[string]string{
		"zed":      "{ \"a\":1 ,\n\n \"agent_servers\" : { } , }",
		"goose":    "a:   1\n\nextensions:  {}  \n\n# end",
		"opencode": "{\n}\n",
	}
	for name, text := range tests {
		target, file := Find(name), filepath.Join(t.TempDir(), "file")
		mustWrite(t, file, text)
		if err := os.Chmod(file, 0o640); err != nil {
			t.Fatal(err)
		}
		c, err := Put(target, file, entryOf(target))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := mustRead(t, c.Backup); got != text {
			t.Errorf("%s: the backup is %q", name, got)
		}
		if _, err := Take(target, file, entryOf(target)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := mustRead(t, file); got != text {
			t.Errorf("%s: after all it is %q, was %q", name, got, text)
		}
		if isThere(c.Backup) {
			t.Errorf("%s: the backup is left over", name)
		}
		if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
			t.Errorf("%s: the mode is %v, %v", name, info.Mode(), err)
		}
	}
}

func TestLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir := t.TempDir()
	real, link := filepath.Join(dir, "dotfiles.json"), filepath.Join(dir, "settings.json")
	mustWrite(t, real, "{}\n")
	mustLink(t, real, link)
	if _, err := Put(Find("zed"), link, entryOf(Find("zed"))); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if !strings.Contains(mustRead(t, real), "agent_servers") {
		t.Error("the file behind the link has no entry")
	}
	nowhere := filepath.Join(dir, "nowhere.json")
	mustLink(t, filepath.Join(dir, "missing"), nowhere)
	if _, err := Put(Find("zed"), nowhere, entryOf(Find("zed"))); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("a link that leads nowhere: %v", err)
	}
	if _, err := Put(Find("zed"), dir, entryOf(Find("zed"))); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	below := filepath.Join(real, "settings.json")
	if _, err := Put(Find("zed"), below, entryOf(Find("zed"))); err == nil || !strings.Contains(err.Error(), below) {
		t.Errorf("a path below a file: %v", err)
	}
}

func TestSetValues(t *testing.T) {
	const before = "{\n  \"agent\": \"goose\", \"model\": {\"apiKey\": \"x\", \"host\": \"a\"},\n  \"log\": {\"level\": \"info\"}\n}\n"
	values := []Value{
		{[]string{"agent"}, "opencode"},
		{[]string{"model", "host"}, "b"},
		{[]string{"model", "apiKey"}, nil},
		{[]string{"model", "apiKeyEnv"}, "KEY"},
		{[]string{"sandbox", "driver"}, "docker"},
		{[]string{"nothing", "here"}, nil},
	}
	const want = "{\n  \"agent\": \"opencode\", \"model\": {\"host\": \"b\", \"apiKeyEnv\": \"KEY\"},\n  \"log\": {\"level\": \"info\"},\n  \"sandbox\": {\n    \"driver\": \"docker\"\n  }\n}\n"
	got, err := SetValues([]byte(before), values)
	if err != nil || string(got) != want {
		t.Fatalf("%v (-want +got):\n%s", err, cmp.Diff(want, string(got)))
	}
	if again, err := SetValues(got, values); err != nil || string(again) != want {
		t.Errorf("again: %v\n%s", err, again)
	}
	if _, err := SetValues([]byte(`{"model": 7}`), values); err == nil {
		t.Error("a model that is no object was taken")
	}
}

func TestFiles(t *testing.T) {
	linux := Place{OS: "linux", Home: "/home/me"}
	for name, want := range map[string]string{
		"zed": "/home/me/.config/zed/settings.json", "jetbrains": "/home/me/.jetbrains/acp.json",
		"vscode": "/home/me/.config/Code/User/settings.json", "acpx": "/home/me/.acpx/config.json",
		"goose": "/home/me/.config/goose/config.yaml", "opencode": "/home/me/.config/opencode/opencode.json",
		"neovim": "/home/me/.config/nvim/lua/gander_avante.lua", "emacs": "/home/me/.emacs.d/gander-agent-shell.el",
	} {
		if got := filepath.ToSlash(Find(name).File(linux, "avante")); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	other := Place{OS: "linux", Home: "/home/me", Config: "/cfg"}
	if got := filepath.ToSlash(Find("zed").File(other, "")); got != "/cfg/zed/settings.json" && runtime.GOOS != "windows" {
		t.Errorf("with XDG_CONFIG_HOME: %s", got)
	}
	mac := Place{OS: "darwin", Home: "/Users/me"}
	if got := filepath.ToSlash(Find("vscode").File(mac, "")); got != "/Users/me/Library/Application Support/Code/User/settings.json" {
		t.Errorf("VS Code on macOS: %s", got)
	}
}

func mustWrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func mustLink(t *testing.T, old, name string) {
	t.Helper()
	if err := os.Symlink(old, name); err != nil {
		t.Fatal(err)
	}
}
