package guard

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// run follows statements as a shell would run them, every branch of them.
func (c *checker) run(stmts []*syntax.Stmt, st *state, depth int) error {
	for _, s := range stmts {
		if err := c.statement(s, st, depth, nil); err != nil {
			return err
		}
	}
	return nil
}

// statement follows one. input is what is piped into it, where that is known.
func (c *checker) statement(s *syntax.Stmt, st *state, depth int, input []string) error {
	if s == nil {
		return nil
	}
	if s.Background || s.Coprocess {
		st = st.clone()
	}
	for _, r := range s.Redirs {
		fed, err := c.redirect(r, st, depth)
		if err != nil {
			return err
		}
		input = append(input, fed...)
	}
	return c.command(s.Cmd, st, depth, input)
}

// branch follows statements that may not run.
func (c *checker) branch(stmts []*syntax.Stmt, st *state, depth int) error {
	b := st.clone()
	err := c.run(stmts, b, depth)
	st.join(b)
	return err
}

func (c *checker) command(cmd syntax.Command, st *state, depth int, input []string) error {
	switch cmd := cmd.(type) {
	case nil:
		return nil
	case *syntax.CallExpr:
		return c.call(cmd, st, depth, input)
	case *syntax.Subshell:
		return c.run(cmd.Stmts, st.clone(), depth)
	case *syntax.Block:
		return c.run(cmd.Stmts, st, depth)
	case *syntax.BinaryCmd:
		return c.binary(cmd, st, depth, input)
	case *syntax.IfClause:
		return c.ifClause(cmd, st, depth)
	case *syntax.WhileClause:
		if err := c.run(cmd.Cond, st, depth); err != nil {
			return err
		}
		return c.branch(cmd.Do, st, depth)
	case *syntax.ForClause:
		return c.loop(cmd, st, depth)
	case *syntax.CaseClause:
		for _, item := range cmd.Items {
			if err := c.branch(item.Stmts, st, depth); err != nil {
				return err
			}
		}
		return c.within(cmd.Word, st, depth)
	case *syntax.FuncDecl:
		return c.statement(cmd.Body, st.clone(), depth, nil)
	case *syntax.DeclClause:
		return c.assign(cmd.Args, st, depth)
	case *syntax.TimeClause:
		return c.statement(cmd.Stmt, st, depth, input)
	case *syntax.CoprocClause:
		return c.statement(cmd.Stmt, st.clone(), depth, input)
	case *syntax.TestClause:
		return c.test(cmd, st, depth)
	}
	return c.within(cmd, st, depth) // arithmetic, and what other shells have
}

func (c *checker) binary(cmd *syntax.BinaryCmd, st *state, depth int, input []string) error {
	if cmd.Op != syntax.Pipe && cmd.Op != syntax.PipeAll {
		if err := c.statement(cmd.X, st, depth, input); err != nil {
			return err
		}
		return c.statement(cmd.Y, st, depth, nil)
	}
	if err := c.statement(cmd.X, st.clone(), depth, input); err != nil {
		return err
	}
	var fed []string
	for _, dir := range st.dirs {
		if text, ok := c.printed(cmd.X, st, dir); ok {
			fed = append(fed, text)
		}
	}
	return c.statement(cmd.Y, st.clone(), depth, fed)
}

func (c *checker) ifClause(cmd *syntax.IfClause, st *state, depth int) error {
	for ; cmd != nil; cmd = cmd.Else {
		if err := c.run(cmd.Cond, st, depth); err != nil {
			return err
		}
		if err := c.branch(cmd.Then, st, depth); err != nil {
			return err
		}
	}
	return nil
}

