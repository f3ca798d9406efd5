package mcp

import (
	"encoding/base64"
	"os"
	"strings"
)

func policyChecks() []Check {
	shell, editor := []string{"shell"}, []string{"text_editor"}
	return []Check{
		{ID: "policy.shell", Requirements: []int{19, 20, 46, 51, 64}, needs: shell, run: checkPolicyShell, Text: "a command that names an ignored file is refused, each time alike, and does not run"},
		{ID: "policy.shell-syntax", Platform: "unix", Requirements: []int{19, 51}, needs: shell, run: checkPolicySyntax, Text: "so is one that quotes, escapes, redirects, globs, expands braces and ~, or nests another shell"},
		{ID: "policy.allowed", Requirements: []int{19}, needs: shell, run: checkPolicyAllowed, Text: "commands that name no ignored file run"},
		{ID: "policy.files", Requirements: []int{46, 51}, needs: editor, run: checkPolicyFiles, Text: "every command of text_editor refuses an ignored file, by whatever name, and leaves it as it is"},
		{ID: "policy.listing", Requirements: []int{51}, run: checkPolicyListing, Text: "listings do not name ignored files"},
		{ID: "policy.diff", Requirements: []int{51}, needs: editor, run: checkPolicyDiff, Text: "a diff whose body names an ignored file is refused whole"},
		{ID: "policy.image", Requirements: []int{46, 51}, needs: []string{"image_processor"}, run: checkPolicyImage, Text: "image_processor refuses an ignored file"},
		{ID: "policy.analyze", Requirements: []int{46, 51}, needs: []string{"analyze"}, run: checkPolicyAnalyze, Text: "analyze refuses an ignored file, and does not look into one on its way"},
		{ID: "policy.current", Profile: Current, Requirements: []int{46, 51, 72}, needs: []string{"write", "edit", "read_image"}, run: checkPolicyCurrent, Text: "write, edit and read_image refuse an ignored file and leave it as it is"},
		{ID: "policy.links", Platform: "unix", Requirements: []int{51, 54}, run: checkPolicyLinks, Text: "symbolic links to ignored files and directories are refused, by every tool"},
		{ID: "policy.traversal", Requirements: []int{39, 54}, needs: editor, run: checkPolicyTraversal, Text: "detours with .. and diffs that leave their base are refused"},
		{ID: "policy.roots", Platform: "unix", Requirements: []int{39, 54}, run: checkPolicyRoots, Text: "no edit leaves the working directory, by an absolute path, .. or a symbolic link, and no reading does by the last two"},
		{ID: "policy.children", Platform: "unix", Requirements: []int{19, 51}, needs: shell, run: checkPolicyChildren, Text: "what a command starts neither reads nor changes ignored files, where the description says so"},
		{ID: "policy.patterns", Requirements: []int{51}, run: checkPolicyPatterns, Text: ".gooseignore: wildcards, directories with all they hold, anchors, negation, files in sub-directories"},
		{ID: "policy.empty-file", Requirements: []int{51}, run: checkPolicyEmptyFile, Text: "an empty .gooseignore disables the defaults"},
		{ID: "policy.reload", Requirements: []int{51}, run: checkPolicyReload, Text: "a changed .gooseignore counts for the next call"},
		{ID: "policy.global", Platform: "unix", Requirements: []int{51}, run: checkPolicyGlobal, Text: "the person's own .gooseignore counts too, and a project's ! takes it back"},
		{ID: "policy.not-created", Requirements: []int{51}, run: checkPolicyNotCreated, Text: "no tool makes a .gooseignore"},
	}
}

const restricted = "restricted by .gooseignore"

// A secret is in no file but ignored ones.
const secret = "conformance-secret-4711"

// secrets makes files that the default rules ignore.
func (p *probe) secrets() {
	p.write(".env", "KEY="+secret+"\n")
	p.write("secrets.yaml", secret+"\n")
	p.write("sub/.env.local", secret+"\n")
	p.write("open.txt", "open\n")
}

