package router

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"gander.dev/gander/acp"
)

// ofAgent is an update of an agent's without what only gander says: its members of _meta,
// by which a client knows what the sandbox is, and notices in nobody's name.
func ofAgent(agent, kind string, update json.RawMessage) json.RawMessage {
	update = withoutOurs(update)
	if kind != "notice" {
		return update
	}
	title := fmt.Sprintf("%s says from its sandbox: %s", agent, stringOf(acp.Member(update, "title")))
	return acp.WithFields(update, map[string]any{"title": title})
}

// withoutOurs is an object of an agent's without gander's own members of its _meta.
func withoutOurs(object json.RawMessage) json.RawMessage {
	for key, value := range acp.Members(object) {
		if string(key) == "_meta" && hasOurs(value) {
			rest := ourless(acp.Member(object, "_meta"))
			if rest == nil {
				return acp.WithFields(object, map[string]any{"_meta": acp.Delete})
			}
			return acp.WithFields(object, map[string]any{"_meta": rest})
		}
	}
	return object
}

func hasOurs(meta json.RawMessage) bool {
	for key := range acp.Members(meta) {
		if isOurs(string(key)) {
			return true
		}
	}
	return false
}

// ourless is a _meta of an agent's without gander's own members; nil when nothing is left.
func ourless(meta json.RawMessage) json.RawMessage {
	if !hasOurs(meta) {
		return meta
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(meta, &members) // what cannot be read says nothing
	maps.DeleteFunc(members, func(key string, _ json.RawMessage) bool { return isOurs(key) })
	if len(members) == 0 {
		return nil
	}
	return marshal(members)
}

// isOurs says whether a member of a _meta is gander's own.
func isOurs(key string) bool { return key == metaKey || strings.HasPrefix(key, metaKey+"/") }