// loop follows a loop's body for every value of its variable.
func (c *checker) loop(cmd *syntax.ForClause, st *state, depth int) error {
	words, ok := cmd.Loop.(*syntax.WordIter)
	if !ok {
		return c.branch(cmd.Do, st, depth)
	}
	for _, w := range words.Items {
		if err := c.within(w, st, depth); err != nil {
			return err
		}
	}
	items, err := c.fields(words.Items, st, st.dirs[len(st.dirs)-1])
	if err != nil {
		return err
	}
	if len(items) == 0 || len(items) > maxValues {
		items = append(items[:min(len(items), maxValues)], unknown)
	}
	for _, item := range items {
		st.set(words.Name.Value, item)
		if err := c.branch(cmd.Do, st, depth); err != nil {
			return err
		}
	}
	return nil
}

// test looks at the operands of "[[ ... ]]".
func (c *checker) test(cmd *syntax.TestClause, st *state, depth int) (err error) {
	syntax.Walk(cmd, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok && err == nil {
			for _, dir := range st.dirs {
				if err == nil {
					err = c.argument(c.value(w, st, dir, false), place{c: c, dir: dir})
				}
			}
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return c.within(cmd, st, depth)
}

// within follows the commands inside of words: "$(...)" and "<(...)".
func (c *checker) within(n syntax.Node, st *state, depth int) (err error) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			if err == nil {
				err = c.run(n.Stmts, st.clone(), depth)
			}
			return false
		case *syntax.ProcSubst:
			if err == nil {
				err = c.run(n.Stmts, st.clone(), depth)
			}
			return false
		}
		return err == nil
	})
	return err
}

// assign remembers variables.
func (c *checker) assign(assigns []*syntax.Assign, st *state, depth int) error {
	for _, a := range assigns {
		if a.Name == nil || a.Naked && a.Value == nil && a.Array == nil {
			continue
		}
		if err := c.within(a, st, depth); err != nil {
			return err
		}
		dir := st.dirs[len(st.dirs)-1]
		switch before := st.vars[a.Name.Value]; {
		case a.Array != nil:
			st.vars[a.Name.Value] = c.array(a, before, st, dir)
		case a.Append && before.Kind != expand.Indexed:
			st.set(a.Name.Value, before.Str+c.value(a.Value, st, dir, false))
		case a.Index != nil || a.Append:
			before.Set, before.Kind = true, expand.Indexed
			before.List = append(before.List, c.value(a.Value, st, dir, false))
			st.vars[a.Name.Value] = before
		default:
			st.set(a.Name.Value, c.value(a.Value, st, dir, false))
		}
	}
	return nil
}

func (c *checker) array(a *syntax.Assign, before expand.Variable, st *state, dir string) expand.Variable {
	v := expand.Variable{Set: true, Kind: expand.Indexed}
	if a.Append {
		v.List = before.List
	}
	for _, e := range a.Array.Elems {
		if e.Value == nil {
			continue
		}
		f, err := c.fields([]*syntax.Word{e.Value}, st, dir)
		if err != nil {
			return text(unknown)
		}
		v.List = append(v.List, f...)
	}
	return v
}

// redirect checks where a command reads from and writes to. fed is the text of a
// here-document, for commands that take their work from it.
func (c *checker) redirect(r *syntax.Redirect, st *state, depth int) (fed []string, err error) {
	if r.Hdoc != nil {
		if err := c.within(r.Hdoc, st, depth); err != nil {
			return nil, err
		}
		return []string{c.value(r.Hdoc, st, st.dirs[0], true)}, nil
	}
	if err := c.within(r.Word, st, depth); err != nil {
		return nil, err
	}
	for _, dir := range st.dirs {
		names, err := c.fields([]*syntax.Word{r.Word}, st, dir)
		if err != nil {
			return nil, err
		}
		name := strings.Join(names, " ")
		switch r.Op {
		case syntax.WordHdoc:
			return []string{name}, c.argument(name, place{c: c, dir: dir})
		case syntax.RdrIn, syntax.DplIn:
			err = c.argument(name, place{c: c, dir: dir})
		default:
			if err = c.argument(name, place{c: c, dir: dir}); err == nil {
				err = c.create(dir, name)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}
