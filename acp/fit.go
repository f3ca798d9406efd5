package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

const (
	leastText    = 1 << 10 // bytes; a piece of text or an item smaller than this is not worth it
	elsewhere    = "the whole is in the transcript"
	maxToolTitle = 4 << 10 // bytes
)

// fit makes of an update that is larger than room the updates that say it best:
// text in several chunks, tool calls cut, anything else a sentence about it.
// notices says whether that sentence may be a notice.
func fit(update []byte, room int, notices bool) [][]byte {
	kind := UpdateKind(update)
	var parts [][]byte
	switch {
	case kind == kindToolCall || kind == kindToolCallUpdate:
		parts = [][]byte{fitToolCall(update, room)}
	case isKind(member(update, "content"), '{'):
		parts = fitChunk(update, room)
	}
	if len(parts) > 0 && len(parts[0]) <= room {
		return parts
	}
	sentence := fmt.Sprintf("An update of the agent (%.40s, %d bytes) is too large to show; %s.", kind, len(update), elsewhere)
	if notices {
		return [][]byte{NoticeUpdate("warning", sentence, "")}
	}
	return [][]byte{MessageChunk(AgentThoughtChunk, "", sentence+"\n")}
}

// fitChunk splits the text of an update that carries one content block, or
// replaces the block when it is not text.
func fitChunk(update []byte, room int) [][]byte {
	content := member(update, "content")
	start, end := blockText(update, content)
	if start < 0 {
		block := TextBlock("[" + describeBlock(content) + " is too large to show; " + elsewhere + "]")
		return [][]byte{WithFields(update, map[string]any{"content": block})}
	}
	if room-(len(update)-(end-start)) < room/2 { // it is _meta or annotations that are large
		bare := bareChunk(update, update[start:end])
		start, end = blockText(bare, member(bare, "content"))
		update = bare
	}
	return splitText(update, start, end, room)
}

// bareChunk is a chunk without what the text does not need.
func bareChunk(update, inner []byte) []byte {
	id, _ := text(member(update, "messageId"))
	block := append(append([]byte(`{"type":"text","text":"`), inner...), `"}`...)
	return encode(chunk{SessionUpdate: UpdateKind(update), MessageID: id, Content: block})
}

// splitText repeats an update with the pieces of its text, which lies inside [start:end),
// unless what is repeated is more than the pieces are: all of it would be in memory.
func splitText(update []byte, start, end, room int) (parts [][]byte) {
	budget := room - (len(update) - (end - start))
	if budget < room/2 {
		return nil
	}
	for rest := update[start:end]; len(rest) > 0; {
		n := boundary(rest, budget)
		part := bytes.Join([][]byte{update[:start], rest[:n], update[end:]}, nil)
		parts, rest = append(parts, part), rest[n:]
	}
	return parts
}

// boundary is the largest index up to limit at which the inside of a JSON string
// may be cut: between runes, escapes and surrogate pairs.
func boundary(inner []byte, limit int) int {
	i := 0
	for i < len(inner) {
		_, size := utf8.DecodeRune(inner[i:])
		if inner[i] == '\\' {
			size, _ = escapeSize(inner[i:])
		}
		if i+size > limit {
			break
		}
		i += size
	}
	return i
}

// fitToolCall cuts a tool call, or an update of one, to room bytes: raw input
// and output first, which repeat what the content shows, then the content.
func fitToolCall(toolCall []byte, room int) []byte {
	set := map[string]any{}
	for _, name := range []string{"rawInput", "rawOutput"} {
		if raw := member(toolCall, name); len(raw) > room/8 {
			set[name] = map[string]string{"note": fmt.Sprintf("%d bytes are left out here; %s", len(raw), elsewhere)}
		}
	}
	for _, name := range []string{"_meta", "locations"} {
		if len(member(toolCall, name)) > room/8 {
			set[name] = Delete
		}
	}
	if title := member(toolCall, "title"); len(title) > maxToolTitle {
		set["title"] = json.RawMessage(cutString(title, maxToolTitle))
	}
	cut := WithFields(toolCall, set)
	content := member(cut, "content")
	left := room - (len(cut) - len(content)) - leastText
	if len(cut) <= room || left < leastText || !isKind(content, '[') {
		return cut
	}
	return WithFields(cut, map[string]any{"content": fitContent(content, left)})
}

