package router

import (
	"encoding/json"
	"math"
	"strings"
)

// aliased is what a client says of a session in the _meta of a request, under one
// of several names each. Clients of other programs send them; on output there is
// only metaKey.
type aliased struct {
	agent   string // who is to answer
	session string // a session's key, or a reference to one
	access  string // what the session may do with the project
	limit   int    // the length of a page; 0 when not given
	fresh   bool   // the agent is to begin anew with this prompt
	off     bool   // nothing is to be kept
}

// aliases reads a _meta. The first name with a valid value counts; text is trimmed
// and blank text is none, and numbers and booleans must be such.
func aliases(meta json.RawMessage) aliased {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(meta, &m) // what is no object says nothing
	text := func(names ...string) string {
		for _, name := range names {
			if s := strings.TrimSpace(stringOf(m[name])); s != "" {
				return s
			}
		}
		return ""
	}
	yes := func(names ...string) bool {
		for _, name := range names {
			var b *bool
			if json.Unmarshal(m[name], &b) == nil && b != nil {
				return *b
			}
		}
		return false
	}
	a := aliased{
		agent: text("agentId", "agent", "targetAgent"), session: text("sessionKey", "sessionRef", "session"), access: text("access"),
		fresh: yes("forceNewSession", "newSession"), off: yes("disableSession", "noSession"),
	}
	var limit float64
	if json.Unmarshal(m["limit"], &limit) == nil && limit >= 1 && limit <= math.MaxInt32 {
		a.limit = int(limit)
	}
	return a
}
