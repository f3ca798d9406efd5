//go:build cgo

package analyze

import (
	"context"
	goparser "go/parser"
	"go/token"
)

// parseOnly makes a tree and throws it away.
func parseOnly(_ context.Context, p fileParser, src []byte) {
	if t, ok := p.(*treeSitter); ok {
		if tree := t.parser.Parse(src, nil); tree != nil {
			tree.Close()
		}
		return
	}
	_, _ = goparser.ParseFile(token.NewFileSet(), "", src, goparser.SkipObjectResolution)
}
