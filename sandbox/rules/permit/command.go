package permit

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// directoryKeys are the names under which tools take the directory of a command,
// and harmlessKeys what else may stand beside a command without changing what it
// does. With any other key a command is not remembered.
var (
	directoryKeys = []string{"cwd", "workdir", "working_dir", "workingDir"}
	harmlessKeys  = []string{"command", "description", "timeout", "timeout_secs", "timeout_seconds"}
)

// commandSubject is the subject of a shell command.
func commandSubject(s Subject, input map[string]json.RawMessage, dir string) (Subject, string, bool) {
	for key, raw := range input {
		switch {
		case slices.Contains(harmlessKeys, key) || string(raw) == "null":
		case slices.Contains(directoryKeys, key):
		default:
			return Subject{}, "", false
		}
	}
	dir, ok := Directory(input, dir)
	var line string
	if !ok || json.Unmarshal(input["command"], &line) != nil {
		return Subject{}, "", false
	}
	text, ok := Structure(line)
	if !ok {
		return Subject{}, "", false
	}
	s.Kind, s.Text, s.Dir = KindCommand, text, dir
	return s, strings.TrimSpace(line), true
}

// Directory is the one in which a tool with an input runs its command, in a session in
// dir. It reports false for an input that names several, of which each tool takes its own,
// or something that is none.
func Directory(input map[string]json.RawMessage, dir string) (string, bool) {
	named := ""
	for _, key := range directoryKeys {
		raw, ok := input[key]
		if !ok || string(raw) == "null" {
			continue
		}
		if named != "" || json.Unmarshal(raw, &named) != nil {
			return "", false
		}
	}
	if !filepath.IsAbs(named) {
		named = filepath.Join(dir, named)
	}
	return filepath.Clean(named), true
}

// maxLine bounds the commands that are looked at, in bytes.
const maxLine = 4 << 10

// Structure is what a shell command does, word by word: the same for two spellings
// of the same words, and different for everything else. It reports false where the
// words say less than what is run: with variables, substitutions, patterns,
// assignments, here-documents, control structures and background jobs, and with
// programs that take code or another command's words (see interpreters).
func Structure(line string) (string, bool) {
	odd := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == utf8.RuneError } // parsers may disagree about them
	if len(line) > maxLine || strings.ContainsFunc(line, odd) {
		return "", false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil || len(file.Stmts) == 0 {
		return "", false
	}
	var b strings.Builder
	for i, stmt := range file.Stmts {
		if i > 0 {
			b.WriteString(" ; ")
		}
		if !writeStatement(&b, stmt) {
			return "", false
		}
	}
	return b.String(), true
}

func writeStatement(b *strings.Builder, s *syntax.Stmt) bool {
	if s.Background || s.Coprocess || s.Disown {
		return false
	}
	if s.Negated {
		b.WriteString("! ")
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if !writeCall(b, c) {
			return false
		}
	case *syntax.BinaryCmd:
		if c.Op == syntax.PipeAll {
			return false
		}
		b.WriteString("( ")
		if !writeStatement(b, c.X) {
			return false
		}
		b.WriteString(" " + c.Op.String() + " ")
		if !writeStatement(b, c.Y) {
			return false
		}
		b.WriteString(" )")
	default:
		return false
	}
	for _, r := range s.Redirs {
		if !writeRedirect(b, r) {
			return false
		}
	}
	return true
}

func writeCall(b *strings.Builder, c *syntax.CallExpr) bool {
	if len(c.Assigns) > 0 || len(c.Args) == 0 {
		return false
	}
	argv := make([]string, len(c.Args))
	for i, w := range c.Args {
		value, ok := literal(w)
		if !ok {
			return false
		}
		argv[i] = value
	}
	if slices.Contains(interpreters, filepath.Base(argv[0])) {
		return false
	}
	raw, _ := json.Marshal(argv) // strings always marshal
	b.Write(raw)
	return true
}

func writeRedirect(b *strings.Builder, r *syntax.Redirect) bool {
	if r.Hdoc != nil || r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		return false
	}
	to, ok := literal(r.Word)
	if !ok {
		return false
	}
	if r.N != nil {
		b.WriteString(" " + r.N.Value)
	}
	raw, _ := json.Marshal(to)
	b.WriteString(" " + r.Op.String())
	b.Write(raw)
	return true
}

// interpreters run what their arguments say, in ways that this package does not
// read: such a command is never remembered, not even as a whole.
var interpreters = []string{
	"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "eval", "exec", "source", ".", "env", "xargs", "command", "builtin",
	"sudo", "doas", "su", "ssh", "parallel", "trap", "alias", "set", "shopt", "export", "declare", "local", "readonly", "typeset", "unset", "let",
}

// literal is the value of a word that is always the same.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if isPattern(p.Value, i == 0) {
				return "", false
			}
			unescape(&b, p.Value, "")
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				unescape(&b, lit.Value, "$`\"\\\n")
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescape writes text without the backslashes that the shell takes away: those
// before one of some characters, or before any when none are named. With a line
// break behind it a backslash takes that away, too.
func unescape(b *strings.Builder, text, before string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (before == "" || strings.IndexByte(before, text[i+1]) >= 0) {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
}

// isPattern says whether an unquoted piece of a word may become something else: a
// pattern, a set of braces, or a home directory.
func isPattern(lit string, first bool) bool {
	if first && strings.HasPrefix(lit, "~") || strings.Contains(lit, ":~") || strings.Contains(lit, "=~") {
		return true
	}
	escaped := false
	for _, c := range lit {
		if !escaped && strings.ContainsRune("*?[]{}", c) {
			return true
		}
		escaped = c == '\\' && !escaped
	}
	return false
}
