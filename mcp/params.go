package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gander.dev/gander/developer"
)

// This file checks parameters before mcp-go decodes them: it would call those of
// the wrong type an invalid request, and repeat Go's words for it.

func checkInitialize(params json.RawMessage) *rpcError {
	var p struct {
		ProtocolVersion json.RawMessage `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
	}
	_ = json.Unmarshal(params, &p) // an object
	switch {
	case !isNull(p.ProtocolVersion) && p.ProtocolVersion[0] != '"':
		return invalidParams("Invalid params: protocolVersion must be a string such as %q", versions[0])
	case !isNull(p.Capabilities) && p.Capabilities[0] != '{':
		return invalidParams("Invalid params: capabilities must be an object")
	case !isNull(p.ClientInfo) && p.ClientInfo[0] != '{':
		return invalidParams("Invalid params: clientInfo must be an object")
	}
	return nil
}

func checkSetLevel(params json.RawMessage) *rpcError {
	var p struct {
		Level json.RawMessage `json:"level"`
	}
	_ = json.Unmarshal(params, &p)
	if !slices.Contains(levels, text(p.Level)) {
		return invalidParams("Invalid params: level must be one of %s", strings.Join(levels, ", "))
	}
	return nil
}

// checkCursor refuses every cursor, for lists have one page.
func checkCursor(params json.RawMessage) *rpcError {
	var p struct {
		Cursor json.RawMessage `json:"cursor"`
	}
	_ = json.Unmarshal(params, &p)
	if !isNull(p.Cursor) {
		return invalidParams("Invalid params: there is no such cursor; the list has one page")
	}
	return nil
}

func checkGetPrompt(params json.RawMessage, tools *developer.Toolset) *rpcError {
	var p struct {
		Name      json.RawMessage `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(params, &p)
	if isNull(p.Name) || p.Name[0] != '"' {
		return invalidParams("Invalid params: name must be the name of a prompt")
	}
	var arguments map[string]json.RawMessage
	if !isNull(p.Arguments) && json.Unmarshal(p.Arguments, &arguments) != nil {
		return invalidParams("Invalid params: arguments must be an object of strings")
	}
	for name, value := range arguments {
		if isNull(value) || value[0] != '"' {
			return invalidParams("Invalid params: the argument %s must be a string", clip(fmt.Sprintf("%q", name)))
		}
	}
	if !slices.ContainsFunc(tools.Prompts(), func(known developer.Prompt) bool { return known.Name == text(p.Name) }) {
		_, err := tools.Prompt(text(p.Name), nil) // which says it in goose's words
		return errorOf(err)
	}
	return nil
}
