package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A node is a JSON value with its place, so that errors can point at it.
type node struct {
	offset  int
	end     int      // of its text
	value   any      // string, json.Number, bool or nil when neither an object nor an array
	members []member // of an object, in order
	items   []*node  // of an array
	kind    string   // "object", "array", "string", "number", "boolean", "null"
}

type member struct {
	key    string
	offset int // of the key
	value  *node
}

// get is the member of that name, or nil.
func (n *node) get(key string) *node {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// maxDepth bounds the recursion; the format needs four levels.
const maxDepth = 50

// A parser reads JSON into nodes.
type parser struct {
	data []byte
	dec  *json.Decoder
}

// parse reads one JSON value. Its errors are *Error with a position but no File.
func parse(data []byte) (*node, error) {
	p := parser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	root, err := p.value(0)
	if err == nil {
		end := p.start()
		if _, extra := p.dec.Token(); !errors.Is(extra, io.EOF) {
			err = p.errorAt(end, "JSON: more text after the end of the value")
		}
	}
	return root, err
}

// start is where the next token begins.
func (p *parser) start() int {
	at := int(p.dec.InputOffset())
	for at < len(p.data) && bytes.IndexByte([]byte(" \t\r\n,:"), p.data[at]) >= 0 {
		at++
	}
	return at
}

func (p *parser) value(depth int) (*node, error) {
	n := &node{offset: p.start()}
	err := p.fill(n, depth)
	n.end = int(p.dec.InputOffset())
	return n, err
}

// fill reads the value of a node.
func (p *parser) fill(n *node, depth int) error {
	if depth > maxDepth {
		return p.errorAt(n.offset, "JSON: nested too deeply")
	}
	token, err := p.token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return p.object(n, depth)
		}
		return p.array(n, depth)
	case string:
		n.kind, n.value = "string", t
	case json.Number:
		n.kind, n.value = "number", t
	case bool:
		n.kind, n.value = "boolean", t
	default:
		n.kind = "null"
	}
	return nil
}

func (p *parser) object(n *node, depth int) error {
	n.kind = "object"
	for p.dec.More() {
		offset := p.start()
		key, err := p.token()
		if err != nil {
			return err
		}
		name := key.(string) // the decoder has checked it
		if n.get(name) != nil {
			return p.errorAt(offset, fmt.Sprintf("JSON: the key %q is there twice", name))
		}
		value, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.members = append(n.members, member{name, offset, value})
	}
	_, err := p.token()
	return err
}

func (p *parser) array(n *node, depth int) error {
	n.kind = "array"
	for p.dec.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := p.token()
	return err
}

func (p *parser) token() (json.Token, error) {
	token, err := p.dec.Token()
	if err == nil {
		return token, nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, p.errorAt(max(p.start(), int(syntax.Offset)-1), "JSON: "+syntax.Error())
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, p.errorAt(len(p.data), "JSON: the text ends too early")
	}
	return nil, p.errorAt(p.start(), "JSON: "+err.Error())
}

func (p *parser) errorAt(offset int, reason string) error {
	e := &Error{Reason: reason}
	e.Line, e.Column = position(p.data, offset)
	return e
}

// position is the line and column, in characters, of an offset.
func position(data []byte, offset int) (line, column int) {
	before := data[:max(0, min(offset, len(data)))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}
