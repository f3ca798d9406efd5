// Package toolsettings finds a person's settings of tools, of which sandboxes get a copy. Which
// they are, and what of each, is in one table. Use [Find].
package toolsettings

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gander.dev/gander/sandbox/rules/project"
)

// Options say whose settings are looked for.
type Options struct {
	// Variable returns the person's environment: HOME, and what the table names.
	Variable func(name string) string
	// Writable are directories that sandboxes can write: nothing in them is read.
	Writable []string
}

// Found holds the settings that sandboxes get.
type Found struct {
	// Home are files for the home inside, by their paths there.
	Home map[string][]byte
	// Own are files that are inside at their own paths.
	Own map[string][]byte
	// Env are variables that name one of Own, as "NAME=value".
	Env []string
	// Files says of each file of the person's what is taken.
	Files []File
}

// File is a file of settings of the person's.
type File struct {
	Tool string `json:"tool"`
	Path string `json:"path"`
	// Why says why it is not inside; empty where it is.
	Why string `json:"why,omitempty"`
	// Left are keys in it that are not inside.
	Left []string `json:"leftOut,omitempty"`
}

//go:embed table.txt
var tableText string

// row is a line of the table.
type row struct {
	tool        string
	files, keys []string
	at          string // empty for the own path
	separator   string // ends a key
}

var table = func() (rows []row) {
	for line := range strings.Lines(tableText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.Split(line, "|")
		r := row{strings.TrimSpace(c[0]), strings.Fields(c[1]), strings.Fields(c[3]), strings.TrimSpace(c[2]), "="}
		if len(c) > 4 {
			r.separator = cmp.Or(strings.TrimSpace(c[4]), r.separator)
		}
		if r.at == "." {
			r.at = ""
		}
		rows = append(rows, r)
	}
	return rows
}()

// maxFile bounds a file of settings, in bytes.
const maxFile = 64 << 10

// Find reads a person's settings of tools.
func Find(o Options) Found {
	found := Found{Home: map[string][]byte{}, Own: map[string][]byte{}}
	home := o.Variable("HOME")
	if !filepath.IsAbs(home) || filepath.Clean(home) == "/" {
		return found
	}
	for _, r := range table {
		for _, name := range r.files {
			first, rest, _ := strings.Cut(name, "/")
			variable, isVariable := strings.CutPrefix(first, "$")
			file := filepath.Join(home, rest)
			if isVariable {
				if file = filepath.Join(o.Variable(variable), rest); !filepath.IsAbs(file) {
					continue
				}
			}
			text, err := project.ReadOwn(file, o.Writable, maxFile)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			f := File{Tool: r.tool, Path: file}
			if err == nil {
				text, f.Left, err = r.choose(text)
			}
			switch {
			case err != nil:
				f.Why = err.Error()
			case r.at != "":
				found.Home[r.at] = text
			default:
				found.Own[file] = text
				if isVariable {
					found.Env = append(found.Env, variable+"="+file)
				}
			}
			found.Files = append(found.Files, f)
			break
		}
	}
	return found
}

var errSecret = errors.New("something in it looks like a secret")

// choose returns what may be inside of a file, and the keys that may not.
func (r row) choose(text []byte) (chosen []byte, left []string, err error) {
	if !utf8.Valid(text) || bytes.ContainsRune(text, 0) {
		return nil, nil, errors.New("it is not text")
	}
	if len(r.keys) == 0 {
		if looksSecret(string(text)) {
			return nil, nil, errSecret
		}
		return text, nil, nil
	}
	if r.separator == "xml" {
		return r.chooseXML(text)
	}
	var entry []string // the lines of a key
	end := func() {
		key := ""
		if len(entry) > 0 {
			key = r.key(entry[0])
		}
		switch lines := strings.Join(entry, "\n") + "\n"; {
		case len(entry) == 0:
		case strings.HasPrefix(key, "["), r.takes(key) && !looksSecret(lines):
			chosen = append(chosen, lines...)
		default:
			name, _, _ := strings.Cut(key, " ") // not more than a name: what follows may be the secret
			if at := strings.Index(name, ":"); at > 0 {
				name = name[:at]
			}
			if !slices.Contains(left, name) {
				left = append(left, name)
			}
		}
		entry = nil
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "", trimmed == "---", strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, ";"):
		case strings.ContainsAny(line[:1], " \t]}"), strings.HasPrefix(line, "- "): // goes on with the key above it
			if len(entry) > 0 {
				entry = append(entry, line)
			}
		default:
			end()
			entry = []string{line}
		}
	}
	end()
	return chosen, left, nil
}

// key returns the key of a line.
func (r row) key(line string) (key string) {
	switch r.separator {
	case "space":
		key, _, _ = strings.Cut(line, " ")
	case ":": // an address in a key has one, too
		key, _, _ = strings.Cut(line+" ", ": ")
	default:
		key, _, _ = strings.Cut(line, r.separator)
	}
	return strings.TrimSpace(key)
}

// chooseXML does as choose: keys are the elements below the first. Comments stay out.
func (r row) chooseXML(text []byte) (chosen []byte, left []string, err error) {
	var (
		d     = xml.NewDecoder(bytes.NewReader(text))
		entry []byte
		depth int
	)
	for {
		from := d.InputOffset()
		token, err := d.Token()
		if errors.Is(err, io.EOF) && len(chosen) > 0 {
			return chosen, left, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("it is not XML: %w", err)
		}
		raw := text[from:d.InputOffset()]
		switch t := token.(type) {
		case xml.StartElement:
			depth++
			entry = append(entry, raw...)
		case xml.CharData:
			if depth > 1 {
				entry = append(entry, raw...)
			}
		case xml.EndElement:
			entry = append(entry, raw...)
			if depth--; depth > 1 {
				continue
			}
			if depth == 1 && (!r.takes(t.Name.Local) || looksSecret(string(entry))) {
				left, entry = append(left, t.Name.Local), nil
				continue
			}
			chosen, entry = append(append(chosen, entry...), '\n'), nil
		}
		if _, starts := token.(xml.StartElement); starts && depth == 1 {
			chosen, entry = append(append(chosen, entry...), '\n'), nil
		}
	}
}

func (r row) takes(key string) bool {
	key = strings.ReplaceAll(strings.TrimSuffix(key, "[]"), "/", ":") // to a pattern a slash is nothing special
	return slices.ContainsFunc(r.keys, func(pattern string) bool {
		ok, _ := path.Match(pattern, key) // the table has no bad pattern
		return ok
	})
}

var (
	// login finds a user's name or a password in an address, a question in which there may be
	// one, and a variable that may hold one.
	login = regexp.MustCompile(`//[^/\s"']*@|://\S*\?|\$\{?[A-Za-z_]|%[A-Za-z_]+%`)
	// secret finds words of people's for secrets, with a value.
	secret = regexp.MustCompile(`(?i)(token|passw(or)?d|secret|credential|api_?-?key|_auth\w*|private key)["']?\s*[:=]`)
	// word splits a text into what may be one secret.
	word = regexp.MustCompile(`[A-Za-z0-9_+-]{16,}`)
)

// looksSecret reports whether a text may hold a secret: an address with a login, a word for
// one, or letters and digits as by chance.
func looksSecret(text string) bool {
	if login.MatchString(text) || secret.MatchString(text) {
		return true
	}
	return slices.ContainsFunc(word.FindAllString(text, -1), func(w string) bool {
		digits := 0
		for _, c := range w {
			if unicode.IsDigit(c) {
				digits++
			}
		}
		return digits >= 3 && digits < len(w)
	})
}
