package acp

import (
	"fmt"
	"strings"
	"time"

	"gander.dev/gander/conformance/harness"
)

func promptChecks() []Check {
	return []Check{
		{ID: "prompt.answer", Requirements: []int{24}, run: checkAnswer, Text: "what the model says is reported as messages, and the turn ends with end_turn"},
		{ID: "prompt.streaming", Requirements: []int{25}, needs: []need{needModel}, run: checkStreaming, Text: "words are reported while the model still speaks"},
		{ID: "prompt.complete", Requirements: []int{24, 44}, needs: []need{needModel}, run: checkComplete, Text: "a long answer arrives whole and in order, before the response"},
		{ID: "prompt.memory", Requirements: []int{24}, needs: []need{needModel}, run: checkMemory, Text: "the model gets what was said in the turns before"},
		{ID: "prompt.thoughts", Requirements: []int{24}, needs: []need{needModel}, run: checkThoughts, Text: "what the model thinks is no part of what it says"},
		{ID: "prompt.max-tokens", Requirements: []int{27}, needs: []need{needModel}, run: checkMaxTokens, Text: "an answer that was cut at the model's limit ends with max_tokens"},
		{ID: "prompt.model-error", Requirements: []int{49}, needs: []need{needModel}, run: checkModelError, Text: "a model that refuses ends the turn with an error or words about it, and the session goes on"},
		{ID: "prompt.model-lost", Requirements: []int{49}, needs: []need{needModel}, run: checkModelLost, Text: "a connection to the model that breaks ends the turn, or is tried again"},
		{ID: "prompt.two", Requirements: []int{2, 24}, needs: []need{needModel}, run: checkTwoPrompts, Text: "a prompt during a turn is answered too, and spoils neither"},
		{ID: "prompt.slash", Requirements: []int{38}, needs: []need{needModel}, run: checkSlash, Text: "a prompt that begins with a slash and is no command reaches the model"},
	}
}

// pause is long enough to notice what should not happen.
func (p *probe) pause() {
	select {
	case <-time.After(300 * time.Millisecond):
	case <-p.ctx.Done():
	}
}

func checkAnswer(p *probe) {
	if p.facts.noModel != "" {
		p.fail("%s; --env tells the agent where {modelUrl} is", p.facts.noModel)
	}
	t := p.done(p.prompt(p.session(), says("Gleam-42 and more")), "end_turn")
	if said := t.said(); strings.TrimSpace(said) != "Gleam-42 and more" {
		p.problem("the model said %q, and the agent %s", "Gleam-42 and more", harness.Excerpt(said))
	}
}

func checkStreaming(p *probe) {
	s := p.fresh()
	t := p.prompt(s, step{"text": "early words and late ones", "after": 2, "hang": "release"})
	func() {
		defer p.model.Release()
		p.reached(t)
		p.until(t, "the first words, which the model has said", func(u update) bool {
			return u.SessionUpdate == "agent_message_chunk" && strings.Contains(u.text(), "early")
		})
	}()
	p.done(t, "end_turn")
}

func checkComplete(p *probe) {
	const words = 30_000
	t := p.done(p.prompt(p.fresh(), step{"tokens": words}), "end_turn")
	p.counted(t.said(), words)
}

// counted notes a problem unless a text is that of a step with tokens.
func (p *probe) counted(text string, words int) {
	got := strings.Fields(text)
	if len(got) != words {
		p.problem("of %d words %d arrive", words, len(got))
	}
	for i, w := range got {
		if w != fmt.Sprintf("t%d", i) {
			p.fail("word %d is %s", i, harness.Excerpt(w))
		}
	}
}

func checkMemory(p *probe) {
	s := p.fresh()
	first := p.done(p.prompt(s, says("The goose is called Gleam-43.")), "end_turn")
	p.remembers(p.done(p.prompt(s, says("I know.")), "end_turn"), first.tag, "Gleam-43")
}

// remembers notes a problem unless the model got words with a turn.
func (p *probe) remembers(t *turn, words ...string) {
	requests := p.requests(t)
	if len(requests) == 0 {
		p.fail("the prompt did not reach the model")
	}
	p.holds("what the model got", string(requests[len(requests)-1].Body), words...)
}

func checkThoughts(p *probe) {
	t := p.done(p.prompt(p.fresh(), step{"reasoning": "secretly pondering", "text": "openly"}), "end_turn")
	if said := t.said(); strings.Contains(said, "pondering") || !strings.Contains(said, "openly") {
		p.problem("the model thought and said, and the agent said %s", harness.Excerpt(said))
	}
}

func checkMaxTokens(p *probe) {
	p.done(p.prompt(p.fresh(), step{"text": "cut off", "finish": "length"}), "max_tokens")
}

func checkModelError(p *probe) {
	s := p.fresh()
	p.ends(s, p.prompt(s, step{"status": 401, "times": 50}), "whose model answers 401")
}

// ends waits for the end of a turn that may fail, with a reason for people.
func (p *probe) ends(s *session, t *turn, what string) {
	f := p.frame(t.request, "a prompt "+what)
	if f.Error == nil && t.said() == "" && len(calls(t.updates())) == 0 {
		p.problem("a prompt %s ends without a word: %s", what, harness.Excerpt(f.Raw))
	}
	p.works(s, "a prompt "+what)
}

func checkModelLost(p *probe) {
	s := p.fresh()
	p.ends(s, p.prompt(s, step{"text": "half a sentence that breaks", "after": 2, "drop": true, "times": 1}, says("again")), "whose model breaks off")
}

func checkTwoPrompts(p *probe) {
	s := p.fresh()
	first := p.prompt(s, step{"text": "first words", "after": 1, "hang": "release"})
	var second *turn
	func() {
		defer p.model.Release()
		p.reached(first)
		second = p.prompt(s, says("second words"))
		p.pause()
	}()
	p.done(first, "end_turn")
	p.frame(second.request, "a prompt during a turn")
	p.works(s, "two prompts at once")
}

func checkSlash(p *probe) {
	s := p.fresh()
	p.tags++
	tag := fmt.Sprintf("tag-%d-slash", p.tags)
	t, line := p.prepareBlocks(s, tag, []any{textBlock("/etc/hostname is a file, " + tag)})
	_ = s.Send(line)
	p.frame(t.request, "a prompt that begins with a slash")
	if len(p.requests(t)) == 0 && t.said() == "" {
		p.problem("neither does it reach the model nor does the agent say anything")
	}
}
