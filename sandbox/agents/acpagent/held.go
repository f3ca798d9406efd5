package acpagent

import (
	"cmp"
	"iter"
	"slices"
)

const (
	// MaxHeld bounds what is kept of what the open tool calls of a session say, in bytes
	// of all of them together.
	MaxHeld = 16 << 20
	// MaxName bounds a name that an agent gives something and that is kept, in bytes: a
	// tool's, a call's, a file's.
	MaxName = 16 << 10
)

// A Held is an open tool call of which texts are kept, to mend its later updates.
type Held interface {
	// Number orders calls as they came.
	Number() int
	// Size is how much is kept, in bytes.
	Size() int
	// Forget lets go of the texts: later updates pass as the agent says them.
	Forget()
}

// Bound has the oldest calls forget their texts when all keep more than MaxHeld.
func Bound[C Held](calls iter.Seq[C]) {
	held := 0
	for c := range calls {
		held += c.Size()
	}
	if held <= MaxHeld {
		return
	}
	for _, c := range slices.SortedFunc(calls, func(a, b C) int { return cmp.Compare(a.Number(), b.Number()) }) {
		if held <= MaxHeld {
			return
		}
		held -= c.Size()
		c.Forget()
		held += c.Size()
	}
}
