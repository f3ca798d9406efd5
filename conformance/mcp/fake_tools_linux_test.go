package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// fakeSchema makes a schema of parameters as checks_tools.go writes them.
func fakeSchema(parameters map[string]string) json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for name, kind := range parameters {
		kind, needed := strings.CutPrefix(kind, "+")
		if kind == "" {
			kind = "object"
		}
		property := map[string]any{"type": []string{kind, "null"}}
		if needed {
			property["type"] = kind
			required = append(required, name)
		}
		properties[name] = property
	}
	slices.Sort(required)
	return json.RawMessage(marshal(map[string]any{"type": "object", "properties": properties, "required": required}))
}

func (f *fake) inventory() []map[string]any {
	var names []string
	for name := range f.tools() {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []map[string]any
	for _, name := range names {
		p := map[string]string{}
		maps.Copy(p, parameters[f.profile][name])
		if name == "shell" {
			p["timeout_secs"] = "integer"
		}
		tool := map[string]any{"name": name, "description": "does " + name, "inputSchema": fakeSchema(p)}
		if name == "shell" && f.broken("claims the kernel") {
			tool["description"] = "does shell; the kernel keeps what .gooseignore names"
		}
		if name == "shell" && f.profile == Classic {
			tool["outputSchema"] = map[string]any{"type": "object", "properties": map[string]any{"exitCode": map[string]any{"type": "integer"}}}
		}
		all = append(all, tool)
	}
	if f.broken("changes its mind") && f.number > 0 {
		all[0]["description"] = "does something else"
	}
	return all
}

func (f *fake) tools() map[string]func(*fakeCall) (content, error) {
	if f.profile == Current {
		return map[string]func(*fakeCall) (content, error){
			"shell": (*fakeCall).shell, "write": (*fakeCall).currentWrite, "edit": (*fakeCall).currentEdit,
			"tree": (*fakeCall).tree, "read_image": (*fakeCall).readImage, "analyze": (*fakeCall).analyze,
		}
	}
	tools := map[string]func(*fakeCall) (content, error){
		"shell": (*fakeCall).shell, "text_editor": (*fakeCall).textEditor, "analyze": (*fakeCall).analyze,
		"image_processor": (*fakeCall).imageProcessor, "list_windows": (*fakeCall).listWindows, "screen_capture": (*fakeCall).screenCapture,
	}
	if f.broken("has no screen") {
		delete(tools, "screen_capture")
	}
	return tools
}

// fakeSyntax finds functions and types by their first words.
var fakeSyntax = map[string]struct{ function, class *regexp.Regexp }{
	".go":    {regexp.MustCompile(`^func (?:\([^)]*\) )?(\w+)\(([^)]*)\)`), regexp.MustCompile(`^type (\w+)`)},
	".py":    {regexp.MustCompile(`^ *def (\w+)(.*)`), regexp.MustCompile(`^class (\w+)`)},
	".rs":    {regexp.MustCompile(`^fn (\w+)(.*)`), nil},
	".js":    {regexp.MustCompile(`^function (\w+)(.*)`), nil},
	".ts":    {regexp.MustCompile(`^function (\w+)(.*)`), nil},
	".java":  {regexp.MustCompile(`^ *void (\w+)(.*)`), regexp.MustCompile(`^class (\w+)`)},
	".kt":    {regexp.MustCompile(`^fun (\w+)(.*)`), nil},
	".swift": {regexp.MustCompile(`^func (\w+)(.*)`), nil},
	".rb":    {regexp.MustCompile(`^def (\w+)(.*)`), nil},
}

// A fakeSymbol is a function or type.
type fakeSymbol struct {
	name, arguments string
	line            int
}

type fakeSource struct {
	rel              string
	lines            []string
	functions, types []fakeSymbol
}

func (c *fakeCall) source(path, rel string) (*fakeSource, bool) {
	syntax, known := fakeSyntax[filepath.Ext(path)]
	data, err := os.ReadFile(path)
	if !known || err != nil {
		return nil, false
	}
	s := &fakeSource{rel: rel}
	if !utf8.Valid(data) || len(data) == 0 {
		if c.broken("stumbles over broken files") {
			os.Exit(1)
		}
		return s, true
	}
	s.lines = strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i, line := range s.lines {
		n := i + 1
		if c.broken("counts lines from zero") {
			n = i
		}
		if m := syntax.function.FindStringSubmatch(line); m != nil && (!c.broken("knows no Swift") || filepath.Ext(path) != ".swift") {
			s.functions = append(s.functions, fakeSymbol{m[1], m[2], n})
		}
		if syntax.class != nil {
			if m := syntax.class.FindStringSubmatch(line); m != nil {
				s.types = append(s.types, fakeSymbol{m[1], "", n})
			}
		}
	}
	return s, true
}

// at is the function that a line is in.
func (s *fakeSource) at(line int) string {
	name := "<module>"
	for _, f := range s.functions {
		if f.line <= line {
			name = f.name
		}
	}
	return name
}

// callsOf are the lines with calls of a name.
func (s *fakeSource) callsOf(name string) []int {
	call := regexp.MustCompile(`\b` + name + `\(`)
	var lines []int
	for i, line := range s.lines {
		if call.MatchString(line) && !slices.ContainsFunc(s.functions, func(f fakeSymbol) bool { return f.line == i+1 }) {
			lines = append(lines, i+1)
		}
	}
	return lines
}

func (c *fakeCall) analyze() (content, error) {
	name, err := need[string](c, "path")
	if err != nil {
		return nil, err
	}
	path, err := c.path(name, invalidParams)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, invalid("Path '%s' does not exist", path)
	}
	depth, given, err := get[int](c, "max_depth")
	if err != nil {
		return nil, err
	}
	if !given {
		depth = 3
	}
	sources := c.walk(path, info, depth)
	focus, focused, _ := get[string](c, "focus")
	var t string
	switch {
	case focused:
		t = c.focus(sources, focus)
	case info.IsDir():
		t = c.structure(sources, depth)
	default:
		t = c.semantic(path, sources)
	}
	force, _, _ := get[bool](c, "force")
	if n := strings.Count(t, "\n"); n > 1000 && !force && !c.broken("shows any output") {
		return text(fmt.Sprintf("LARGE OUTPUT WARNING\n%d lines; set force=true", n)), nil
	}
	if c.profile == Current {
		return text(t), nil
	}
	return both(t, t, 0), nil
}

