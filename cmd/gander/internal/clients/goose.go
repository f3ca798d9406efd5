package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// gooseFormat is goose's config.yaml. goose's own developer extension wins over
// every other of that name, so it is switched off under its own key, and gander's
// stands under another key with the name developer, which the tools' names begin
// with. The text is edited line by line: the library that reads YAML finds the
// lines, and nothing is written again that was there before.
type gooseFormat struct{}

const (
	gooseExtensions = "extensions"
	gooseDeveloper  = "developer"
	// gooseOff is the description of goose's own developer when the entry made it.
	gooseOff = "switched off: gander's developer extension takes its place"
)

func (gooseFormat) document(e Entry) []byte {
	out, err := gooseFormat{}.put(nil, e)
	if err != nil {
		panic(err) // an empty document takes every entry
	}
	return out
}

func (gooseFormat) put(old []byte, e Entry) ([]byte, error) {
	if err := checkGooseName(e.Name); err != nil {
		return nil, err
	}
	y, err := parseYAML(old)
	if err != nil {
		return nil, err
	}
	var before map[string]any // gander's own extension, as it is
	if own := y.entry(e.Name); e.is(own) {
		before = own
	} else if y.has(e.Name) {
		return nil, taken(e.Name)
	}
	extension := gooseExtension(e, before)
	want := gooseWant(y.meaning, e.Name, extension)
	if reflect.DeepEqual(y.meaning, want) {
		return old, nil
	}
	lines, err := gooseLines(e, extension)
	if err != nil {
		return nil, err
	}
	if before != nil {
		y.remove(y.extensions(), e.Name)
		if err := y.again(); err != nil {
			return nil, err
		}
	}
	if err := y.openExtensions(); err != nil {
		return nil, err
	}
	if err := y.switchDeveloper(false); err != nil {
		return nil, err
	}
	y.insertExtension(lines)
	return y.checked(want)
}

func (gooseFormat) take(old, before []byte, e Entry) ([]byte, error) {
	y, err := parseYAML(old)
	if err != nil {
		return nil, err
	}
	if y.entry(e.Name) == nil {
		return old, nil
	}
	if !e.is(y.entry(e.Name)) {
		return nil, notOurs(e.Name)
	}
	off := y.anotherOf(e) || wasOff(before, e)
	had := hasKey(before, gooseExtensions)
	want := gooseWithout(y.meaning, e, off, had)
	y.remove(y.extensions(), e.Name)
	if err := y.again(); err != nil {
		return nil, err
	}
	if developer := y.entry(gooseDeveloper); developer != nil && developer["description"] == gooseOff {
		if off {
			return y.checked(want)
		}
		y.remove(y.extensions(), gooseDeveloper)
	} else if !off {
		if err := y.switchDeveloper(true); err != nil {
			return nil, err
		}
	}
	if err := y.again(); err != nil {
		return nil, err
	}
	if extensions, ok := y.meaning[gooseExtensions]; ok && extensions == nil && !had {
		y.remove(y.root, gooseExtensions)
	}
	out, err := y.checked(want)
	if err == nil && before == nil && len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	return out, err
}

func (gooseFormat) programs(old []byte) (found []string, err error) {
	y, err := parseYAML(old)
	if err != nil {
		return nil, err
	}
	extensions, _ := y.meaning[gooseExtensions].(map[string]any)
	for name := range extensions {
		if extension := y.entry(name); (Entry{}).is(extension) {
			found = append(found, extension["cmd"].(string))
		}
	}
	return found, nil
}

// is reports whether an extension starts gander.
func (e Entry) is(extension map[string]any) bool {
	command, _ := extension["cmd"].(string)
	return extension != nil && isGander(command, e)
}

// wasOff reports whether goose's developer was off before any entry of gander's came.
func wasOff(before []byte, e Entry) bool {
	y, err := parseYAML(before)
	return err == nil && y.entry(gooseDeveloper)["enabled"] == false && !e.is(y.entry(e.Name)) && !y.anotherOf(e)
}

