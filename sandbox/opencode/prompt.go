package opencode

import (
	"slices"
	"strings"
	"unicode"

	"gander.dev/gander/acp"
)

// opencode takes a prompt whose text begins with "/" as a command and ends the
// turn at once when there is none of that name: a question about /etc/hosts
// would never reach the model.

// commandName is the command that opencode would see in a prompt, without its
// slash; empty when it would see none. opencode looks at the text of all blocks.
func commandName(prompt []acp.ContentBlock) string {
	var text strings.Builder
	for _, raw := range prompt {
		text.WriteString(textOf(raw))
	}
	said, ok := strings.CutPrefix(strings.TrimFunc(text.String(), isSpace), "/")
	if !ok {
		return ""
	}
	if end := strings.IndexFunc(said, isSpace); end >= 0 {
		said = said[:end]
	}
	return said
}

// textOf is what opencode makes of a block, as far as it is text.
func textOf(raw acp.ContentBlock) string {
	c := acp.ParseContentBlock(raw)
	switch c.Type {
	case "text":
		return c.Text
	case "resource":
		if c.Resource.Text != "" { // else it is a file
			return "[" + c.URI + "]"
		}
	case "resource_link":
		if !strings.HasPrefix(c.URI, "file://") && !strings.HasPrefix(c.URI, "zed://") {
			return c.URI
		}
	}
	return ""
}

// isSpace is white space as JavaScript has it.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' }

// guarded is a block for the person only: opencode looks at it for a command but
// does not show it to the model.
var guarded = acp.ContentBlock(`{"type":"text","text":"(not a command)","annotations":{"audience":["user"]}}`)

// guard keeps opencode from seeing a command in a prompt; the model gets the
// prompt as it is.
func guard(prompt []acp.ContentBlock) []acp.ContentBlock {
	return slices.Insert(slices.Clone(prompt), 0, guarded)
}