// refusedShell checks that a command is refused as the policy says.
func (p *probe) refusedShell(s *server, command string) answer {
	a := p.callOn(s, "shell", args{"command": command})
	if strings.Contains(a.words(), secret) {
		p.problem("%s shows the ignored file", excerpt(command))
	}
	p.refused("the command "+excerpt(command), a, internalError, restricted)
	return a
}

func checkPolicyShell(p *probe) {
	p.secrets()
	d, s := p.facts.dialect, p.server()
	first := ""
	for range 3 {
		a := p.refusedShell(s, d.show(".env"))
		if first == "" {
			first = a.message
		}
		p.holds("the refusal", a.message, "The command attempts to access '.env' which is restricted by .gooseignore")
		p.equal("the refusal of the same command", a.message, first)
	}
	absolute := p.path(".env")
	if p.facts.dialect != posix {
		absolute = `"` + absolute + `"`
	}
	for _, command := range []string{d.show("secrets.yaml"), d.show(p.join("sub", ".env.local")), d.show(absolute), d.show(p.join(".", ".env")), d.show("open.txt secrets.yaml"), d.show(p.join("sub", "..", ".env"))} {
		p.refusedShell(s, command)
	}
	p.refusedShell(s, d.then(d.touch(p.path("ran")), d.show(".env")))
	if p.exists("ran") {
		p.problem("a command that was refused ran")
	}
}