func (c *fakeCall) walk(root string, info fs.FileInfo, depth int) []*fakeSource {
	var all []*fakeSource
	if !info.IsDir() {
		if s, ok := c.source(root, filepath.Base(root)); ok {
			all = append(all, s)
		}
		return all
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		levels := strings.Count(rel, "/") + 1
		if err != nil || rel == "." {
			return err
		}
		if c.rules.ignored(path) && !c.broken("lists everything") {
			return nil
		}
		if d.IsDir() && depth > 0 && levels >= depth && !c.broken("knows no depth") {
			return fs.SkipDir
		}
		if s, ok := c.source(path, rel); ok && !d.IsDir() {
			all = append(all, s)
		}
		return nil
	})
	return all
}

func (c *fakeCall) structure(sources []*fakeSource, depth int) string {
	loc, f, k := 0, 0, 0
	byLanguage := map[string]int{}
	for _, s := range sources {
		loc, f, k = loc+len(s.lines), f+len(s.functions), k+len(s.types)
		byLanguage[fakeLanguages[filepath.Ext(s.rel)]] += len(s.lines)
	}
	total := max(1, loc)
	goShare, pyShare := byLanguage["go"]*100/total, byLanguage["python"]*100/total
	var b strings.Builder
	if c.profile == Current {
		fmt.Fprintf(&b, "%d files, %dL, %dF, %dC (depth=%d)\ngo %d%% | python %d%%\n\n", len(sources), loc, f, k, depth, goShare, pyShare)
	} else {
		fmt.Fprintf(&b, "SUMMARY:\nShown: %d files, %dL, %dF, %dC (max_depth=%d)\nLanguages: go (%d%%), python (%d%%)\n\nPATH [LOC, FUNCTIONS, CLASSES] <FLAGS>\n", len(sources), loc, f, k, depth, goShare, pyShare)
	}
	for _, s := range sources {
		dir := filepath.Dir(s.rel)
		indent := ""
		if dir != "." {
			fmt.Fprintf(&b, "%s/\n", dir)
			indent = "  "
		}
		fmt.Fprintf(&b, "%s%s [%dL, %dF, %dC]", indent, filepath.Base(s.rel), len(s.lines), len(s.functions), len(s.types))
		for _, fn := range s.functions {
			if fn.name == "main" {
				fmt.Fprintf(&b, " main:%d", fn.line)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (c *fakeCall) semantic(path string, sources []*fakeSource) string {
	var b strings.Builder
	for _, s := range sources {
		if c.profile == Current {
			fmt.Fprintf(&b, "%s [%dL, %dF, %dC]\n\nC:", s.rel, len(s.lines), len(s.functions), len(s.types))
		} else {
			fmt.Fprintf(&b, "FILE: %s [%dL, %dF, %dC]\n\nC:", path, len(s.lines), len(s.functions), len(s.types))
		}
		for _, k := range s.types {
			fmt.Fprintf(&b, " %s:%d", k.name, k.line)
		}
		b.WriteString("\nF:")
		for _, f := range s.functions {
			arguments := ""
			if c.profile == Current && f.arguments != "" {
				arguments = "(" + f.arguments + ")"
			}
			fmt.Fprintf(&b, " %s%s:%d", f.name, arguments, f.line)
			if n := len(s.callsOf(f.name)); n > 3 {
				fmt.Fprintf(&b, "•%d", n)
			}
		}
		b.WriteString("\n\nI: imports\n")
	}
	return b.String()
}

func (c *fakeCall) focus(sources []*fakeSource, symbol string) string {
	var definitions, in, out []string
	for _, s := range sources {
		for _, f := range s.functions {
			if f.name != symbol {
				continue
			}
			definitions = append(definitions, fmt.Sprintf("%s:%d - %s", s.rel, f.line, symbol))
			for _, g := range []string{"Println"} {
				for _, line := range s.callsOf(g) {
					if s.at(line) == symbol {
						out = append(out, fmt.Sprintf("%s:%d (%s -> %s)", s.rel, line, symbol, g))
					}
				}
			}
		}
		for _, line := range s.callsOf(symbol) {
			chain := fmt.Sprintf("%s:%d (%s -> %s)", s.rel, line, s.at(line), symbol)
			for _, up := range s.callsOf(s.at(line)) {
				chain = fmt.Sprintf("%s:%d (%s -> %s) -> %s", s.rel, up, s.at(up), s.at(line), chain)
			}
			in = append(in, chain)
		}
	}
	if len(definitions)+len(in) == 0 {
		return "Symbol '" + symbol + "' not found in any analyzed files."
	}
	if c.profile == Current {
		return fmt.Sprintf("FOCUS: %s (1 defs, 2 refs)\n\nDEF main.go:helper:22\n\nIN:\n  main.go:helper:22 → main.go:Run:17 → main.go:main:26\n\n%d files analyzed\n", symbol, len(sources))
	}
	return fmt.Sprintf("FOCUSED ANALYSIS: %s\n\nDEFINITIONS:\n%s\n\nINCOMING CALL CHAINS (depth=2):\n%s\n\nOUTGOING CALL CHAINS (depth=2):\n%s\n\nSTATISTICS:\n  Files analyzed: %d\n  Definitions found: %d\n  Follow depth: 2\n",
		symbol, strings.Join(definitions, "\n"), strings.Join(in, "\n"), strings.Join(out, "\n"), len(sources), len(definitions))
}

// load reads an image.
func (c *fakeCall) load(name string) (image.Image, string, error) {
	path, err := c.path(name, internalError)
	if err != nil {
		return nil, "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, "", internal("File '%s' does not exist", path)
	case info.Size() > 10<<20 && !c.broken("takes any image"):
		return nil, "", internal("File '%s' is too large (%.2fMB). Maximum size is 10MB.", path, float64(info.Size())/(1<<20))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, "", internal("Failed to open image file: %v", err)
	}
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil || c.broken("knows PNG only") && !bytes.HasPrefix(data, []byte("\x89PNG")) {
		return nil, "", internal("Failed to open image file: %v", err)
	}
	return img, path, nil
}

func (c *fakeCall) imageProcessor() (content, error) {
	name, err := need[string](c, "path")
	if err != nil {
		return nil, err
	}
	img, path, err := c.load(name)
	if err != nil {
		return nil, err
	}
	if b := img.Bounds(); max(b.Dx(), b.Dy()) > 1024 && !c.broken("scales nothing") {
		longer := max(b.Dx(), b.Dy())
		small := image.NewRGBA(image.Rect(0, 0, b.Dx()*1024/longer, b.Dy()*1024/longer))
		draw.Draw(small, small.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
		img = small
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		return nil, internal("%v", err)
	}
	return content{"content": []any{
		map[string]any{"type": "text", "text": "Successfully processed image from " + path, "annotations": map[string]any{"audience": []string{"assistant"}}},
		map[string]any{"type": "image", "data": base64.StdEncoding.EncodeToString(b.Bytes()), "mimeType": "image/jpeg", "annotations": map[string]any{"priority": 0.0}},
	}}, nil
}

func (c *fakeCall) listWindows() (content, error) {
	if c.broken("lists no windows") {
		return text("none"), nil
	}
	return both("Available windows:\nterminal", "Available windows:\nterminal", 0), nil
}

func (c *fakeCall) screenCapture() (content, error) {
	if _, _, err := get[uint64](c, "display"); err != nil {
		return nil, err
	}
	if c.broken("captures anything") {
		return text("Screenshot captured"), nil
	}
	return nil, internal("Failed to access monitors")
}

func plain(s string) content {
	return content{"content": []any{map[string]any{"type": "text", "text": s, "annotations": map[string]any{"priority": 0.0}}}}
}

func (c *fakeCall) currentWrite() (content, error) {
	name, err := need[string](c, "path")
	if err != nil {
		return nil, err
	}
	data, err := need[string](c, "content")
	if err != nil {
		return nil, err
	}
	path, err := c.path(name, internalError)
	if err != nil {
		return nil, err
	}
	if err := c.confined(name, path); err != nil {
		return nil, err
	}
	verb := "Created"
	if _, err := os.Stat(path); err == nil {
		verb = "Wrote"
	}
	if c.broken("normalises what it writes") {
		data = lf(data)
	}
	if err := c.save(path, data); err != nil {
		return nil, err
	}
	return plain(fmt.Sprintf("%s %s (%d lines)", verb, path, len(strings.Split(strings.TrimSuffix(data, "\n"), "\n")))), nil
}

func (c *fakeCall) currentEdit() (content, error) {
	name, err := need[string](c, "path")
	if err != nil {
		return nil, err
	}
	before, _, _ := get[string](c, "before")
	after, _, _ := get[string](c, "after")
	path, err := c.path(name, internalError)
	if err != nil {
		return nil, err
	}
	if err := c.confined(name, path); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, invalid("%v", err)
	}
	switch n := strings.Count(string(data), before); {
	case n == 0:
		return nil, invalid("No match found for the specified text.")
	case n > 1 && !c.broken("edits the first of many"):
		return nil, invalid("Found %d matches. Give more context.", n)
	}
	if err := c.save(path, strings.Replace(string(data), before, after, 1)); err != nil {
		return nil, err
	}
	return plain("Edited " + path + " (3 lines -> 4 lines)"), nil
}

func (c *fakeCall) tree() (content, error) {
	name, err := need[string](c, "path")
	if err != nil {
		return nil, err
	}
	path, err := c.path(name, internalError)
	if err != nil {
		return nil, err
	}
	depth, given, _ := get[int](c, "depth")
	if !given {
		depth = 2
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, invalid("Path does not exist: %s", path)
	case !info.IsDir():
		return nil, invalid("Path is not a directory: %s", path)
	}
	skip, _ := os.ReadFile(filepath.Join(path, ".gitignore"))
	var b strings.Builder
	c.branch(&b, path, "", 1, depth, strings.Fields(string(skip)))
	return plain(b.String()), nil
}

func (c *fakeCall) branch(b *strings.Builder, dir, indent string, level, depth int, skip []string) {
	entries, _ := os.ReadDir(dir)
	for _, dirs := range []bool{true, false} {
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			hidden := c.rules.ignored(path) && !c.broken("lists everything") || slices.Contains(skip, e.Name()) && !c.broken("shows what git ignores")
			if e.IsDir() != dirs || hidden {
				continue
			}
			if !e.IsDir() {
				fmt.Fprintf(b, "%s%s  [1]\n", indent, e.Name())
				continue
			}
			fmt.Fprintf(b, "%s%s/  [1]\n", indent, e.Name())
			if depth == 0 || level < depth {
				c.branch(b, path, indent+"  ", level+1, depth, skip)
			}
		}
	}
}

func (c *fakeCall) readImage() (content, error) {
	name, err := need[string](c, "source")
	if err != nil {
		return nil, err
	}
	img, path, err := c.load(name)
	if err != nil {
		return nil, err
	}
	crop, given, _ := get[struct{ X, Y, Width, Height int }](c, "crop")
	width, height := img.Bounds().Dx(), img.Bounds().Dy()
	if given && !c.broken("crops nothing") {
		width, height = crop.Width, crop.Height
	}
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		return nil, internal("%v", err)
	}
	return content{
		"content": []any{
			map[string]any{"type": "text", "text": path},
			map[string]any{"type": "image", "data": base64.StdEncoding.EncodeToString(b.Bytes()), "mimeType": "image/png"},
		},
		"structuredContent": map[string]any{"width": width, "height": height, "mimeType": "image/png"},
	}, nil
}