// fitContent cuts the items of a tool call's content so that they take left
// bytes together. Small items stay, large ones share what is left.
func fitContent(content []byte, left int) []json.RawMessage {
	var items []json.RawMessage
	for item := range array(content) {
		items = append(items, item)
	}
	all := len(items)
	for len(items) > 1 && sizeOf(items) > left && shareOf(items, left) < leastText {
		items = items[:len(items)/2]
	}
	if n := all - len(items); n > 0 {
		items = append(items, ToolContent(fmt.Sprintf("[%d further items are left out here; %s]", n, elsewhere)))
	}
	share := shareOf(items, left)
	for i, item := range items {
		if len(item) > share {
			items[i] = fitItem(item, share)
		}
	}
	return items
}

func sizeOf(items []json.RawMessage) (n int) {
	for _, item := range items {
		n += len(item) + 1
	}
	return n
}

// shareOf is the size up to which each item may stay.
func shareOf(items []json.RawMessage, left int) int {
	even := left/max(1, len(items)) - 1
	large := 0
	for _, item := range items {
		if len(item) <= even {
			left -= len(item) + 1
		} else {
			large++
		}
	}
	return max(0, left/max(1, large)-1)
}

// fitItem is one item of a tool call's content in at most room bytes, or the
// sentence that stands for it.
func fitItem(item []byte, room int) json.RawMessage {
	kind, _ := text(member(item, "type"))
	switch content := member(item, "content"); {
	case kind == "diff":
		path, _ := text(member(item, "path"))
		return ToolContent(fmt.Sprintf("[the diff of %s, %d bytes, is too large to show; %s]", shortName(path), len(item), elsewhere))
	case kind == "content":
		start, end := blockText(item, content)
		if start < 0 {
			return ToolContent("[" + describeBlock(content) + " is too large to show; " + elsewhere + "]")
		}
		quoted := append(append([]byte{'"'}, item[start:end]...), '"')
		cut := cutString(quoted, room-leastText/2)
		return json.RawMessage(`{"type":"content","content":{"type":"text","text":` + string(cut) + `}}`)
	}
	return ToolContent(fmt.Sprintf("[content of type %.40s, %d bytes, is too large to show; %s]", kind, len(item), elsewhere))
}

// cutString keeps the beginning and the end of a raw JSON string and says between them
// how much is missing. The result has about room bytes, and never much more than the sentence.
func cutString(quoted []byte, room int) []byte {
	inner := quoted[1 : len(quoted)-1]
	if len(inner) <= room {
		return quoted
	}
	head := boundary(inner, max(0, room/2))
	tail := head + boundary(inner[head:], len(inner)-head-max(0, room/2)) // cut there, or a little before
	left, _ := text(bytes.Join([][]byte{{'"'}, inner[head:tail], {'"'}}, nil))
	note := encode(fmt.Sprintf("\n[... %d bytes are left out here; %s ...]\n", len(left), elsewhere))
	return bytes.Join([][]byte{{'"'}, inner[:head], note[1 : len(note)-1], inner[tail:], {'"'}}, nil)
}

// describeBlock names a content block that cannot be shown.
func describeBlock(block []byte) string {
	c := ParseContentBlock(block)
	what := "content"
	for _, s := range []string{c.MimeType, c.Type} {
		if s != "" {
			what = shortName(s)
			break
		}
	}
	for _, s := range []string{c.URI, c.Name} {
		if s != "" {
			what += " " + shortName(s)
			break
		}
	}
	return fmt.Sprintf("%s, %d bytes,", what, len(block))
}

// shortName bounds a name or path that a peer chose.
func shortName(s string) string {
	const limit = 300
	if len(s) <= limit {
		return s
	}
	return s[:boundary([]byte(s), limit)] + "..."
}
