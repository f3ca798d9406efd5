package acp

import (
	"encoding/json"
	"slices"
	"strings"

	"gander.dev/gander/conformance/harness"
)

// An agent may do these things for a client that knows them. Such a client offers all of it; an
// agent that makes no use of something in a turn with a sub-agent, and at the command /compact,
// has nothing to be checked.

func offeredChecks() []Check {
	return []Check{
		{ID: "archive.hides", Requirements: []int{50}, needs: []need{needModel, needList, needArchive}, run: checkArchive, Text: "an archived session is in no list but one of archived ones, and one that is taken out is listed again"},
		{ID: "status.says", Requirements: []int{51}, needs: []need{needModel, needStatus}, run: checkStatus, Text: "a session that is open is said to be so, and an unknown one is an error"},
		{ID: "options.ahead", Requirements: []int{52}, needs: []need{needModel, needAhead}, run: checkOptionsAhead, Text: "session/options says what session/new does, and makes no session"},
		{ID: "subagent.lifecycle", Requirements: []int{53}, needs: []need{needModel}, run: checkSubagents, Text: "a sub-agent is announced, speaks under its own id, and ends before the turn"},
		{ID: "suggestions.list", Requirements: []int{54}, needs: []need{needModel}, run: checkSuggestions, Text: "suggestions of prompts are a list"},
		{ID: "plan.operations", Requirements: []int{55}, needs: []need{needModel}, run: checkPlans, Text: "a plan with an id is removed only after it was told of"},
		{ID: "compaction.ends", Requirements: []int{56}, needs: []need{needModel}, run: checkCompactions, Text: "a compaction that begins ends, under the same id, before the turn"},
		{ID: "notice.says", Requirements: []int{57}, needs: []need{needModel}, run: checkNotices, Text: "a notice has a severity that is known, and a title"},
	}
}

func checkArchive(p *probe) {
	a := p.session().agent
	s := p.open(a, p.mkdir("work"))
	p.done(p.prompt(s, says("used")), "end_turn")
	if p.facts.session["close"] {
		p.good(a.ask("session/close", byID(s)), "session/close")
	}
	has := func(archived string) bool {
		f := p.good(a.ask("session/list", map[string]any{"cwd": s.cwd, "archived": archived}), "session/list with archived "+archived)
		var page struct{ Sessions []listed }
		p.decode(f, &page)
		_, ok := find(page.Sessions, s.id)
		return ok
	}
	p.good(a.ask("session/archive", byID(s)), "session/archive")
	if _, ok := find(p.list(a, s.cwd), s.id); ok || has("exclude") {
		p.problem("an archived session is in the list of those that are not")
	}
	if !has("only") || !has("include") {
		p.problem("an archived session is not in the list of archived ones")
	}
	p.good(a.ask("session/unarchive", byID(s)), "session/unarchive")
	if _, ok := find(p.list(a, s.cwd), s.id); !ok || has("only") {
		p.problem("a session that was taken out of the archive is not listed")
	}
}

func checkStatus(p *probe) {
	a := p.session().agent
	s := p.open(a, p.mkdir("work"))
	p.done(p.prompt(s, says("used")), "end_turn")
	f := p.good(a.ask("session/status", byID(s)), "session/status")
	var result struct{ Status string }
	p.decode(f, &result)
	if result.Status != "open" {
		p.problem("a session that is open is said to be %q", result.Status)
	}
	p.refused(a.ask("session/status", map[string]any{"sessionId": "conformance-no-such-session"}), "session/status of an unknown session")
}

func checkOptionsAhead(p *probe) {
	a := p.session().agent
	dir := p.mkdir("work")
	f := p.good(a.ask("session/options", map[string]any{"cwd": dir}), "session/options")
	var ahead opened
	p.decode(f, &ahead)
	p.validOptions("session/options", ahead.ConfigOptions)
	if p.facts.session["list"] {
		if all := p.list(a, dir); len(all) > 0 {
			p.problem("session/options has made a session: %v", all)
		}
	}
	s := p.open(a, dir)
	if got, want := ids(ahead.ConfigOptions), ids(s.opened.ConfigOptions); !slices.Equal(got, want) {
		p.problem("session/options has the options %q, and session/new %q", got, want)
	}
}

func ids(options []option) []string {
	var all []string
	for _, o := range options {
		all = append(all, o.ID)
	}
	return all
}

// subagentTools are the names that agents give to the tool that starts a sub-agent.
const subagentTools = "task|delegate|summon__delegate|spawn_agent"

// oldPrompts is the number of prompts before /compact.
const oldPrompts = 12