// join is a relative name as the server's platform writes it.
func (p *probe) join(parts ...string) string {
	if p.windows() {
		return strings.Join(parts, `\`)
	}
	return strings.Join(parts, "/")
}

func checkPolicySyntax(p *probe) {
	p.secrets()
	s := p.server()
	for _, command := range []string{
		`cat ".env"`, `cat '.env'`, `cat .e"nv"`, `cat \.env`, `cat .en\v`,
		`cat <.env`, `cat < .env`, `cat .env;true`, `(cat .env)`, `cat .env|head`, `true && cat .env`, `x=$(cat .env); echo $x`, "echo `cat .env`",
		`cat .e*`, `cat .en[uv]`, `cat .e?v`, `cat {.env,open.txt}`, `cat sub/.env.*`,
		`bash -c 'cat .env'`, `sh -c "cat '.env'"`, `eval cat .env`, `cd sub && cat .env.local`, `echo x >.env`, `echo x >> secrets.yaml`,
		"cat <<END\n$(cat .env)\nEND", `if cat .env; then :; fi`, `for f in .env; do cat $f; done`,
	} {
		p.refusedShell(s, command)
	}
	p.equal("the ignored file", p.read(".env"), "KEY="+secret+"\n")
	if p.facts.sees {
		home := p.begin(launch{env: []string{"HOME=" + p.dir}})
		p.refusedShell(home, `cat ~/.env`)
		p.refusedShell(home, `cat $HOME/.env`)
	}
}

func checkPolicyAllowed(p *probe) {
	p.secrets()
	p.write("environment", "fine\n")
	d := p.facts.dialect
	for _, command := range []string{d.show("open.txt"), d.show("environment"), d.echo("env"), d.echo("secrets are not files")} {
		p.ok("shell", args{"command": command})
	}
}

// refusedFile checks that a tool refuses a file with the literal text.
func (p *probe) refusedFile(what string, a answer, code int, path string) {
	if strings.Contains(a.words(), secret) {
		p.problem("%s shows the ignored file", what)
	}
	p.refused(what, a, code, "Access to '"+path+"' is restricted by .gooseignore")
}

func checkPolicyFiles(p *probe) {
	p.secrets()
	for _, name := range []string{".env", p.path(".env"), p.join("sub", "..", ".env"), "secrets.yaml", p.join("sub", ".env.local")} {
		for _, command := range []args{
			{"command": "view"},
			{"command": "write", "file_text": "x"},
			{"command": "str_replace", "old_str": secret, "new_str": "x"},
			{"command": "insert", "insert_line": 0, "new_str": "x"},
			{"command": "undo_edit"},
		} {
			command["path"] = name
			a := p.call("text_editor", command)
			if strings.Contains(a.words(), secret) {
				p.problem("text_editor %s shows the ignored file", marshal(command))
			}
			p.refused("text_editor "+marshal(command), a, internalError, "Access to '", restricted)
		}
	}
	p.refusedFile("view of .env", p.call("text_editor", args{"command": "view", "path": p.path(".env")}), internalError, p.path(".env"))
	p.refused("writing a new ignored file", p.call("text_editor", args{"command": "write", "path": "secrets.new", "file_text": "x"}), internalError, restricted)
	p.equal(".env", p.read(".env"), "KEY="+secret+"\n")
	if p.exists("secrets.new") {
		p.problem("an ignored file was made")
	}
}

func checkPolicyListing(p *probe) {
	p.secrets()
	p.write("secrets.go", "package x\n\nfunc Hidden() {}\n")
	p.write("open.go", "package x\n\nfunc Open() {}\n")
	any := false
	for _, tt := range []struct {
		tool      string
		arguments args
	}{
		{"text_editor", args{"command": "view", "path": p.path()}},
		{"analyze", args{"path": p.path()}},
		{"tree", args{"path": p.path()}},
	} {
		if !p.facts.has(tt.tool) {
			continue
		}
		any = true
		text := p.ok(tt.tool, tt.arguments).text("assistant")
		p.holds("the listing of "+tt.tool, text, "open.go")
		for _, name := range []string{"secrets.go", "secrets.yaml"} {
			if strings.Contains(text, name) {
				p.problem("%s lists %s", tt.tool, name)
			}
		}
	}
	if !any {
		p.skip("the server lists nothing")
	}
}

func diffOf(name, from, to string) string {
	return "--- a/" + name + "\n+++ b/" + name + "\n@@ -1 +1 @@\n-" + from + "\n+" + to + "\n"
}

func checkPolicyDiff(p *probe) {
	p.secrets()
	a := p.call("text_editor", args{"command": "str_replace", "path": p.path(), "diff": diffOf("open.txt", "open", "shut") + diffOf("secrets.yaml", secret, "gone")})
	if !a.failed() {
		p.problem("a diff of an ignored file is applied: %s", excerpt(a.words()))
	}
	p.equal("secrets.yaml", p.read("secrets.yaml"), secret+"\n")
	p.equal("the other file of the diff", p.read("open.txt"), "open\n")
}

// A pixel is a PNG that every decoder takes.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func (p *probe) writePixel(name string) {
	data, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		p.fail("%v", err)
	}
	p.write(name, string(data))
}

func checkPolicyImage(p *probe) {
	p.writePixel("secrets.png")
	p.refusedFile("image_processor of secrets.png", p.call("image_processor", args{"path": p.path("secrets.png")}), internalError, p.path("secrets.png"))
	p.refused("image_processor of secrets.png, relative", p.call("image_processor", args{"path": "secrets.png"}), internalError, restricted)
}

func checkPolicyAnalyze(p *probe) {
	p.write("secrets.go", "package x\n\nfunc Hidden4711() {}\n")
	p.write("open.go", "package x\n\nfunc Open() { Hidden4711() }\n")
	p.refusedFile("analyze of secrets.go", p.call("analyze", args{"path": p.path("secrets.go")}), invalidParams, p.path("secrets.go"))
	a := p.call("analyze", args{"path": p.path(), "focus": "Hidden4711"})
	if strings.Contains(a.words(), "secrets.go") {
		p.problem("analyze looked into an ignored file: %s", excerpt(a.words()))
	}
}

func checkPolicyCurrent(p *probe) {
	p.secrets()
	p.writePixel("secrets.png")
	p.refused("write", p.call("write", args{"path": p.path(".env"), "content": "x"}), internalError, restricted)
	p.refused("edit", p.call("edit", args{"path": p.path("secrets.yaml"), "before": secret, "after": "x"}), internalError, restricted)
	p.refused("read_image", p.call("read_image", args{"source": p.path("secrets.png")}), internalError, restricted)
	p.equal(".env", p.read(".env"), "KEY="+secret+"\n")
	p.equal("secrets.yaml", p.read("secrets.yaml"), secret+"\n")
}

func checkPolicyLinks(p *probe) {
	if !p.facts.has("shell") && !p.facts.has("text_editor") && !p.facts.has("write") {
		p.skip("the server has no tool for files")
	}
	p.secrets()
	p.write(".gooseignore", "**/.env\nprivate/\n*.priv.*\n")
	p.write("private/notes.txt", secret+"\n")
	p.write("x.priv.go", "package x\n\nfunc Hidden() {}\n")
	p.writePixel("x.priv.png")
	for link, to := range map[string]string{"innocent": ".env", "folder": "private", "far": p.host("private", "notes.txt"), "code.go": "x.priv.go", "image.png": "x.priv.png", "chain": "innocent"} {
		if err := os.Symlink(to, p.host(link)); err != nil {
			p.fail("%v", err)
		}
	}
	s := p.server()
	for _, name := range []string{"innocent", "far", "chain", "folder/notes.txt"} {
		if p.facts.has("shell") {
			p.refusedShell(s, "cat "+name)
		}
		if p.facts.has("text_editor") {
			p.refused("view of the link "+name, p.call("text_editor", args{"command": "view", "path": name}), internalError, restricted)
			p.refused("write to the link "+name, p.call("text_editor", args{"command": "write", "path": name, "file_text": "x"}), internalError, restricted)
		}
		if p.facts.has("write") {
			p.refused("write to the link "+name, p.call("write", args{"path": name, "content": "x"}), internalError, restricted)
		}
	}
	if p.facts.has("image_processor") {
		p.refused("image_processor of a link", p.call("image_processor", args{"path": "image.png"}), internalError, restricted)
	}
	if p.facts.has("analyze") {
		p.refused("analyze of a link", p.call("analyze", args{"path": "code.go"}), invalidParams, restricted)
	}
	p.equal("private/notes.txt", p.read("private/notes.txt"), secret+"\n")
	p.equal(".env", p.read(".env"), "KEY="+secret+"\n")
}

func checkPolicyTraversal(p *probe) {
	p.write("outside.txt", "outside\n")
	p.write("base/inside.txt", "inside\n")
	apply := func(diff string) answer {
		return p.call("text_editor", args{"command": "str_replace", "path": p.path("base"), "diff": diff})
	}
	p.refused("a diff with .. in its path", apply(diffOf("../outside.txt", "outside", "changed")), invalidParams, "traversal")
	p.refused("a diff with .. further on", apply(diffOf("x/../../outside.txt", "outside", "changed")), invalidParams, "traversal")
	if !p.windows() {
		if err := os.Symlink("../outside.txt", p.host("base", "link.txt")); err != nil {
			p.fail("%v", err)
		}
		if err := os.Symlink("..", p.host("base", "up")); err != nil {
			p.fail("%v", err)
		}
		p.refused("a diff of a symbolic link", apply(diffOf("link.txt", "outside", "changed")), invalidParams)
		p.refused("a diff through a symbolic link", apply(diffOf("up/outside.txt", "outside", "changed")), invalidParams, "outside the base directory")
	}
	p.equal("the file outside", p.read("outside.txt"), "outside\n")
}

// readable says whether a file may be read by the first tool that reads, and
// whether the answer was a refusal of the policy.
func (p *probe) readable(s *server, name string) (may, policy bool) {
	var a answer
	switch {
	case p.facts.has("text_editor"):
		a = p.callOn(s, "text_editor", args{"command": "view", "path": p.path(name)})
	case p.facts.has("shell"):
		a = p.callOn(s, "shell", args{"command": p.facts.dialect.show(`"` + strings.ReplaceAll(name, "/", p.join("", "")) + `"`)})
	default:
		p.skip("the server reads no files")
	}
	return !a.failed(), strings.Contains(a.message, restricted)
}

func (p *probe) ignored(s *server, why string, names ...string) {
	for _, name := range names {
		if may, policy := p.readable(s, name); may || !policy {
			p.problem("%s can be read, %s", name, why)
		}
	}
}

func (p *probe) open(s *server, why string, names ...string) {
	for _, name := range names {
		if may, _ := p.readable(s, name); !may {
			p.problem("%s cannot be read, %s", name, why)
		}
	}
}

func checkPolicyPatterns(p *probe) {
	for _, name := range []string{"a.key", "deep/er/b.key", "public.key", "private/x.txt", "private/deep/y.txt", "deep/private/z.txt", "top.txt", "sub/top.txt", "sub/own.txt", "own.txt", "a1c", "fine.txt", "#note"} {
		p.write(name, "x\n")
	}
	p.write(".gooseignore", "# comment\n\n*.key\n!public.key\nprivate/\n/top.txt\na?c\n\\#note\n")
	p.write("sub/.gooseignore", "own.txt\n")
	s := p.server()
	p.ignored(s, "and a rule names it", "a.key", "deep/er/b.key", "private/x.txt", "private/deep/y.txt", "deep/private/z.txt", "top.txt", "sub/own.txt", "a1c", "#note")
	p.open(s, "and no rule names it", "public.key", "sub/top.txt", "own.txt", "fine.txt")
}

func checkPolicyEmptyFile(p *probe) {
	p.write(".env", "KEY=x\n")
	s := p.server()
	p.ignored(s, "and the default rules name it", ".env")
	p.write(".gooseignore", "")
	p.open(s, "and an empty .gooseignore disables the defaults", ".env")
}

func checkPolicyReload(p *probe) {
	p.write("a.txt", "x\n")
	p.write("b.txt", "x\n")
	s := p.server()
	p.open(s, "before there is a rule", "a.txt", "b.txt")
	p.write(".gooseignore", "a.txt\n")
	p.ignored(s, "and a new rule names it", "a.txt")
	p.open(s, "and no rule names it", "b.txt")
	p.write(".gooseignore", "b.txt\n")
	p.ignored(s, "and a changed rule names it", "b.txt")
	p.open(s, "and its rule is gone", "a.txt")
	if err := os.Remove(p.host(".gooseignore")); err != nil {
		p.fail("%v", err)
	}
	p.open(s, "and the rules are gone", "a.txt", "b.txt")
}

func checkPolicyGlobal(p *probe) {
	if !p.facts.sees {
		p.skip("the command leads into a container or a sandbox, with a home of its own")
	}
	p.write("home/.config/goose/.gooseignore", "*.global\n")
	p.write("work/a.global", "x\n")
	p.write("work/b.global", "x\n")
	s := p.begin(launch{env: []string{"HOME=" + p.host("home"), "XDG_CONFIG_HOME=" + p.host("home", ".config")}})
	p.ignored(s, "and the person's own rule names it", "work/a.global")
	p.write(".gooseignore", "!b.global\n")
	p.ignored(s, "and the person's own rule names it", "work/a.global")
	p.open(s, "and the project takes the rule back", "work/b.global")
}

func checkPolicyNotCreated(p *probe) {
	p.write("a.txt", "x\n")
	s := p.server()
	p.readable(s, "a.txt")
	if p.facts.has("shell") {
		p.callOn(s, "shell", args{"command": p.facts.dialect.show("a.txt")})
	}
	if p.exists(".gooseignore") {
		p.problem("there is a .gooseignore that nobody asked for")
	}
}
