package supervise

import (
	"slices"
	"strings"
)

// gitSetting is a line of git's configuration: its section and its key in small letters,
// the subsection in quotes, and its value, as they are.
type gitSetting struct{ section, subsection, key, value string }

// programKeys are the last parts of the keys whose values git, or one of its scripts and
// extensions, runs or gives to a program to run, in whatever section. A wrong guess
// protects too much.
func programKeys() []string {
	return []string{
		"args", "askpass", "authorsprog", "browser", "clean", "difffilter", "driver", "editor",
		"external", "fsmonitor", "gitproxy", "helper", "httpd", "pager", "path", "process", "receivepack",
		"smtpserver", "smtpserveroption", "smudge", "textconv", "tunnel", "uploadpack", "virtualfilesystem",
	}
}

// programEndings are how other such keys end.
func programEndings() []string { return []string{"cmd", "command", "hook", "program"} }

// directoryKeys are the last parts of the keys that name a directory from which programs,
// or code, are taken.
func directoryKeys() []string {
	return []string{"configdir", "hooks", "hookspath", "modulepath", "templatedir"}
}

// runs reports whether git runs the value as a program, or a program that is named in it.
func (s gitSetting) runs() bool {
	return strings.HasPrefix(s.value, "!") || strings.HasPrefix(s.value, "ext::") || s.section == "pager" || s.section == "alias" && hasProgram(s.value) || slices.Contains(programKeys(), s.key) ||
		slices.ContainsFunc(programEndings(), func(end string) bool { return strings.HasSuffix(s.key, end) })
}

// hasProgram reports whether a command of git's, as an alias stands for, is given a program,
// or a setting, to run.
func hasProgram(alias string) bool {
	return strings.HasPrefix(alias, "-") || slices.ContainsFunc(strings.Fields(alias), func(word string) bool {
		word, _, _ = strings.Cut(word, "=")
		return slices.Contains([]string{"-x", "--exec", "--extcmd", "--receive-pack", "--upload-pack", "foreach", "run"}, word)
	})
}

// gitSettings reads the text of a configuration as git does (config.c). What git ends at, as
// nonsense, it takes for something.
func gitSettings(text []byte) (all []gitSetting) {
	section, subsection := "", ""
	rest := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n") + "\n"
	for {
		rest = strings.TrimLeft(rest, gitSpace)
		switch {
		case rest == "":
			return all
		case rest[0] == '[':
			section, subsection, rest = gitSection(rest)
			continue
		}
		line, after, _ := strings.Cut(rest, "\n")
		key, _, ok := strings.Cut(line, "=")
		if !ok || key != "" && (key[0] == '#' || key[0] == ';') {
			rest = after
			continue
		}
		s := gitSetting{section: section, subsection: subsection, key: strings.ToLower(strings.TrimRight(key, gitSpace))}
		s.value, rest = gitValue(rest[len(key)+1:])
		all = append(all, s)
	}
}

// gitSpace is what git takes for white space.
const gitSpace = " \t\r\n"

// gitSection is the section that a line begins, with its subsection, and what comes after
// it: it may be a key.
func gitSection(text string) (section, subsection, rest string) {
	var sub strings.Builder
	end := 1
	for quoted := false; text[end] != '\n' && (quoted || text[end] != ']'); end++ {
		switch c := text[end]; {
		case c == '"':
			quoted = !quoted
			continue
		case c == '\\' && text[end+1] != '\n':
			end++
		}
		if quoted {
			sub.WriteByte(text[end])
		}
	}
	section = strings.ToLower(text[1:end])
	if i := strings.IndexAny(section, gitSpace+".\""); i >= 0 {
		section = section[:i]
	}
	return section, sub.String(), text[end+1:]
}

// gitValue is the value that a text begins with, which has an end of line, without its quotes and escapes, and what
// comes after its last line. A line goes on behind a backslash, but for one in a comment.
func gitValue(text string) (value, rest string) {
	var b strings.Builder
	quoted, end := false, 0 // without white space at the end
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\n' || !quoted && (c == '#' || c == ';') {
			_, rest, _ = strings.Cut(text[i:], "\n")
			break
		}
		if !quoted && strings.IndexByte(gitSpace, c) >= 0 {
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		}
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
			b.WriteString(gitEscaped(text[i]))
		default:
			b.WriteByte(c)
		}
		end = b.Len()
	}
	value, _, _ = strings.Cut(b.String()[:end], "\x00") // where a string of git's ends
	return value, rest
}

// gitEscaped is what a character behind a backslash means.
func gitEscaped(c byte) string {
	switch c {
	case '\n':
		return ""
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'b':
		return "\b"
	}
	return string([]byte{c})
}
