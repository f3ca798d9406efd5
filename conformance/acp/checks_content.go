package acp

import (
	"fmt"
	"strings"

	"gander.dev/gander/conformance/harness"
	"gander.dev/gander/conformance/model"
)

func contentChecks() []Check {
	return []Check{
		{ID: "content.link", Requirements: []int{26}, needs: []need{needModel}, run: checkLink, Text: "a resource link is accepted, and the model learns of it"},
		{ID: "content.resource", Requirements: []int{9, 26}, needs: []need{needModel}, run: checkResource, Text: "an embedded resource, where advertised, reaches the model"},
		{ID: "content.image", Requirements: []int{9, 26}, needs: []need{needModel}, run: checkImage, Text: "an image, where advertised, reaches the model"},
		{ID: "content.several", Requirements: []int{26}, needs: []need{needModel}, run: checkSeveral, Text: "several blocks of text all reach the model, in order"},
		{ID: "content.invalid", Requirements: []int{4, 26}, needs: []need{needModel}, run: checkInvalidContent, Text: "blocks of no known type, and an empty prompt, are answered one way or another, and survived"},
	}
}

// with sends a prompt of a script and further blocks, and waits for its end.
func (p *probe) with(s *session, blocks ...any) *turn {
	p.tags++
	tag := fmt.Sprintf("tag-%d-%s", p.tags, p.mark[len(p.mark)-6:])
	first := textBlock("conformance " + tag + " " + model.Embed(harness.Marshal([]step{says("seen")})))
	t, line := p.prepareBlocks(s, tag, append([]any{first}, blocks...))
	_ = s.Send(line)
	return p.done(t, "end_turn")
}

func checkLink(p *probe) {
	s := p.fresh()
	file := p.write(s.cwd, "linked-notes.txt", "what the notes say\n")
	t := p.with(s, map[string]any{"type": "resource_link", "uri": "file://" + file, "name": "linked-notes.txt"})
	p.remembers(t, "linked-notes.txt")
	p.remembers(p.with(s, map[string]any{"type": "resource_link", "uri": "https://example.com/page", "name": "a page"}), "example.com/page")
}

func checkResource(p *probe) {
	if !p.facts.prompt["embeddedContext"] {
		p.skip("the agent does not advertise promptCapabilities.embeddedContext")
	}
	t := p.with(p.fresh(), map[string]any{"type": "resource", "resource": map[string]any{
		"uri": "file:///nowhere/unsaved.go", "mimeType": "text/plain", "text": "unsaved words of the editor",
	}})
	p.remembers(t, "unsaved words of the editor")
}

// pixel is a picture of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func checkImage(p *probe) {
	if !p.facts.prompt["image"] {
		p.skip("the agent does not advertise promptCapabilities.image")
	}
	t := p.with(p.fresh(), map[string]any{"type": "image", "mimeType": "image/png", "data": pixel})
	p.remembers(t, "data:image/")
}

func checkSeveral(p *probe) {
	t := p.with(p.fresh(), textBlock("the second block"), textBlock("the third block"))
	body := ""
	for _, q := range p.requests(t) {
		body = string(q.Body)
	}
	second, third := strings.Index(body, "the second block"), strings.Index(body, "the third block")
	if second < 0 || third < second {
		p.problem("the model did not get all blocks in order: %s", harness.Excerpt(body))
	}
}

func checkInvalidContent(p *probe) {
	s := p.fresh()
	for _, blocks := range [][]any{
		{},
		{map[string]any{"type": "conformance_unknown", "x": 1}},
		{map[string]any{"type": "text"}},
		{map[string]any{"text": "no type"}},
		{"text"},
		{map[string]any{"type": "image", "mimeType": "image/png"}},
	} {
		p.frame(s.ask("session/prompt", map[string]any{"sessionId": s.id, "prompt": blocks}), "a prompt of "+harness.Marshal(blocks))
	}
	p.works(s, "odd blocks")
}
