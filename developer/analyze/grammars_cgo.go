//go:build cgo

package analyze

import (
	"embed"
	"unsafe"

	swift "github.com/alexaandru/go-sitter-forest/swift"
	kotlin "github.com/tree-sitter-grammars/tree-sitter-kotlin/bindings/go"
	csharp "github.com/tree-sitter/tree-sitter-c-sharp/bindings/go"
	c "github.com/tree-sitter/tree-sitter-c/bindings/go"
	cpp "github.com/tree-sitter/tree-sitter-cpp/bindings/go"
	java "github.com/tree-sitter/tree-sitter-java/bindings/go"
	javascript "github.com/tree-sitter/tree-sitter-javascript/bindings/go"
	php "github.com/tree-sitter/tree-sitter-php/bindings/go"
	python "github.com/tree-sitter/tree-sitter-python/bindings/go"
	ruby "github.com/tree-sitter/tree-sitter-ruby/bindings/go"
	rust "github.com/tree-sitter/tree-sitter-rust/bindings/go"
	typescript "github.com/tree-sitter/tree-sitter-typescript/bindings/go"
)

//go:embed queries/*.scm
var queries embed.FS

// grammars are the languages that tree-sitter parses: the tag, which other
// languages its code calls, the grammar, and the queries that are run on it.
func grammars() []*language {
	rows := []struct {
		name, family string
		grammar      func() unsafe.Pointer
		queries      []string
	}{
		{"c", "c", c.Language, []string{"c"}},
		{"cpp", "c", cpp.Language, []string{"c", "cpp"}},
		{"csharp", "", csharp.Language, []string{"csharp"}},
		{"java", "java", java.Language, []string{"java"}},
		{"javascript", "javascript", javascript.Language, []string{"ecma", "jsx", "javascript"}},
		{"kotlin", "java", kotlin.Language, []string{"kotlin"}},
		{"php", "", php.LanguagePHP, []string{"php"}},
		{"python", "", python.Language, []string{"python"}},
		{"ruby", "", ruby.Language, []string{"ruby"}},
		{"rust", "", rust.Language, []string{"rust"}},
		{"swift", "", swift.GetLanguage, []string{"swift"}},
		{"tsx", "javascript", typescript.LanguageTSX, []string{"ecma", "jsx", "typescript"}},
		{"typescript", "javascript", typescript.LanguageTypescript, []string{"ecma", "typescript"}},
	}
	var all []*language
	for _, row := range rows {
		g := &grammar{name: row.name, load: row.grammar, queries: row.queries}
		all = append(all, &language{name: row.name, family: row.family, newParser: g.newParser})
	}
	return all
}
