package analyze

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A node of the current graph is one definition, or the top level of a file.
type node struct {
	file *file
	name string
	line int
}

func (n node) label() string { return fmt.Sprintf("%s:%s:%d", n.file.name, n.name, n.line) }

func compareNodes(a, b node) int {
	return cmp.Or(comparePaths(a.file.name, b.file.name), cmp.Compare(a.line, b.line), strings.Compare(a.name, b.name))
}

// currentGraph knows who calls whom. A name is looked for in the caller's own
// file, then in all files of the language.
type currentGraph struct {
	definitions map[string][]node // by name
	callers     map[node][]node
	callees     map[node][]node
}

func newCurrentGraph(all []*file) *currentGraph {
	g := &currentGraph{definitions: map[string][]node{}, callers: map[node][]node{}, callees: map[node][]node{}}
	for _, f := range all {
		for _, s := range slices.Concat(f.funcs, f.types) {
			if s.to.has(currentOnly) {
				g.definitions[s.name] = append(g.definitions[s.name], node{f, s.name, s.line})
			}
		}
	}
	type edge struct{ from, to node }
	edges := map[edge]bool{}
	for _, f := range all {
		for _, c := range f.calls {
			if !c.to.has(currentOnly) {
				continue
			}
			from := node{f, module, 0}
			if c.caller >= 0 {
				from = node{f, f.funcs[c.caller].name, f.funcs[c.caller].line}
			}
			for _, to := range g.meant(f, c.callee) {
				edges[edge{from, to}] = true
			}
		}
	}
	for e := range edges {
		g.callers[e.to] = append(g.callers[e.to], e.from)
		g.callees[e.from] = append(g.callees[e.from], e.to)
	}
	for _, neighbours := range []map[node][]node{g.callers, g.callees} {
		for n := range neighbours {
			slices.SortFunc(neighbours[n], compareNodes)
		}
	}
	return g
}

// meant are the definitions that a name in a file can stand for: the last one in
// the file itself, else all of its language.
func (g *currentGraph) meant(f *file, name string) []node {
	var local *node
	var family []node
	for _, d := range g.definitions[name] {
		if d.file == f && (local == nil || d.line >= local.line) {
			local = &d
		}
		if d.file.family == f.family {
			family = append(family, d)
		}
	}
	if local != nil {
		return []node{*local}
	}
	return family
}

// paths are the ways from a definition along the calls, as far as depth calls go,
// no definition twice but the first (a function may call itself).
func paths(ctx context.Context, from node, next map[node][]node, depth uint32, limit int) (all [][]node) {
	path := []node{from}
	var walk func()
	walk = func() {
		last, grown := path[len(path)-1], false
		if uint32(len(path)) <= depth {
			for _, n := range next[last] {
				if len(path) > 1 && slices.Contains(path, n) {
					continue
				}
				if len(all) >= limit || ctx.Err() != nil {
					return
				}
				grown = true
				path = append(path, n)
				walk()
				path = path[:len(path)-1]
			}
		}
		if !grown && len(path) > 1 {
			all = append(all, slices.Clone(path))
		}
	}
	walk()
	return all
}

func currentFocus(ctx context.Context, r Request, all []*file) (string, error) {
	parsed, _, _ := currentFiles(r, all)
	g := newCurrentGraph(parsed)
	definitions := g.definitions[r.Focus]
	if len(definitions) == 0 {
		return fmt.Sprintf("Symbol '%s' not found in %d analyzed files.\n", r.Focus, len(parsed)), nil
	}
	slices.SortFunc(definitions, compareNodes)
	refs := 0
	var b strings.Builder
	for _, d := range definitions {
		refs += len(g.callers[d]) + len(g.callees[d])
	}
	fmt.Fprintf(&b, "FOCUS: %s (%d defs, %d refs)\n\n", r.Focus, len(definitions), refs)
	for _, d := range definitions {
		fmt.Fprintf(&b, "DEF %s\n", d.label())
	}
	b.WriteString("\n")
	g.writeDirection(ctx, &b, "IN:", definitions, g.callers, r.FollowDepth)
	g.writeDirection(ctx, &b, "OUT:", definitions, g.callees, r.FollowDepth)
	fmt.Fprintf(&b, "%d files analyzed\n", len(parsed))
	return b.String(), ctx.Err()
}

func (g *currentGraph) writeDirection(ctx context.Context, b *strings.Builder, title string, from []node, next map[node][]node, depth uint32) {
	chains := map[string][]string{}
	for _, d := range from {
		for _, path := range paths(ctx, d, next, depth, maxChains-len(chains)) {
			var labels []string
			for _, n := range path {
				labels = append(labels, n.label())
			}
			chains[strings.Join(labels, " → ")] = labels
		}
	}
	if len(chains) == 0 {
		return
	}
	b.WriteString(title + "\n")
	writeGrouped(b, chains)
	if len(chains) >= maxChains {
		b.WriteString("  (there are more: ask for a smaller follow_depth)\n")
	}
	b.WriteString("\n")
}

// writeGrouped writes chains in order; neighbours that differ in their last link
// only share a line.
func writeGrouped(b *strings.Builder, chains map[string][]string) {
	order := slices.Sorted(maps.Keys(chains))
	for len(order) > 0 {
		head := chains[order[0]]
		before := head[:len(head)-1]
		n := 1
		for n < len(order) && len(chains[order[n]]) == len(head) && slices.Equal(chains[order[n]][:len(before)], before) {
			n++
		}
		if n == 1 {
			b.WriteString("  " + order[0] + "\n")
		} else {
			b.WriteString("  " + strings.Join(before, " → ") + "\n")
			for _, key := range order[:n] {
				labels := chains[key]
				b.WriteString("    → " + labels[len(labels)-1] + "\n")
			}
		}
		order = order[n:]
	}
}
