//go:build cgo

package analyze

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	sitter "github.com/tree-sitter/go-tree-sitter"
)

// A grammar is loaded, and its queries are compiled, when a file first needs it.
type grammar struct {
	name    string
	load    func() unsafe.Pointer
	queries []string

	once     sync.Once
	language *sitter.Language
	query    *sitter.Query
	kinds    []captureKind // by the index of a capture
	err      error
}

func (g *grammar) newParser() (fileParser, error) {
	g.once.Do(func() { g.err = g.compile() })
	if g.err != nil {
		return nil, g.err
	}
	p := &treeSitter{g: g, parser: sitter.NewParser(), cursor: sitter.NewQueryCursor(), cancelled: new(uintptr)}
	if err := p.parser.SetLanguage(g.language); err != nil {
		p.close()
		return nil, fmt.Errorf("loading the grammar of %s: %w", g.name, err)
	}
	// C keeps the address: the flag may neither move nor go before the parser does.
	p.pinned.Pin(p.cancelled)
	//lint:ignore SA1019 the callback that replaces it leaks memory with every file
	p.parser.SetCancellationFlag(p.cancelled)
	return p, nil
}

func (g *grammar) compile() error {
	var text strings.Builder
	for _, name := range g.queries {
		source, err := queries.ReadFile("queries/" + name + ".scm")
		if err != nil {
			return err
		}
		text.Write(source)
	}
	g.language = sitter.NewLanguage(g.load())
	query, queryErr := sitter.NewQuery(g.language, text.String())
	if queryErr != nil {
		return fmt.Errorf("compiling the queries of %s: %w", g.name, queryErr)
	}
	runtime.AddCleanup(g, (*sitter.Query).Close, query)
	g.query = query
	for _, name := range query.CaptureNames() {
		kind, ok := captureKindOf(name)
		if !ok {
			return fmt.Errorf("compiling the queries of %s: there is no capture @%s", g.name, name)
		}
		g.kinds = append(g.kinds, kind)
	}
	return nil
}

// treeSitter is the parser of one goroutine.
type treeSitter struct {
	g         *grammar
	parser    *sitter.Parser
	cursor    *sitter.QueryCursor
	cancelled *uintptr // not 0: stop
	pinned    runtime.Pinner
}

func (p *treeSitter) close() {
	p.cursor.Close()
	p.parser.Close()
	p.pinned.Unpin()
}

func (p *treeSitter) parse(ctx context.Context, src []byte) (*facts, error) {
	atomic.StoreUintptr(p.cancelled, 0)
	stop := context.AfterFunc(ctx, func() { atomic.StoreUintptr(p.cancelled, 1) })
	defer stop()
	tree := p.parser.Parse(src, nil)
	if tree == nil {
		return nil, errTime
	}
	defer tree.Close()
	root := tree.RootNode()
	captures, err := p.captures(ctx, root, src)
	if err != nil {
		return nil, err
	}
	f := extract(src, captures)
	f.broken = root.HasError()
	return f, nil
}

// captures runs the query. The order of what it finds is of no importance.
func (p *treeSitter) captures(ctx context.Context, root *sitter.Node, src []byte) ([]capture, error) {
	if deadline, ok := ctx.Deadline(); ok {
		p.cursor.SetTimeoutMicros(uint64(max(1, time.Until(deadline).Microseconds())))
	}
	var found []capture
	matches := p.cursor.Matches(p.g.query, root, src)
	for match := matches.Next(); match != nil; match = matches.Next() {
		for i := range match.Captures {
			c := &match.Captures[i]
			if p.g.kinds[c.Index].role == roleNone {
				continue
			}
			start, end := uint32(c.Node.StartByte()), uint32(c.Node.EndByte())
			if start < end { // else the parser has put it where one is missing
				found = append(found, capture{p.g.kinds[c.Index], start, end})
			}
		}
	}
	if ctx.Err() != nil {
		return nil, errTime
	}
	return found, nil
}
