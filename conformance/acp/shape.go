package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a message may have against it. They go to different checks.
type objection int

const (
	misshapen objection = iota // not what the schema says
	ownField                   // a field that no version of the protocol has
	badPath                    // a path that is not absolute, a line 0
)

// A grammar is the shapes, read.
type grammar map[string]shape

// A shape is an object or a union of them.
type shape struct {
	fields map[string]field
	open   bool // any object
	// tag is the field that says which branch of a union it is.
	tag      string
	branches map[string]string
	// with ?, the branch is the second where the field is there, else the first.
	either []string
}

type field struct {
	required bool
	kind     string
}

// readShapes reads the notation. A mistake in it is one of this package.
func readShapes(text string) grammar {
	g := grammar{}
	for line := range strings.Lines(text) {
		head, body, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		name, tag, union := strings.Cut(head, " by ")
		s := shape{fields: map[string]field{}, branches: map[string]string{}}
		for part := range strings.SplitSeq(body, ",") {
			part = strings.TrimSpace(part)
			word, kind, _ := strings.Cut(part, " ")
			switch {
			case part == "":
			case part == "*":
				s.open = true
			case union && strings.HasSuffix(tag, "?"):
				s.tag, s.either = strings.TrimSuffix(tag, "?"), append(s.either, part)
			case union:
				s.tag, s.branches[word] = tag, kind
			default:
				s.fields[strings.TrimSuffix(word, "!")] = field{strings.HasSuffix(word, "!"), kind}
			}
		}
		g[name] = s
	}
	return g
}

// A judge holds values against a grammar.
type judge struct {
	grammar grammar
	object  func(kind objection, where, what string)
}

// message judges a text that has to have a shape.
func (j judge) message(text []byte, shape string) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		v = nil
	}
	j.value(v, shape, "")
}

var integer = regexp.MustCompile(`^-?\d+$`)

// value judges one value of a kind.
func (j judge) value(v any, kind, where string) {
	bare, nullable := strings.CutSuffix(kind, "?")
	switch {
	case v == nil && nullable || bare == "any":
	case strings.HasPrefix(bare, "["):
		j.list(v, strings.TrimSuffix(bare[1:], "]"), where)
	case strings.HasPrefix(bare, "("):
		if word, ok := v.(string); !ok || !slices.Contains(strings.Split(strings.Trim(bare, "()"), "|"), word) {
			j.object(misshapen, where, fmt.Sprintf("is %s, want one of %s", brief(v), bare))
		}
	case j.scalar(v, bare, where):
	default:
		j.shape(v, bare, where)
	}
}

func (j judge) list(v any, kind, where string) {
	items, ok := v.([]any)
	if !ok {
		j.object(misshapen, where, "is "+brief(v)+", want a list")
	}
	for i, item := range items {
		j.value(item, kind, where+"["+strconv.Itoa(i)+"]")
	}
}

// scalar judges what is no shape, and says whether the kind was of that sort.
func (j judge) scalar(v any, kind, where string) bool {
	ok := false
	switch kind {
	case "string", "path":
		text, is := v.(string)
		if ok = is; is && kind == "path" && !isAbsolute(text) {
			j.object(badPath, where, fmt.Sprintf("is the path %q, which is not absolute", text))
		}
	case "bool":
		_, ok = v.(bool)
	case "number":
		_, ok = v.(json.Number)
	case "object":
		_, ok = v.(map[string]any)
	case "int", "uint16", "uint32", "uint64":
		ok = whole(v, kind)
		if n, is := v.(json.Number); is && kind == "uint32" && n == "0" && strings.HasSuffix(where, "line") {
			j.object(badPath, where, "is line 0; lines count from 1")
		}
	default:
		return false
	}
	if !ok {
		j.object(misshapen, where, "is "+brief(v)+", want "+kind)
	}
	return true
}

func isAbsolute(name string) bool {
	return path.IsAbs(name) || len(name) > 2 && name[1] == ':' && (name[2] == '\\' || name[2] == '/') || strings.HasPrefix(name, `\\`)
}

// whole says whether a value is an integer of a kind.
func whole(v any, kind string) bool {
	n, ok := v.(json.Number)
	if !ok || !integer.MatchString(n.String()) {
		return false
	}
	bits, unsigned := strings.CutPrefix(kind, "uint")
	if !unsigned {
		_, err := strconv.ParseInt(n.String(), 10, 64)
		return err == nil
	}
	size, _ := strconv.Atoi(bits)
	_, err := strconv.ParseUint(n.String(), 10, size)
	return err == nil
}

// shape judges an object.
func (j judge) shape(v any, name, where string) {
	object, ok := v.(map[string]any)
	if !ok {
		j.object(misshapen, where, "is "+brief(v)+", want an object")
		return
	}
	s := j.grammar[name]
	switch {
	case s.open:
	case s.either != nil:
		branch := s.either[0]
		if _, there := object[s.tag]; there {
			branch = s.either[1]
		}
		j.shape(v, branch, where)
	case s.tag != "":
		tag, _ := object[s.tag].(string)
		branch := s.branches[tag]
		if branch == "" {
			j.object(misshapen, where+"."+s.tag, "is "+brief(object[s.tag])+", which is none of the protocol's")
			return
		}
		j.shape(v, branch, where)
	default:
		j.fields(object, s, where)
	}
}

func (j judge) fields(object map[string]any, s shape, where string) {
	for name, f := range s.fields {
		v, there := object[name]
		switch {
		case there:
			j.value(v, f.kind, where+"."+name)
		case f.required:
			j.object(misshapen, where+"."+name, "is missing")
		}
	}
	for name, v := range object {
		if _, known := s.fields[name]; known {
			continue
		}
		if name != "_meta" {
			j.object(ownField, where+"."+name, "is no field of the protocol; what is one's own goes into _meta")
		} else if _, ok := v.(map[string]any); !ok && v != nil {
			j.object(misshapen, where+"._meta", "is "+brief(v)+", want an object")
		}
	}
}

// brief is a value for people.
func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const enough = 60
	if len(text) > enough {
		return string(text[:enough]) + "…"
	}
	return string(text)
}
