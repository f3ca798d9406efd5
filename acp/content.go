package acp

import "fmt"

// Content is a content block, decoded as far as agents commonly need it.
type Content struct {
	Type     string            `json:"type"` // text, image, audio, resource_link, resource
	Text     string            `json:"text"`
	Data     string            `json:"data"` // of image and audio, base64
	MimeType string            `json:"mimeType"`
	URI      string            `json:"uri"` // of resource_link and image; of resource, that of the resource
	Name     string            `json:"name"`
	Title    string            `json:"title"`
	Resource *EmbeddedResource `json:"resource"` // of resource; never nil then
}

// EmbeddedResource is the content of a resource block: Text, or Blob in base64.
type EmbeddedResource struct {
	URI      string `json:"uri"`
	Text     string `json:"text"`
	Blob     string `json:"blob"`
	MimeType string `json:"mimeType"`
}

// ParseContentBlock reads a raw content block, which must be valid JSON. What is
// absent or of the wrong type is empty.
func ParseContentBlock(raw ContentBlock) Content {
	var c Content
	_ = decode(raw, &c) // not an object: nothing is known of it
	if c.Type != "resource" {
		c.Resource = nil
		return c
	}
	if c.Resource == nil {
		c.Resource = new(EmbeddedResource)
	}
	c.URI, c.MimeType = c.Resource.URI, c.Resource.MimeType
	return c
}

// ContentType is the type of a raw content block, which must be valid JSON: text, image,
// audio, resource_link or resource. It costs less than [ParseContentBlock].
func ContentType(raw ContentBlock) string {
	kind, _ := text(member(raw, "type"))
	return kind
}

// TextBlock is a content block of text.
func TextBlock(text string) ContentBlock {
	return encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
}

// check implements the strictness of a prompt: its blocks are not optional.
func (r *PromptRequest) check() error {
	for i, block := range r.Prompt {
		if err := checkBlock(block); err != nil {
			return fmt.Errorf("prompt[%d]: %w", i, err)
		}
	}
	return nil
}

func checkBlock(block ContentBlock) error {
	switch kind := ContentType(block); kind {
	case "text":
		return needStrings(block, "text")
	case "image", "audio":
		return needStrings(block, "data", "mimeType")
	case "resource_link":
		return needStrings(block, "uri", "name")
	case "resource":
		return needStrings(member(block, "resource"), "uri")
	case "":
		return fmt.Errorf("a content block is an object with a type")
	default:
		return fmt.Errorf("there is no content type %.40q", kind)
	}
}

func needStrings(object []byte, names ...string) error {
	for _, name := range names {
		if _, ok := text(member(object, name)); !ok {
			return fmt.Errorf("%s must be a string", name)
		}
	}
	return nil
}

// check implements the two shapes of a value: a string, or with type boolean a boolean.
func (r *SetConfigOptionRequest) check() error {
	isBool := isKind(r.Value, 't') || isKind(r.Value, 'f')
	if isKind(r.Value, '"') && r.Type != "boolean" || isBool && r.Type == "boolean" {
		return nil
	}
	return fmt.Errorf(`value must be a string, or a boolean with "type":"boolean"`)
}

// check wants a tool call that can be referred to.
func (r *RequestPermissionRequest) check() error {
	if _, ok := text(member(r.ToolCall, "toolCallId")); !ok {
		return fmt.Errorf("toolCall.toolCallId must be a string")
	}
	return nil
}
