package changes

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Path is a name below the project, slash-separated, in the bytes that the file
// system has. In JSON it is a string, or an object with the bytes in base64 when
// they are no UTF-8.
type Path string

// String is the path for people: quoted when it holds what a terminal or a line
// would not show as it is.
func (p Path) String() string {
	plain := utf8.ValidString(string(p)) && !strings.ContainsFunc(string(p), func(r rune) bool { return !unicode.IsPrint(r) })
	if plain {
		return string(p)
	}
	return strconv.Quote(string(p))
}

type rawPath struct {
	Bytes []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(rawPath{[]byte(p)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Path) UnmarshalJSON(data []byte) error {
	if strings.HasPrefix(string(data), "{") {
		var raw rawPath
		err := json.Unmarshal(data, &raw)
		*p = Path(raw.Bytes)
		return err
	}
	var s string
	err := json.Unmarshal(data, &s)
	*p = Path(s)
	return err
}

// The kinds of a [Change].
const (
	Created  = "created"
	Modified = "modified" // content, mode, or what it is
	Deleted  = "deleted"
	Renamed  = "renamed" // From is where it was; its content may have changed, too
)

// The types of a [File].
const (
	TypeFile    = "file"
	TypeLink    = "link"
	TypeDir     = "dir"
	TypeSpecial = "special" // a pipe, a socket, a device
)

// A File is what was at a path.
type File struct {
	Type string `json:"type"`
	// Mode is the permissions, octal: "0644".
	Mode string `json:"mode"`
	// Size is in bytes; of a link, its target's length.
	Size int64 `json:"size"`
	// Sum is the SHA-256 of the content, or of a link's target; empty when it was
	// not read.
	Sum string `json:"sum,omitempty"`
	// Kept says that the content is kept, so that it can be shown and put back.
	Kept bool `json:"kept,omitempty"`
}

func (f *File) mode() fs.FileMode {
	m, err := strconv.ParseUint(f.Mode, 8, 32)
	if err != nil {
		return 0o600
	}
	return fs.FileMode(m)
}

// A Change is a path at which something else was after a turn than before.
type Change struct {
	Path Path   `json:"path"`
	Kind string `json:"kind"`
	// From is where a renamed file was.
	From Path `json:"from,omitempty"`
	// Before and After are what was there; nil is nothing.
	Before *File `json:"before,omitempty"`
	After  *File `json:"after,omitempty"`
	// Unsure says that it is not known whether the turn made the change: another one ran in the
	// project at the same time.
	Unsure bool `json:"unsure,omitempty"`
}

// Heavy is how many files changed in a directory of dependencies or a cache, whose
// content is not kept.
type Heavy struct {
	Dir      Path `json:"dir"`
	Created  int  `json:"created,omitempty"`
	Modified int  `json:"modified,omitempty"`
	Deleted  int  `json:"deleted,omitempty"`
}

// A Turn is what a turn did to the files.
type Turn struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	// Parent is the session that the turn did work for; empty for none.
	Parent  string    `json:"parent,omitempty"`
	Root    string    `json:"root"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Changes are in the order of their paths; directories that only appeared or
	// vanished with what is in them are among them.
	Changes []Change `json:"changes,omitempty"`
	// More is how many changes there were beyond those listed.
	More int `json:"more,omitempty"`
	// Heavy are the directories whose files are only counted.
	Heavy []Heavy `json:"heavy,omitempty"`
	// NotCompared names directories that were left out, and why.
	NotCompared []string `json:"notCompared,omitempty"`
	// HeadBefore and HeadAfter are the commits checked out; they differ when the
	// turn committed or changed the branch.
	HeadBefore string `json:"headBefore,omitempty"`
	HeadAfter  string `json:"headAfter,omitempty"`
	// Unknown is why it is not known what the turn changed; empty when it is.
	Unknown string `json:"unknown,omitempty"`
	// Passed says that an undo has refused such a turn: the next one goes to an earlier turn.
	Passed bool `json:"passed,omitempty"`
	// Others are files that changed meanwhile and that the turn did not change.
	Others []Path `json:"others,omitempty"`
	// Undone is when the turn was undone.
	Undone *time.Time `json:"undone,omitempty"`

	unread bool // its record cannot be read
	late   bool // it is not kept yet
}

// Empty reports that nothing is different, as far as one knows.
func (t *Turn) Empty() bool {
	return t.Unknown == "" && len(t.Changes) == 0 && len(t.Others) == 0 && t.More == 0 && len(t.Heavy) == 0 && t.HeadBefore == t.HeadAfter
}

// Files are the changes without plain directories: what people call changed files.
func (t *Turn) Files() []Change {
	var files []Change
	for _, c := range t.Changes {
		if !c.isDir() {
			files = append(files, c)
		}
	}
	return files
}

func (c *Change) isDir() bool {
	return (c.Before == nil || c.Before.Type == TypeDir) && (c.After == nil || c.After.Type == TypeDir) && (c.Before == nil || c.After == nil)
}

// String is the change in one line: "modified src/a.go".
func (c *Change) String() string {
	s := c.Kind + " " + c.Path.String()
	if c.Kind == Renamed {
		s = fmt.Sprintf("renamed %s to %s", c.From, c.Path)
	}
	switch b, a := c.Before, c.After; {
	case b != nil && a != nil && b.Type != a.Type:
		s += fmt.Sprintf(" (%s, was a %s)", a.Type, b.Type)
	case b != nil && a != nil && b.Mode != a.Mode:
		s += fmt.Sprintf(" (mode %s, was %s)", a.Mode, b.Mode)
	case a != nil && a.Type != TypeFile:
		s += " (" + a.Type + ")"
	}
	if c.Unsure {
		s += " (perhaps by another thread)"
	}
	return s
}

// Notes are sentences about what the list of changes does not hold.
func (t *Turn) Notes() []string {
	var notes []string
	if t.late {
		notes = append(notes, "It is not kept yet: an undo tries that again first, and undoes nothing when it fails.")
	}
	if t.Unknown != "" {
		notes = append(notes, "What it changed is not known: "+t.Unknown+".")
	}
	for _, h := range t.Heavy {
		notes = append(notes, fmt.Sprintf("In %s %d files were created, %d modified, %d deleted; their content is not kept.", h.Dir, h.Created, h.Modified, h.Deleted))
	}
	if t.More > 0 {
		notes = append(notes, plural(t.More, "more change is", "more changes are")+" not listed.")
	}
	for _, n := range t.NotCompared {
		notes = append(notes, "Not compared: "+n+".")
	}
	if len(t.Others) > 0 {
		notes = append(notes, "Changed meanwhile, and not by this turn: "+named(t.Others)+".")
	}
	if t.HeadBefore != t.HeadAfter {
		notes = append(notes, fmt.Sprintf("HEAD moved from %s to %s: commits and branches stay as they are, whatever is undone.", short(t.HeadBefore), short(t.HeadAfter)))
	}
	return notes
}

// named returns the first of some paths.
func named(paths []Path) string {
	const most = 10
	names := make([]string, 0, most)
	for _, p := range paths[:min(len(paths), most)] {
		names = append(names, p.String())
	}
	text := strings.Join(names, ", ")
	if n := len(paths) - most; n > 0 {
		text += " and " + plural(n, "other", "others")
	}
	return text
}

func short(commit string) string {
	if commit == "" {
		return "nothing"
	}
	return commit[:min(len(commit), 10)]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Undone says what undoing the change did to the file.
func (c *Change) Undone() string {
	switch c.Kind {
	case Created:
		return "removed " + c.Path.String() + ", which the turn had created"
	case Deleted:
		return "brought back " + c.Path.String() + ", which the turn had deleted"
	case Renamed:
		return fmt.Sprintf("moved %s back to %s", c.Path, c.From)
	}
	return "put " + c.Path.String() + " back as it was before the turn"
}

// Redone says what doing the change again did to the file.
func (c *Change) Redone() string {
	switch c.Kind {
	case Created:
		return "made " + c.Path.String() + " again"
	case Deleted:
		return "removed " + c.Path.String() + " again"
	case Renamed:
		return fmt.Sprintf("moved %s to %s again", c.From, c.Path)
	}
	return "changed " + c.Path.String() + " again"
}
