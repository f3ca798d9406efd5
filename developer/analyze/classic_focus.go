package analyze

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// maxChains bounds the search: who calls whom has exponentially many answers.
const maxChains = 20_000

// A step is one call of a chain.
type step struct {
	file     *file
	line     int
	from, to string
}

// classicGraph knows calls by name alone, as classic goose did: functions of one
// name are one function, whatever file or type they are in.
type classicGraph struct {
	callers, callees map[string][]step
	definitions      []step // of the focus
}

func newClassicGraph(all []*file, focus string) *classicGraph {
	g := &classicGraph{callers: map[string][]step{}, callees: map[string][]step{}}
	for _, f := range all {
		for _, s := range slices.Concat(f.funcs, f.types) {
			if s.name == focus && s.to.has(classicOnly) {
				g.definitions = append(g.definitions, step{file: f, line: s.line})
			}
		}
		for _, c := range f.calls {
			if !c.to.has(classicOnly) {
				continue
			}
			s := step{f, c.line, f.callerName(c), c.callee}
			g.callers[s.to] = append(g.callers[s.to], s)
			if s.from != module {
				g.callees[s.from] = append(g.callees[s.from], s)
			}
		}
		for _, r := range f.refs {
			if r.kind != methodOf {
				g.callers[r.name] = append(g.callers[r.name], step{f, r.line, "<reference>", r.name})
			}
		}
	}
	return g
}

// A chain is a row of calls from the outermost caller to the innermost callee.
type chain []step

// chains follows the calls from a symbol, breadth first, every symbol once. next
// are the calls to follow, far is the symbol at their other end, and grow adds a
// call to a chain.
func chains(ctx context.Context, focus string, depth uint32, next map[string][]step, far func(step) string, grow func(chain, step) chain) (done []chain) {
	type pending struct {
		symbol string
		chain  chain
	}
	var queue []pending
	seen := map[string]bool{}
	follow := func(symbol string, path chain) {
		for _, s := range next[symbol] {
			longer := grow(path, s)
			if uint32(len(longer)) >= depth {
				done = append(done, longer)
			} else {
				queue = append(queue, pending{far(s), longer})
			}
		}
	}
	if depth > 0 {
		follow(focus, nil)
	}
	for ; len(queue) > 0 && len(done)+len(queue) < maxChains && ctx.Err() == nil; queue = queue[1:] {
		head := queue[0]
		if seen[head.symbol] || next[head.symbol] == nil {
			done = append(done, head.chain)
			continue
		}
		seen[head.symbol] = true
		follow(head.symbol, head.chain)
	}
	for _, rest := range queue {
		done = append(done, rest.chain)
	}
	return done
}

func (g *classicGraph) incoming(ctx context.Context, focus string, depth uint32) []chain {
	return chains(ctx, focus, depth, g.callers, func(s step) string { return s.from },
		func(c chain, s step) chain { return append(chain{s}, c...) })
}

func (g *classicGraph) outgoing(ctx context.Context, focus string, depth uint32) []chain {
	return chains(ctx, focus, depth, g.callees, func(s step) string { return s.to },
		func(c chain, s step) chain { return append(slices.Clone(c), s) })
}

func classicFocus(ctx context.Context, r Request, all []*file) (string, error) {
	files := slices.DeleteFunc(slices.Clone(all), func(f *file) bool { return f.tag == "" })
	g := newClassicGraph(files, r.Focus)
	in, out := g.incoming(ctx, r.Focus, r.FollowDepth), g.outgoing(ctx, r.Focus, r.FollowDepth)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var b strings.Builder
	if !r.Dir {
		b.WriteString("NOTE: Focus mode works best with directory paths. Use a parent directory in the path for cross-file analysis.\n\n")
	}
	if len(g.definitions) == 0 && len(in) == 0 && len(out) == 0 {
		fmt.Fprintf(&b, "Symbol '%s' not found in any analyzed files.\n", r.Focus)
		return b.String(), nil
	}
	involved := involvedFiles(g.definitions, in, out)
	fmt.Fprintf(&b, "FOCUSED ANALYSIS: %s\n\n", r.Focus)
	if len(g.definitions) > 0 {
		b.WriteString("DEFINITIONS:\n")
		for _, d := range g.definitions {
			fmt.Fprintf(&b, "%s:%d - %s\n", involved.short[d.file], d.line, r.Focus)
		}
		b.WriteString("\n")
	}
	writeChains(&b, "INCOMING", r.FollowDepth, in, involved)
	writeChains(&b, "OUTGOING", r.FollowDepth, out, involved)
	fmt.Fprintf(&b, "STATISTICS:\n  Files analyzed: %d\n  Definitions found: %d\n  Incoming chains: %d\n  Outgoing chains: %d\n  Follow depth: %d\n",
		len(files), len(g.definitions), len(in), len(out), r.FollowDepth)
	if len(in)+len(out) >= maxChains {
		b.WriteString("  (there are more chains: ask for a smaller follow_depth)\n")
	}
	b.WriteString("\nFILES:\n")
	if len(involved.order) > 1 {
		for _, f := range involved.order {
			fmt.Fprintf(&b, "  %s: %s\n", involved.short[f], f.path)
		}
	}
	return b.String(), nil
}

// aliases are the files of an answer and their short names, in the order of these.
type aliases struct {
	order []*file
	short map[*file]string
}

func involvedFiles(definitions []step, chains ...[]chain) aliases {
	a := aliases{short: map[*file]string{}}
	for _, d := range definitions {
		a.short[d.file] = ""
	}
	for _, direction := range chains {
		for _, c := range direction {
			for _, s := range c {
				a.short[s.file] = ""
			}
		}
	}
	a.order = slices.SortedFunc(maps.Keys(a.short), func(a, b *file) int { return comparePaths(a.name, b.name) })
	for i, f := range a.order {
		a.short[f] = fmt.Sprintf("F%d", i+1)
	}
	if len(a.order) == 1 {
		a.short[a.order[0]] = filepath.Base(a.order[0].path)
	}
	return a
}

func writeChains(b *strings.Builder, title string, depth uint32, chains []chain, involved aliases) {
	if len(chains) == 0 {
		return
	}
	fmt.Fprintf(b, "%s CALL CHAINS (depth=%d):\n", title, depth)
	var lines []string
	for _, c := range chains {
		var steps []string
		for _, s := range c {
			steps = append(steps, fmt.Sprintf("%s:%d (%s -> %s)", involved.short[s.file], s.line, s.from, s.to))
		}
		lines = append(lines, strings.Join(steps, " -> "))
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(slices.Compact(lines), "\n") + "\n\n")
}