// anotherOf reports whether an extension other than the entry's starts gander.
func (y *yamlDocument) anotherOf(e Entry) bool {
	extensions, _ := y.meaning[gooseExtensions].(map[string]any)
	for name := range extensions {
		if name != e.Name && e.is(y.entry(name)) {
			return true
		}
	}
	return false
}

func hasKey(document []byte, key string) bool {
	y, err := parseYAML(document)
	if err != nil {
		return false
	}
	_, ok := y.meaning[key]
	return ok
}

func checkGooseName(name string) error {
	if name == gooseDeveloper {
		return errors.New("goose keeps the key developer for its own extension; choose another --name, its tools are called developer__… all the same")
	}
	return nil
}

// gooseExtension is the entry's meaning, as YAML is read. Of the extension that was there
// before stays what gander does not know, and what is the person's.
func gooseExtension(e Entry, before map[string]any) map[string]any {
	args := make([]any, len(e.Args))
	for i, a := range e.Args {
		args[i] = a
	}
	extension := map[string]any{"enabled": true, "envs": map[string]any{}, "env_keys": []any{}, "timeout": 3600}
	maps.Copy(extension, before)
	maps.Copy(extension, map[string]any{
		"type": "stdio", "name": gooseDeveloper, "description": "gander's developer tools", "cmd": e.Command, "args": args, "bundled": nil,
	})
	return extension
}

// gooseLines is the entry's extension as text, not indented.
func gooseLines(e Entry, extension map[string]any) ([]string, error) {
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = strconv.Quote(a)
	}
	own := map[string]string{
		"type": "stdio", "name": gooseDeveloper + "  # the tools' names begin with it", "description": "gander's developer tools",
		"cmd": strconv.Quote(e.Command), "args": "[" + strings.Join(args, ", ") + "]",
	}
	keys := []string{"enabled", "type", "name", "description", "cmd", "args", "envs", "env_keys", "timeout", "bundled"}
	for _, key := range slices.Sorted(maps.Keys(extension)) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	lines := []string{quoteKey(e.Name) + ":"}
	for _, key := range keys {
		value, ok := own[key]
		if !ok {
			text, err := json.Marshal(extension[key]) // which is YAML on one line
			if err != nil {
				return nil, fmt.Errorf("%s of its extension %s is written in an unusual way; put the entry in by hand, as gander config goose prints it", key, e.Name)
			}
			value = string(text)
		}
		if key == "timeout" {
			value += "  # seconds, for one tool call"
		}
		lines = append(lines, "  "+quoteKey(key)+": "+value)
	}
	return lines, nil
}

func developerLines() []string {
	return []string{
		gooseDeveloper + ":",
		"  enabled: false",
		"  type: platform",
		"  name: " + gooseDeveloper,
		"  description: " + strconv.Quote(gooseOff),
		"  bundled: true",
	}
}

func quoteKey(key string) string {
	for _, c := range key {
		if c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return strconv.Quote(key)
		}
	}
	return key
}

// gooseWant is what a configuration should mean with an extension of a name in it.
func gooseWant(meaning map[string]any, name string, extension map[string]any) map[string]any {
	want := clone(meaning)
	extensions, _ := want[gooseExtensions].(map[string]any)
	if extensions == nil {
		extensions = map[string]any{}
	}
	want[gooseExtensions] = extensions
	if developer, ok := extensions[gooseDeveloper].(map[string]any); ok {
		developer["enabled"] = false
	} else {
		extensions[gooseDeveloper] = map[string]any{
			"enabled": false, "type": "platform", "name": gooseDeveloper, "description": gooseOff, "bundled": true,
		}
	}
	extensions[name] = extension
	return want
}

// gooseWithout is what a configuration should mean without the entry, where goose's
// developer was off before and extensions were had.
func gooseWithout(meaning map[string]any, e Entry, off, had bool) map[string]any {
	want := clone(meaning)
	extensions := want[gooseExtensions].(map[string]any) // the entry is in it
	delete(extensions, e.Name)
	if developer, ok := extensions[gooseDeveloper].(map[string]any); ok && developer["description"] == gooseOff {
		if !off {
			delete(extensions, gooseDeveloper)
		}
	} else if ok && !off {
		developer["enabled"] = true
	}
	if len(extensions) == 0 {
		delete(want, gooseExtensions)
		if had {
			want[gooseExtensions] = nil
		}
	}
	return want
}