// offering has an agent that is offered everything take two prompts, and returns what it told.
func (p *probe) offering() []update {
	if p.runner.offered != nil {
		return p.runner.offered
	}
	a := p.raw(launch{})
	params := initializeParams(1)
	offer := map[string]any{}
	params["clientCapabilities"] = map[string]any{
		"fs": map[string]any{"readTextFile": false, "writeTextFile": false}, "terminal": false, "subagents": offer, "plan": offer,
		"session": map[string]any{"notices": offer, "compaction": offer, "promptSuggestions": offer, "configOptions": map[string]any{"boolean": offer}},
	}
	a.offers = true
	p.good(a.ask("initialize", params), "initialize")
	s := p.open(a, p.mkdir("offered"))
	child := "conformance " + harness.Marshal("child words")
	t := p.prompt(s, step{"tool": subagentTools, "args": map[string]any{
		"description": "conformance", "prompt": child, "instructions": child, "message": child, "subagent_type": "general",
	}}, says("all done"))
	p.done(t, "end_turn")
	if slices.ContainsFunc(a.of(s.id, 0), func(u update) bool {
		return u.SessionUpdate == "available_commands_update" && strings.Contains(string(u.raw), `"compact"`)
	}) {
		for range oldPrompts { // else there is nothing to sum up
			p.done(p.prompt(s, says("more")), "end_turn")
		}
		p.frame(a.ask("session/prompt", map[string]any{"sessionId": s.id, "prompt": []any{textBlock("/compact")}}), "the prompt /compact")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p.runner.offered = slices.Clone(a.updates)
	return p.runner.offered
}

// ofKind returns the updates of a kind that an agent that is offered everything tells; a check
// without any does not apply.
func (p *probe) ofKind(kinds ...string) []update {
	all := slices.DeleteFunc(slices.Clone(p.offering()), func(u update) bool { return !slices.Contains(kinds, u.SessionUpdate) })
	if len(all) == 0 {
		p.skip("the agent tells of no %s", kinds[0])
	}
	return all
}

// member is a member of an update that is a string.
func (u update) member(name string) string {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(u.raw, &members) // the shape says what is wrong
	var text string
	_ = json.Unmarshal(members[name], &text)
	return text
}

func checkSubagents(p *probe) {
	states := map[string]string{}
	for _, u := range p.ofKind("subagent_update") {
		id := u.member("sessionId")
		if id == "" || id == u.session {
			p.problem("a sub-agent has no id of its own: %s", harness.Excerpt(u.raw))
		}
		var about struct{ State struct{ State string } }
		_ = json.Unmarshal(u.raw, &about)
		if _, known := states[id]; known && about.State.State == "" {
			continue
		}
		states[id] = about.State.State
	}
	for id, state := range states {
		if state != "idle" {
			p.problem("the sub-agent %s is %q when its turn is answered", id, state)
		}
		if !slices.ContainsFunc(p.offering(), func(u update) bool { return u.session == id }) {
			p.problem("nothing is told under the id of the sub-agent %s", id)
		}
	}
}

func checkSuggestions(p *probe) {
	for _, u := range p.ofKind("prompt_suggestions_update") {
		var told struct{ Suggestions []json.RawMessage }
		if err := json.Unmarshal(u.raw, &told); err != nil || told.Suggestions == nil {
			p.problem("suggestions are no list: %s", harness.Excerpt(u.raw))
		}
	}
}

func checkPlans(p *probe) {
	known := map[string]bool{}
	for _, u := range p.ofKind("plan_update", "plan_removed") {
		id := u.member("planId")
		if u.SessionUpdate == "plan_update" {
			var told struct{ Plan struct{ PlanID string } }
			_ = json.Unmarshal(u.raw, &told)
			id = told.Plan.PlanID
		}
		switch {
		case id == "":
			p.problem("a plan has no id: %s", harness.Excerpt(u.raw))
		case u.SessionUpdate == "plan_removed" && !known[id]:
			p.problem("a plan is removed that was never told of: %s", harness.Excerpt(u.raw))
		}
		known[id] = u.SessionUpdate == "plan_update"
	}
}

func checkCompactions(p *probe) {
	running := map[string]bool{}
	for _, u := range p.ofKind("compaction_update") {
		id, status := u.member("compactionId"), u.member("status")
		switch status {
		case "in_progress":
			running[id] = true
		case "completed", "failed", "cancelled":
			delete(running, id)
		default:
			p.problem("a compaction has the status %q: %s", status, harness.Excerpt(u.raw))
		}
	}
	for id := range running {
		p.problem("the compaction %q does not end", id)
	}
}

func checkNotices(p *probe) {
	for _, u := range p.ofKind("notice") {
		if !slices.Contains([]string{"info", "warning", "error"}, u.member("severity")) || strings.TrimSpace(u.member("title")) == "" {
			p.problem("a notice says nothing, or has a severity that nobody knows: %s", harness.Excerpt(u.raw))
		}
	}
}

// unoffered are the kinds of update that a client has to offer, and what it does that by.
var unoffered = map[string]string{
	"subagent_update": "subagents", "session_message": "subagents", "session_message_chunk": "subagents", "plan_update": "plan", "plan_removed": "plan",
	"notice": "session.notices", "compaction_update": "session.compaction", "compaction_summary_chunk": "session.compaction",
	"prompt_suggestions_update": "session.promptSuggestions",
}
