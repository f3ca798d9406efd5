package supervise

import (
	"slices"
	"strings"
)

// gitSetting is a line of git's configuration: its section without a subsection, and
// its key, in small letters, and its value as it is.
type gitSetting struct{ section, key, value string }

// programKeys are the last parts of the keys whose values git runs, or gives to a
// program to run, in whatever section. A wrong guess protects too much.
func programKeys() []string {
	return []string{
		"alternaterefscommand", "askpass", "browser", "cccmd", "clean", "cmd", "command", "defaultkeycommand", "difffilter", "driver", "editor",
		"external", "fsmonitor", "gitproxy", "headercmd", "helper", "httpd", "packobjectshook", "pager", "path", "process", "program", "receivepack",
		"recentobjectshook", "smtpserver", "smudge", "sshcommand", "textconv", "tocmd", "tunnel", "uploadpack",
	}
}

// runs reports whether git runs the value as a program.
func (s gitSetting) runs() bool {
	return strings.HasPrefix(s.value, "!") || strings.HasPrefix(s.value, "ext::") || s.section == "pager" || slices.Contains(programKeys(), s.key)
}

// gitSettings reads the text of a configuration; what it does not understand it skips.
func gitSettings(text []byte) (all []gitSetting) {
	section := ""
	joined := strings.NewReplacer("\r\n", "\n", "\\\r\n", "", "\\\\", "\\\\", "\\\n", "").Replace(string(text)) // a line goes on behind a backslash
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "["); ok {
			head, after := cutUnquoted(rest, "]")
			section, line = strings.ToLower(head), strings.TrimSpace(strings.TrimPrefix(after, "]"))
			if i := strings.IndexAny(section, " \t.\""); i >= 0 {
				section = section[:i]
			}
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if ok && !strings.HasPrefix(key, "#") && !strings.HasPrefix(key, ";") {
			value, _ = cutUnquoted(value, "#;")
			all = append(all, gitSetting{section, key, unquoted(strings.TrimSpace(value))})
		}
	}
	return all
}

// cutUnquoted cuts a text before the first of some characters that is not in quotes.
func cutUnquoted(text, before string) (head, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(before, c) >= 0:
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// unquoted is a value without its quotes and escapes.
func unquoted(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '"' {
			continue
		}
		if c == '\\' && i+1 < len(value) {
			i++
			c = value[i]
			if named := strings.IndexByte("ntb", c); named >= 0 {
				c = "\n\t\b"[named]
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}
