package local

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/policy"
)

// seatbelt is what a profile of macOS's sandbox is made of. All paths are absolute
// and without links: the kernel there compares the names that files really have.
type seatbelt struct {
	// project, home and temporary directories can be written.
	project, home string
	temporary     []string
	// readable are paths that can be read besides the system's.
	readable []string
	// private are directories of people, in which nothing else can be read.
	private []string
	// rules are the lines of .gooseignore files, in the order of their say, each with
	// the directory that it is relative to.
	rules []seatbeltRule
	// writes are the protected files.
	writes policy.Writes
}

// seatbeltRule is a line of a rules file.
type seatbeltRule struct{ dir, line string }

// What of the profile's operations is writing to a file, or giving it one more name.
// Links and clones are no kinds of file-write* to every version of macOS; and where one
// clause names an operation and another its group, the name counts, whatever their order.
const seatbeltWrites = "file-write* file-link file-clone"

// services are the ones of macOS that programs in the sandbox may talk to: users, groups
// and hosts by name, logs, the directory for temporary files, whether a certificate is
// good. What starts programs, holds passwords or connects for others is not among them.
var services = []string{
	"com.apple.SystemConfiguration.configd", "com.apple.bsd.dirhelper", "com.apple.diagnosticd", "com.apple.logd",
	"com.apple.lsd.mapdb", "com.apple.system.logger", "com.apple.system.notification_center",
	"com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership",
	"com.apple.trustd", "com.apple.trustd.agent",
}

// profile is the text for sandbox-exec. Of the clauses that match the last one
// decides. It goes by names and holds for the processes that are started under it.
//
// It does not hold: closed files under the names of other hard links that were there
// before; files that are closed or protected in a directory that is moved out of the
// project, or made elsewhere and moved to where its name counts; rules that
// change, or files that get a name, in a way the patterns do not say, after the
// start; what the services do that are asked about a certificate; other listeners on the
// loopback device; before macOS 27, the arguments and environments of other processes.
func (s seatbelt) profile() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("(version 1)")
	line("(allow default)")
	line("; the network: the doors on loopback, nothing else")
	line("(deny network*)")
	// An outgoing connection is judged by its other end only: its own is not bound yet,
	// which every "local" pattern matches.
	line(`(allow network-bind network-inbound (local ip "localhost:*"))`)
	line(`(allow network-outbound (remote ip "localhost:*"))`)
	line("(allow network* (subpath %s))", quoted(s.project))
	line("(allow network* (subpath %s))", quoted(s.home))
	line("; what acts for the person")
	for _, operation := range []string{"appleevent-send", "lsopen", "job-creation", "user-preference-write", "file-mount", "mach-lookup"} {
		line("(deny %s)", operation)
	}
	for _, service := range services {
		line("(allow mach-lookup (global-name %s))", quoted(service))
	}
	line("; other processes")
	for _, operation := range []string{"signal", "process-info*", "mach-priv-task-port"} {
		line("(deny %s)", operation)
		line("(allow %s (target same-sandbox))", operation)
	}
	line(`(deny sysctl-read (sysctl-name-prefix "kern.procargs"))`)
	line("; reading")
	for _, dir := range s.private {
		line("(deny file-read* (subpath %s))", quoted(dir))
		line("(allow file-read-metadata (literal %s))", quoted(dir))
	}
	for _, dir := range s.visible() {
		line("(allow file-read* (subpath %s))", quoted(dir))
		for parent := parentOf(dir); parent != "/"; parent = parentOf(parent) {
			line("(allow file-read-metadata (literal %s))", quoted(parent))
		}
	}
	line("; writing")
	line("(deny %s)", seatbeltWrites)
	for _, dir := range append([]string{s.project, s.home}, s.temporary...) {
		line("(allow %s (subpath %s))", seatbeltWrites, quoted(dir))
	}
	line(`(allow file-write-data (regex #"^/dev/(null|zero|tty|dtracehelper|fd/[0-9]+)$"))`)
	line("; terminals: those that are made here, and none of the person's")
	line(`(deny file-read* (regex #"^/dev/ttys[0-9]+"))`)
	line(`(allow file-read* file-write* (literal "/dev/ptmx"))`)
	line(`(allow file-read* file-write* (require-all (regex #"^/dev/ttys[0-9]+") (extension "com.apple.sandbox.pty")))`)
	s.close(line, true)
	s.protect(line)
	if len(s.writes.Allow) > 0 {
		s.close(line, false)
	}
	s.hold(line)
	return b.String()
}

// keeping returns the text for sandbox-exec that closes what rules close, by the same clauses
// as profile, and permits everything else.
func (s seatbelt) keeping() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("(version 1)")
	line("(allow default)")
	s.close(line, true)
	s.protect(line)
	s.hold(line)
	return b.String()
}

// longestString is how many bytes sandbox-exec takes of a string; one that is longer makes
// it refuse the whole profile.
const longestString = 1024

var stringRE = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// checkStrings fails when one of the profile's strings is too long: a rule, mostly.
func checkStrings(profile string) error {
	for text := range slices.Values(stringRE.FindAllString(profile, -1)) {
		if n := len(text) - len(`""`); n > longestString {
			return fmt.Errorf("a rule for files takes %d bytes as a pattern of macOS's sandbox, which takes %d (each letter counts as four): shorten the line of .gooseignore or of the policy, or use the docker driver: %.200s…", n, longestString, text)
		}
	}
	return nil
}

