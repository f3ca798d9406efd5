package editor

import (
	"path/filepath"
	"strings"
)

// languages are the tags that fences carry, by extension, as classic goose had
// them (tsx and jsx had none).
var languages = map[string]string{
	"rs": "rust", "hs": "haskell", "rkt": "scheme", "scm": "scheme", "py": "python",
	"js": "javascript", "ts": "typescript", "json": "json", "toml": "toml",
	"yaml": "yaml", "yml": "yaml", "sh": "bash", "ps1": "powershell", "bat": "batch",
	"cmd": "batch", "vbs": "vbscript", "go": "go", "md": "markdown", "html": "html",
	"css": "css", "sql": "sql", "java": "java", "cpp": "cpp", "cc": "cpp", "cxx": "cpp",
	"c": "c", "h": "cpp", "hpp": "cpp", "rb": "ruby", "php": "php", "swift": "swift",
	"kt": "kotlin", "kts": "kotlin", "scala": "scala", "r": "r", "m": "matlab",
	"pl": "perl", "dockerfile": "dockerfile",
}

// Language is the tag of a Markdown fence around a file's content; empty when the
// extension says nothing.
func Language(path string) string {
	return languages[strings.TrimPrefix(filepath.Ext(path), ".")]
}
