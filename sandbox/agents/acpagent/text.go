package acpagent

import (
	"fmt"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/team/chat"
)

// MessageOf returns a prompt as the message of a person to a model.
func MessageOf(prompt []acp.ContentBlock) chat.Message {
	m := chat.Message{Role: "user"}
	var parts []string
	for _, raw := range prompt {
		c := acp.ParseContentBlock(raw)
		switch {
		case c.Type == "text":
			parts = append(parts, c.Text)
		case c.Type == "resource" && c.Resource.Text != "":
			parts = append(parts, fmt.Sprintf("[attached: %s]\n%s", c.URI, c.Resource.Text))
		case c.Type == "resource":
			parts = append(parts, fmt.Sprintf("[attached: %s, %s]", c.URI, c.MimeType))
		case c.Type == "resource_link":
			parts = append(parts, fmt.Sprintf("[%s](%s)", c.Name, c.URI))
		case c.Type == "image" && c.Data != "":
			m.Images = append(m.Images, chat.Image{MIMEType: c.MimeType, Data: c.Data})
			parts = append(parts, "[attached: an image]")
		default:
			parts = append(parts, "[attached: "+c.Type+"]")
		}
	}
	m.Content = strings.Join(parts, "\n")
	return m
}