func clone(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if inner, ok := v.(map[string]any); ok {
			v = clone(inner)
		}
		out[k] = v
	}
	return out
}

// openExtensions makes sure that there is a block of extensions to put lines into.
func (y *yamlDocument) openExtensions() error {
	at := keyIndex(y.root, gooseExtensions)
	if at < 0 {
		if n := len(y.lines); n > 0 && y.lines[n-1] != "" {
			if y.carries {
				y.lines[n-1] += "\r"
			}
			y.lines = append(y.lines, "")
		}
		y.insert(len(y.lines)-1, []string{gooseExtensions + ":"})
		return y.again()
	}
	key, value := y.root.Content[at], y.root.Content[at+1]
	empty := len(value.Content) == 0
	switch {
	case value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && value.Anchor == "":
		return nil
	case value.Kind == yaml.MappingNode && empty && value.Line == key.Line && value.Anchor == "":
		line, before, rest := y.behind(value)
		if comment, ok := strings.CutPrefix(rest, "{}"); ok {
			y.lines[line] = strings.TrimRight(before+comment, " ")
			return y.again()
		}
	case value.Tag == "!!null" && value.Value == "":
		return nil
	}
	return errors.New("its extensions are not written one below the other; put the entry in by hand, as gander config goose prints it")
}

// insertExtension puts an extension before the others.
func (y *yamlDocument) insertExtension(lines []string) {
	at := keyIndex(y.root, gooseExtensions)
	key, value := y.root.Content[at], y.root.Content[at+1]
	indent := strings.Repeat(" ", key.Column+1)
	if len(value.Content) > 0 {
		indent = strings.Repeat(" ", value.Content[0].Column-1)
	}
	if keyIndex(value, gooseDeveloper) < 0 {
		lines = append(slices.Clone(lines), developerLines()...)
	}
	for i := range lines {
		lines[i] = indent + lines[i]
	}
	y.insert(key.Line, lines)
}

// switchDeveloper sets whether goose's own developer is on, where it is there.
func (y *yamlDocument) switchDeveloper(on bool) error {
	extensions := y.extensions()
	at := keyIndex(extensions, gooseDeveloper)
	if at < 0 {
		return nil
	}
	key, developer := extensions.Content[at], extensions.Content[at+1]
	if developer.Kind != yaml.MappingNode {
		return errors.New("its extension developer is not as goose writes it; put the entry in by hand, as gander config goose prints it")
	}
	i := keyIndex(developer, "enabled")
	if i < 0 && developer.Style&yaml.FlowStyle == 0 && len(developer.Content) > 0 {
		y.insert(key.Line, []string{strings.Repeat(" ", developer.Content[0].Column-1) + "enabled: " + strconv.FormatBool(on)})
		return y.again()
	}
	if i < 0 {
		return errors.New("its extension developer does not say whether it is enabled; put the entry in by hand, as gander config goose prints it")
	}
	value := developer.Content[i+1]
	line, before, rest := y.behind(value)
	rest, ok := strings.CutPrefix(rest, value.Value)
	if !ok {
		return errors.New("whether its extension developer is enabled is written in an unusual way; put the entry in by hand, as gander config goose prints it")
	}
	y.lines[line] = before + strconv.FormatBool(on) + rest
	return y.again()
}

func (y *yamlDocument) extensions() *yaml.Node {
	if at := keyIndex(y.root, gooseExtensions); at >= 0 {
		return y.root.Content[at+1]
	}
	return &yaml.Node{Kind: yaml.MappingNode}
}

// entry is what an extension means; nil when there is none.
func (y *yamlDocument) entry(name string) map[string]any {
	extensions, _ := y.meaning[gooseExtensions].(map[string]any)
	entry, _ := extensions[name].(map[string]any)
	return entry
}

// has reports whether there is an extension of a name, whatever it is.
func (y *yamlDocument) has(name string) bool {
	extensions, _ := y.meaning[gooseExtensions].(map[string]any)
	_, ok := extensions[name]
	return ok
}
