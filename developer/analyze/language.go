package analyze

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// A language is one that can be parsed.
type language struct {
	// name is the tag that files of the language have.
	name string
	// family joins languages that call each other; empty means the language alone.
	family string
	// newParser makes a parser for the use of one goroutine.
	newParser func() (fileParser, error)
}

// A fileParser reads files of one language, one after the other.
type fileParser interface {
	// parse never changes or keeps src. It stops when ctx ends, if not at once. After
	// an error the parser is of no more use.
	parse(ctx context.Context, src []byte) (*facts, error)
	close()
}

func languages() []*language {
	return append(grammars(), &language{name: "go", newParser: func() (fileParser, error) { return goParser{}, nil }})
}

// missing compares with all that a build with cgo knows.
func missing() (names []string) {
	have := languages()
	for _, name := range []string{
		"c", "cpp", "csharp", "go", "java", "javascript", "kotlin", "php", "python", "ruby", "rust", "swift", "tsx", "typescript",
	} {
		if !slices.ContainsFunc(have, func(l *language) bool { return l.name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// tag is the language that a file's name promises; empty for none. Languages
// without a parser have tags as well: overviews count their lines.
func tag(path string) string {
	name := strings.ToLower(filepath.Base(path))
	if name == "dockerfile" {
		return "dockerfile"
	}
	switch ext := strings.TrimPrefix(filepath.Ext(name), "."); ext {
	case "rs":
		return "rust"
	case "hs":
		return "haskell"
	case "rkt", "scm":
		return "scheme"
	case "py", "pyi":
		return "python"
	case "js", "mjs", "cjs", "jsx":
		return "javascript"
	case "ts", "mts", "cts":
		return "typescript"
	case "yaml", "yml":
		return "yaml"
	case "sh":
		return "bash"
	case "ps1":
		return "powershell"
	case "bat", "cmd":
		return "batch"
	case "md":
		return "markdown"
	case "cpp", "cc", "cxx", "h", "hpp", "hh", "hxx":
		return "cpp"
	case "cs":
		return "csharp"
	case "rb":
		return "ruby"
	case "kt", "kts":
		return "kotlin"
	case "m":
		return "matlab"
	case "pl":
		return "perl"
	case "tsx", "json", "toml", "vbs", "go", "html", "css", "sql", "java", "c", "php", "swift", "scala", "r", "dockerfile":
		return strings.Replace(ext, "vbs", "vbscript", 1)
	}
	return ""
}
