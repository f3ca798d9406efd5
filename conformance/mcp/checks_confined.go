package mcp

import (
	"errors"
	"os"
	"strings"
)

// checkPolicyRoots applies to servers that refuse an edit by an absolute path.
func checkPolicyRoots(p *probe) {
	if !p.facts.sees {
		p.skip("the command leads into a container or a sandbox, which has directories of its own")
	}
	p.write("work/in.txt", "inside\n")
	p.write("outside/out.txt", "outside\n")
	p.write("temporary/x", "")
	for link, to := range map[string]string{"link.txt": "../outside/out.txt", "far.txt": p.host("outside", "out.txt"), "folder": "../outside", "dangling.txt": "../outside/made.txt"} {
		if err := os.Symlink(to, p.host("work", link)); err != nil {
			p.fail("%v", err)
		}
	}
	s := p.begin(launch{dir: p.host("work"), env: []string{"TMPDIR=" + p.host("temporary")}})
	call := func(tool string, arguments args) answer {
		return p.callWith(s, tool, arguments, map[string]any{"agent-working-dir": p.path("work")})
	}
	edits := map[string][]args{
		"text_editor": {
			{"command": "write", "file_text": "changed\n"},
			{"command": "str_replace", "old_str": "outside", "new_str": "changed"},
			{"command": "insert", "insert_line": 0, "new_str": "changed"},
			{"command": "str_replace", "diff": diffOf("out.txt", "outside", "changed")},
		},
		"write": {{"content": "changed\n"}},
		"edit":  {{"before": "outside", "after": "changed"}},
	}
	any := false
	for _, tool := range []string{"text_editor", "write", "edit"} {
		if !p.facts.has(tool) {
			continue
		}
		for i, edit := range edits[tool] {
			edit["path"] = p.path("outside", "out.txt")
			if a := call(tool, edit); i == 0 && !any && !a.failed() {
				p.skip("the server edits files anywhere: %s works in a directory beside the working directory", tool)
			}
			any = true
			for _, name := range []string{p.path("outside", "out.txt"), "../outside/out.txt", "link.txt", "far.txt", "folder/out.txt", "dangling.txt", "folder/new.txt"} {
				edit["path"] = name
				if a := call(tool, edit); !a.failed() {
					p.problem("%s %s works outside of the working directory", tool, excerpt(marshal(edit)))
				}
			}
		}
	}
	if !any {
		p.skip("the server has no tool that edits files")
	}
	p.equal("the file outside", p.read("outside/out.txt"), "outside\n")
	for _, name := range []string{"outside/made.txt", "outside/new.txt"} {
		if p.exists(name) {
			p.problem("%s was made", name)
		}
	}
	if p.facts.has("text_editor") {
		p.refused("write outside", call("text_editor", args{"command": "write", "path": "link.txt", "file_text": "x"}), internalError, p.path("outside", "out.txt"))
		for _, name := range []string{"../outside/out.txt", "link.txt", "folder/out.txt"} {
			p.refused("view of "+name, call("text_editor", args{"command": "view", "path": name}), internalError)
		}
		p.worked(call("text_editor", args{"command": "write", "path": "sub/in.txt", "file_text": "x"}), "text_editor", args{"path": "sub/in.txt"})
	}
}

// keepsChildren reports whether a description of shell says that more than the words of a command
// is held against the ignore rules.
func keepsChildren(description string) bool {
	return strings.Contains(description, ".gooseignore") && (strings.Contains(description, "kernel") || strings.Contains(description, "sandbox"))
}

func checkPolicyChildren(p *probe) {
	if !keepsChildren(p.facts.tool("shell").Description) {
		p.skip("the description of shell does not say that the kernel, or a sandbox, keeps what commands start from ignored files")
	}
	reset := func() {
		_ = os.RemoveAll(p.host("open"))
		p.write(".gooseignore", ".hidden\nvault/\n")
		p.write(".hidden", secret+"\n")
		p.write("vault/key", secret+"\n")
		p.write("sub/x", "x\n")
		p.write("plain.txt", "plain\n")
		p.write("plain.sh", "cat plain.txt\n")
		p.write("read.sh", "cat .hidden vault/key\n")
		p.write("write.sh", "echo x > .hidden; echo x >> vault/key; rm -f .hidden vault/key; mv plain.txt .hidden; echo x > vault/new\n")
	}
	reset()
	p.holds("the output of a script", p.ok("shell", args{"command": "sh plain.sh"}).text("assistant"), "plain")
	for _, command := range []string{
		"sh read.sh", "f=hid; cat .${f}den", "cd sub && cat ../.h*", "grep -r . .", "find . -type f -exec cat {} +", "tar cf - . | cat", "printf 'cat .hid%s' den | sh",
		"cp -r . ../copy; cat ../copy/.h* ../copy/vault/key; rm -rf ../copy", "for f in .h*; do ln $f h && cat h; done", "for f in .h*; do ln -s $f l; cat l; done",
		"for f in .h*; do mv $f m && cat m; done", "mv va* open; cat open/key", "(setsid sh read.sh | cat)", "exec 3<.hid''den; cat <&3", "cat /proc/self/cwd/.h*",
	} {
		if a := p.call("shell", args{"command": command}); strings.Contains(a.words(), secret) {
			p.problem("the command %s shows an ignored file", excerpt(command))
		}
		reset()
	}
	_ = p.call("shell", args{"command": "sh write.sh"})
	p.equal("the ignored file", p.read(".hidden"), secret+"\n")
	p.equal("the file in an ignored directory", p.read("vault/key"), secret+"\n")
	if p.exists("vault/new") {
		p.problem("a script makes a file in an ignored directory")
	}
}

func checkHardLinks(p *probe) {
	for _, edit := range []struct {
		command   string
		arguments args
	}{{"write", args{"file_text": "two\n"}}, {"str_replace", args{"old_str": "one", "new_str": "two"}}} {
		p.write("a.txt", "one\n")
		if err := errors.Join(os.RemoveAll(p.host("b.txt")), os.Link(p.host("a.txt"), p.host("b.txt"))); err != nil {
			p.fail("%v", err)
		}
		p.edited(edit.command, "a.txt", edit.arguments)
		p.equal("the other name of a file, after "+edit.command, p.read("b.txt"), "two\n")
	}
}
