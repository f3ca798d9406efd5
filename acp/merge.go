package acp

import "bytes"

// mergeRun makes one frame of the chunks at the start of frames that are the same
// in everything but their text: session, kind, messageId, annotations, _meta. It
// returns how many it took, at least one, and stays under limit bytes.
func mergeRun(frames []frame, limit int) (frame, int) {
	first := frames[0]
	start, end := chunkText(first)
	if start < 0 {
		return first, 1
	}
	line, size, n := first.line, len(first.line), 1
	for _, f := range frames[1:] {
		i, j := chunkText(f)
		if i != start || size+j-i > limit || !bytes.Equal(f.line[:i], first.line[:start]) || !bytes.Equal(f.line[j:], first.line[end:]) {
			break
		}
		if n == 1 {
			line = append([]byte(nil), first.line[:end]...)
		}
		line = append(line, f.line[i:j]...)
		size += j - i
		n++
	}
	if n > 1 {
		line = append(line, first.line[end:]...)
	}
	return frame{line: line, update: first.update}, n
}

// chunkText finds the inside of the text of a chunk in its frame; -1 when the
// frame is no chunk or has no text content.
func chunkText(f frame) (start, end int) {
	if f.update == 0 {
		return -1, -1
	}
	return blockText(f.line, member(f.line[f.update:], "content"))
}

// blockText finds the inside of the text of a text block within b, of whose
// memory block is a part.
func blockText(b, block []byte) (start, end int) {
	kind, _ := text(member(block, "type"))
	inner := member(block, "text")
	if kind != "text" || !isKind(inner, '"') {
		return -1, -1
	}
	start = cap(b) - cap(inner) + 1
	return start, start + len(inner) - 2
}

// isChunk reports whether updates of a kind are pieces of one message, the only
// ones that may be merged.
func isChunk(kind string) bool {
	return kind == AgentMessageChunk || kind == AgentThoughtChunk || kind == UserMessageChunk
}
