package acp

import (
	"encoding/json"
	"slices"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func storedChecks() []Check {
	return []Check{
		{ID: "list.shows", Requirements: []int{20}, needs: []need{needModel, needList}, run: checkListShows, Text: "a session that was used is listed with its directory, also by another process"},
		{ID: "list.filter", Requirements: []int{20}, needs: []need{needModel, needList}, run: checkListFilter, Text: "a directory limits the list to the sessions in it"},
		{ID: "list.pages", Requirements: []int{20}, needs: []need{needList}, run: checkListPages, Text: "pages end, have no session twice, and a cursor that was never given is an error"},
		{ID: "close.ends", Requirements: []int{19}, needs: []need{needModel, needClose}, run: checkClose, Text: "close ends a running turn, and the session takes no prompt any more"},
		{ID: "close.others", Requirements: []int{19, 46}, needs: []need{needModel, needClose}, run: checkCloseOthers, Text: "other sessions go on, and a closed one can be loaded where load is advertised"},
		{ID: "close.processes", Requirements: []int{19, 43}, needs: []need{needShell, needProcesses, needClose}, run: checkCloseProcesses, Text: "close leaves nothing running of the session's commands"},
		{ID: "delete.gone", Requirements: []int{21}, needs: []need{needModel, needDelete}, run: checkDelete, Text: "a deleted session is in no list and cannot be loaded or prompted; deleting it again is no error"},
		{ID: "fork.knows", Requirements: []int{22}, needs: []need{needModel, needFork}, run: checkFork, Text: "a fork has an id of its own and knows what was said; what is said there is not in the first one"},
	}
}

// A listed session is what session/list says of one.
type listed struct {
	SessionID string
	CWD       string
}

// list asks for all pages.
func (p *probe) list(a *agent, cwd string) []listed {
	var all []listed
	params := map[string]any{}
	if cwd != "" {
		params["cwd"] = cwd
	}
	for range 1000 {
		f := p.good(a.ask("session/list", params), "session/list")
		var page struct {
			Sessions   []listed
			NextCursor *string
		}
		p.decode(f, &page)
		all = append(all, page.Sessions...)
		if page.NextCursor == nil || *page.NextCursor == "" {
			return all
		}
		params["cursor"] = *page.NextCursor
	}
	p.fail("session/list does not end after 1000 pages")
	return nil
}

func find(all []listed, id string) (listed, bool) {
	i := slices.IndexFunc(all, func(l listed) bool { return l.SessionID == id })
	if i < 0 {
		return listed{}, false
	}
	return all[i], true
}

func checkListShows(p *probe) {
	a := p.begin(launch{})
	s := p.open(a, p.mkdir("work"))
	p.done(p.prompt(s, says("used")), "end_turn")
	for what, from := range map[string]*agent{"the same process": a, "another process": p.begin(launch{})} {
		l, ok := find(p.list(from, ""), s.id)
		if !ok {
			p.problem("%s does not list the session", what)
		} else if l.CWD != s.cwd {
			p.problem("%s lists it in %s, it is in %s", what, l.CWD, s.cwd)
		}
	}
}

func checkListFilter(p *probe) {
	a := p.session().agent
	one, two := p.open(a, p.mkdir("one")), p.open(a, p.mkdir("two"))
	for _, s := range []*session{one, two} {
		p.done(p.prompt(s, says("used")), "end_turn")
	}
	in := p.list(a, one.cwd)
	if _, ok := find(in, one.id); !ok {
		p.problem("the session in %s is not in the list of that directory", one.cwd)
	}
	for _, l := range in {
		if l.CWD != one.cwd {
			p.problem("the list of %s has a session in %s", one.cwd, l.CWD)
		}
	}
	if none := p.list(a, p.mkdir("none")); len(none) > 0 {
		p.problem("the list of a directory without sessions has %d", len(none))
	}
}

func checkListPages(p *probe) {
	a := p.session().agent
	seen := map[string]bool{}
	for _, l := range p.list(a, "") {
		if seen[l.SessionID] {
			p.problem("the session %s is listed twice", l.SessionID)
		}
		seen[l.SessionID] = true
	}
	p.refused(a.ask("session/list", map[string]any{"cursor": "conformance-no-such-cursor"}), "session/list with a cursor that was never given")
}

func byID(s *session) map[string]any { return map[string]any{"sessionId": s.id} }

func checkClose(p *probe) {
	s := p.open(p.session().agent, p.mkdir("work"))
	t := p.prompt(s, waits())
	p.reached(t)
	r := s.ask("session/close", byID(s))
	p.within(t.request, "the prompt of a session that was closed", cancelBudget)
	p.good(r, "session/close")
	p.refused(s.ask("session/prompt", map[string]any{"sessionId": s.id, "prompt": []any{textBlock("x")}}), "a prompt of a closed session")
}

func checkCloseOthers(p *probe) {
	a := p.begin(launch{})
	one, two := p.open(a, p.mkdir("one")), p.open(a, p.mkdir("two"))
	p.done(p.prompt(one, says("first answer Gleam-1")), "end_turn")
	t := p.prompt(two, step{"text": "undisturbed words", "after": 1, "hang": "release"})
	func() {
		defer p.model.Release()
		p.reached(t)
		p.good(one.ask("session/close", byID(one)), "session/close")
	}()
	p.done(t, "end_turn")
	if p.facts.loads {
		_, before := p.reopen(a, "session/load", one.id, one.cwd)
		p.inOrder("the replay of a closed session", dialogue(before), "Gleam-1")
	}
}

func checkCloseProcesses(p *probe) {
	s := p.open(p.session().agent, p.mkdir("work"))
	r := p.lets(s, "sleep 600 & setsid sh -c '{one}; exec sleep 600' </dev/null >/dev/null 2>&1 & {one then}; {ready}; wait; sleep 600")
	p.good(s.ask("session/close", byID(s)), "session/close")
	p.gone(r, "session/close")
}

func checkDelete(p *probe) {
	a := p.session().agent
	s := p.open(a, p.mkdir("work"))
	p.done(p.prompt(s, says("used")), "end_turn")
	p.good(a.ask("session/delete", byID(s)), "session/delete")
	if p.facts.session["list"] {
		if _, ok := find(p.list(a, ""), s.id); ok {
			p.problem("the deleted session is listed")
		}
	}
	if p.facts.loads {
		p.refused(a.ask("session/load", map[string]any{"sessionId": s.id, "cwd": s.cwd, "mcpServers": []any{}}), "session/load of a deleted session")
	}
	p.refused(a.ask("session/prompt", map[string]any{"sessionId": s.id, "prompt": []any{textBlock("x")}}), "a prompt of a deleted session")
	p.good(a.ask("session/delete", byID(s)), "session/delete of a deleted session")
}

func checkFork(p *probe) {
	a := p.session().agent
	s := p.open(a, p.mkdir("work"))
	p.done(p.prompt(s, says("first answer Gleam-1")), "end_turn")
	params := newParams(s.cwd)
	params["sessionId"] = s.id
	f := p.good(a.ask("session/fork", params), "session/fork")
	fork := &session{agent: a, cwd: s.cwd}
	if json.Unmarshal(f.Result, &fork.opened) != nil || fork.opened.SessionID == "" || fork.opened.SessionID == s.id {
		p.fail("session/fork gives no id of its own: %s", harness.Excerpt(f.Raw))
	}
	fork.id = fork.opened.SessionID
	p.remembers(p.done(p.prompt(fork, says("only here Gleam-9")), "end_turn"), "Gleam-1")
	t := p.done(p.prompt(s, says("back")), "end_turn")
	p.remembers(t, "Gleam-1")
	for _, q := range p.requests(t) {
		if strings.Contains(string(q.Body), "Gleam-9") {
			p.problem("what was said in the fork is known in the first session")
		}
	}
}
