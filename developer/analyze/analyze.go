// Package analyze tells how source code is made up: the functions, types and
// imports of a file, an overview of a directory, and who calls whom around a
// symbol.
//
// [New] makes an [Analyzer], [Analyzer.Classic] and [Analyzer.Current] answer in
// the words of two generations of goose. An Analyzer may be used concurrently; it
// keeps what it learned about a file for as long as the file's content stays the
// same, within a bound.
//
// Files come from strangers. What cannot be parsed (binary, too large, in a
// language without a parser, too slow) is named in the answer and stops nothing;
// what is broken is analysed as far as it goes. Parsers never recurse on the depth
// of the source, and are given up when their time is over.
//
// Go is read by go/parser, the other languages by tree-sitter, which needs cgo:
// without it [Analyzer.Missing] says what is lacking.
//
// # Adding a language
//
// Add its grammar's module and one row to grammars, and write what is worth
// knowing about it as queries/<name>.scm (queries/README names the captures).
// Where it is written with another extension, add that to tags.
package analyze

import (
	"cmp"
	"log/slog"
	"runtime"
	"time"
)

// Options bound the work. The zero value is ready to use.
type Options struct {
	// Workers is how many files are parsed at once; 0 means one for every CPU.
	Workers int
	// FileBytes is the largest file that is parsed; 0 means 1 MiB.
	FileBytes int64
	// FileTime is how long one file may take; 0 means 5 s.
	FileTime time.Duration
	// CacheSymbols is how many functions, types, calls and the like are remembered
	// over all files; 0 means a million, which is below 200 MB.
	CacheSymbols int
	// Log gets what went wrong with single files; nil means none.
	Log *slog.Logger
}

// An Analyzer parses source code.
type Analyzer struct {
	o         Options
	languages map[string]*language // by tag
	cache     *cache
	runaways  runaways
}

// New makes an analyser. Grammars are loaded when they are first needed.
func New(o Options) *Analyzer {
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.FileBytes = cmp.Or(o.FileBytes, 1<<20)
	o.FileTime = cmp.Or(o.FileTime, 5*time.Second)
	o.CacheSymbols = cmp.Or(o.CacheSymbols, 1_000_000)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Analyzer{o: o, languages: map[string]*language{}, cache: newCache(o.CacheSymbols)}
	for _, l := range languages() {
		a.languages[l.name] = l
	}
	return a
}

// A Request is one question. The path is absolute and there.
type Request struct {
	Path string
	// Dir says that the path is a directory.
	Dir bool
	// Focus is the symbol whose callers and callees are asked for; empty asks for
	// an overview.
	Focus string
	// FollowDepth is how many calls a chain may have, MaxDepth how many levels of
	// directories are visited; MaxDepth 0 means all.
	FollowDepth, MaxDepth uint32
	// Force allows large answers.
	Force bool
}

// Missing names the languages that this build cannot parse, sorted.
func (a *Analyzer) Missing() []string { return missing() }

// Wait returns when no parser is at work any more that was given up because it took
// too long. A program that ends need not wait.
func (a *Analyzer) Wait() { a.runaways.wait() }
