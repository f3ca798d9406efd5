package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// yamlDocument is a document that is edited by lines.
type yamlDocument struct {
	lines   []string // the last is "" when the text ends with a line break
	carries bool     // lines end with a carriage return, as on Windows
	root    *yaml.Node
	meaning map[string]any
}

// oddBreaks are line breaks for YAML and nothing to an editor.
var oddBreaks = regexp.MustCompile("\r[^\n]|\r$|\u0085|\u2028|\u2029")

func parseYAML(data []byte) (*yamlDocument, error) {
	y := &yamlDocument{carries: bytes.Contains(data, []byte("\r\n"))}
	switch {
	case bytes.HasPrefix(data, byteOrderMark):
		return nil, errors.New("it begins with a byte order mark; save it without one")
	case oddBreaks.Match(data):
		return nil, errors.New("it has line breaks that editors do not show; put the entry in by hand, as gander config goose prints it")
	}
	if len(data) > 0 {
		y.lines = strings.Split(string(data), "\n")
	}
	return y, y.again()
}

// text ends with a whole line break or with none.
func (y *yamlDocument) text() []byte {
	text := strings.Join(y.lines, "\n")
	if y.carries {
		text = strings.TrimSuffix(text, "\r")
	}
	return []byte(text)
}

// behind is a line's number and what it says from the beginning of a node on.
func (y *yamlDocument) behind(n *yaml.Node) (line int, before, rest string) {
	line = n.Line - 1
	text := y.lines[line]
	for i := range text {
		if n.Column == 1+utf8.RuneCountInString(text[:i]) {
			return line, text[:i], text[i:]
		}
	}
	return line, text, ""
}

// again reads the edited text.
func (y *yamlDocument) again() error {
	text := y.text()
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := d.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("it is not YAML: %v; correct the file first", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return errors.New("it has more than one document; goose reads one")
	}
	y.root, y.meaning = &yaml.Node{Kind: yaml.MappingNode}, map[string]any{}
	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
		return nil
	}
	y.root = document.Content[0]
	if y.root.Kind != yaml.MappingNode || y.root.Style&yaml.FlowStyle != 0 && len(y.root.Content) > 0 {
		return errors.New("it is YAML, but not the keys below each other that a configuration is; correct the file first")
	}
	if err := document.Decode(&y.meaning); err != nil {
		return fmt.Errorf("it cannot be understood: %s; correct the file first", strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:")), " "))
	}
	return nil
}

// insert puts lines behind the first n.
func (y *yamlDocument) insert(n int, lines []string) {
	if len(y.lines) == 0 {
		y.lines = []string{""}
	}
	if y.carries {
		lines = slices.Clone(lines)
		for i := range lines {
			lines[i] += "\r"
		}
		if last := len(y.lines) - 1; n > last && last >= 0 && !strings.HasSuffix(y.lines[last], "\r") {
			y.lines[last] += "\r" // it had no break
		}
	}
	y.lines = slices.Insert(y.lines, max(n, 0), lines...)
}

// aliased reports whether a part of the document stands for another one.
func aliased(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, aliased)
}

// keyIndex is where a key is in the content of a mapping; -1 without it.
func keyIndex(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// remove takes the lines of a key out of a mapping that is written one below the other.
func (y *yamlDocument) remove(mapping *yaml.Node, key string) {
	node := mapping.Content[keyIndex(mapping, key)]
	end := node.Line
	for i := node.Line; i < len(y.lines); i++ {
		line := y.lines[i]
		text := strings.TrimLeft(line, " ")
		if strings.TrimSpace(text) == "" {
			continue
		}
		if len(line)-len(text) < node.Column {
			break
		}
		end = i + 1
	}
	last := end == len(y.lines)
	y.lines = slices.Delete(y.lines, node.Line-1, end)
	if n := len(y.lines); last && n > 0 && y.lines[n-1] != "" {
		y.lines = append(y.lines, "") // the line before had a break, which may be part of a text
	}
}

// checked is the edited text, when it means what it should.
func (y *yamlDocument) checked(want map[string]any) ([]byte, error) {
	if err := y.again(); err != nil {
		return nil, fmt.Errorf("internal: the edited file would not be YAML any more: %w", err)
	}
	if is := y.meaning; !reflect.DeepEqual(is, want) && !(len(is) == 0 && len(want) == 0) {
		if aliased(y.root) {
			return nil, errors.New("it uses YAML anchors and aliases for what has to change; edit it by hand, gander config goose prints the entry")
		}
		return nil, errors.New("internal: the edit would change more than the entry; nothing was written")
	}
	return y.text(), nil
}
