package chat

import "strings"

// BytesOfToken is about how long a token is.
const BytesOfToken = 4

// bytesOfImage is about how much text costs as many tokens as an image.
const bytesOfImage = 8 << 10

// maxStale bounds what is left of the result of a tool, in bytes.
const maxStale = 300

// Shortened returns a conversation of at most so many bytes. What tools have told longest ago
// becomes shorter in it, and then the oldest turns are left out.
func Shortened(talk []Message, most int) []Message {
	size := 0
	for _, m := range talk {
		size += sizeOf(m)
	}
	for i := 0; i < len(talk) && size > most; i++ {
		if m := &talk[i]; m.Role == "tool" && len(m.Content) > maxStale && i < len(talk)-1 {
			size -= len(m.Content) - maxStale
			m.Content = Cut(m.Content, maxStale)
		}
	}
	for size > most { // a turn as a whole goes
		next := 1
		for next < len(talk) && talk[next].Role != "user" {
			next++
		}
		if next >= len(talk) {
			return talk
		}
		for _, m := range talk[:next] {
			size -= sizeOf(m)
		}
		talk = talk[next:]
	}
	return talk
}

func sizeOf(m Message) int {
	size := len(m.Content) + len(m.Images)*bytesOfImage
	for _, c := range m.Calls {
		size += len(c.Function.Arguments)
	}
	return size
}

// Cut returns the beginning of a text, which says when there is more.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + " […]"
}