// seatbeltLacks is what a profile does not hold, in words for people.
const seatbeltLacks = "by names, with the rules of .gooseignore as they were at the start: not held are other hard links of closed files, directories that are moved out of the project, and rules in directories below the project; files outside of people's directories can be read, and other programs of this machine that listen on loopback be reached; before macOS 27 the environments of your other processes can be read, so keep the model's key in gander's file (gander setup)"

// confined says what a sandbox is under a profile, and that its processes are held
// in the way that held says.
func (p *plan) confined(held string) {
	p.kept = sandbox.Enforcement{Closed: sandbox.ByName, Protected: sandbox.ByName}
	p.isolation = "a seatbelt profile (sandbox-exec), " + seatbeltLacks + "; processes are held " + held
	p.warnings = []string{"macOS's seatbelt confines this sandbox: writing to the project, reading outside of your directories, the network by loopback only; it holds " + seatbeltLacks + ". Use the docker driver for isolation."}
	p.weaker = []string{"files outside of people's directories are visible", "loopback is open", "files are closed by name only", "environments of other processes are visible"}
}

func (s seatbelt) visible() []string {
	return append(append([]string{s.project, s.home}, s.temporary...), s.readable...)
}

// protect denies writing what makes the host do something.
func (s seatbelt) protect(line func(string, ...any)) {
	line("; protected from being written")
	top := "^" + regexp.QuoteMeta(s.project) + "/"
	deny := func(re string) {
		line("(deny %s (regex #%s))", seatbeltWrites, quotedRE(top+"(.*/)?"+re+"(/|$)"))
	}
	groups := policy.Groups()
	for _, name := range s.writes.Groups() {
		for _, g := range groups {
			if g.Name != name {
				continue
			}
			for _, pattern := range g.Patterns {
				deny(nameRE(pattern))
			}
			if name == "git" {
				deny(`\.[gG][iI][tT]/(config|config\.lock|config\.worktree|hooks|commondir|gitdir|remotes|branches|modules/(.*/)?(config|hooks|commondir))`)
				// Not refs/remotes, nor the directories of submodules with such a part in their name.
				line("(deny %s (regex #%s))", seatbeltWrites, quotedRE(top+`(.*/)?\.[gG][iI][tT]/(modules/[^/]+/)+(remotes|branches)(/[^/]*)?$`))
				line("(deny %s (regex #%s))", seatbeltWrites, quotedRE(top+`(.*/)?\.[gG][iI][tT]$`))
			}
		}
	}
	for _, p := range s.writes.Protect {
		if !strings.HasPrefix(p, "@") {
			deny(nameRE(strings.TrimPrefix(p, "/")))
		}
	}
	for _, p := range s.writes.Allow {
		if !strings.HasPrefix(p, "@") {
			line("(allow %s (regex #%s))", seatbeltWrites, quotedRE(top+"(.*/)?"+nameRE(strings.TrimPrefix(p, "/"))+"(/|$)"))
		}
	}
	for _, name := range policy.Always() {
		deny(nameRE(name))
	}
}

// close denies what .gooseignore closes. Behind what the policy allows to be written
// it is repeated for writing, without its exceptions: that opens nothing.
func (s seatbelt) close(line func(string, ...any), first bool) {
	line("; closed by .gooseignore")
	operations := "file-read-data file-read-xattr " + seatbeltWrites
	if !first {
		operations = seatbeltWrites
	}
	for _, r := range s.rules {
		verb, top, pattern := r.read()
		if pattern == "" || verb == "allow" && !first {
			continue
		}
		line("(%s %s (regex #%s))", verb, operations, quotedRE(top+nameRE(pattern)+"(/|$)"))
	}
}

// read returns what a rule does, where it counts as a regular expression, and the
// pattern of names below; the pattern is empty where the line says nothing.
func (r seatbeltRule) read() (verb, top, pattern string) {
	text, verb := strings.TrimRight(r.line, " \t\r"), "deny"
	if strings.HasPrefix(text, "#") {
		return "", "", ""
	}
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		verb, text = "allow", rest
	}
	top = "^" + regexp.QuoteMeta(r.dir) + "/"
	text, anywhere := strings.CutPrefix(strings.TrimSuffix(text, "/"), "**/")
	if anywhere || !strings.Contains(text, "/") {
		top += "(.*/)?"
	}
	return verb, top, strings.TrimPrefix(text, "/")
}

// hold denies moving and removing the directories by whose names files are closed: under
// another name they would be open. For the profile, moving is unlinking.
func (s seatbelt) hold(line func(string, ...any)) {
	line("; directories that closed files are closed by")
	line("(deny file-write-unlink (literal %s))", quoted(s.project))
	for _, r := range s.rules {
		verb, top, pattern := r.read()
		for i, c := range pattern {
			if c == '/' && verb == "deny" {
				line("(deny file-write-unlink (require-all (vnode-type DIRECTORY) (regex #%s)))", quotedRE(top+nameRE(pattern[:i])+"$"))
			}
		}
	}
}

// nameRE is a pattern of names as a regular expression. Letters count in either
// case, as the file system there has it.
func nameRE(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString("(.*/)?")
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case c == '[' && strings.Contains(pattern[i:], "]"):
			end := i + strings.Index(pattern[i:], "]")
			b.WriteString(strings.Replace(pattern[i:end+1], "[!", "[^", 1))
			i = end
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			b.WriteString("[" + strings.ToLower(string(c)) + strings.ToUpper(string(c)) + "]")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String()
}

// quoted is a string of the profile's language.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// quotedRE is a regular expression behind the language's "#", in which only the
// quote is special.
func quotedRE(s string) string { return `"` + strings.ReplaceAll(s, `"`, `.`) + `"` }

func parentOf(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/"
	}
	return path[:i]
}
