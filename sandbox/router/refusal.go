package router

import (
	"bytes"
	"encoding/json"
	"errors"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
)

// byPolicy is the data of the answer to a prompt that was refused.
const byPolicy = `{"refusedBy":"policy"}`

// Refused reports whether an error is a refusal of the person's policy, as of
// confine.Refused, also when it came from a Router over a connection.
func Refused(err error) bool {
	if confine.Refused(err) {
		return true
	}
	e, ok := errors.AsType[*acp.Error](err)
	return ok && bytes.Equal(marshal(e.Data), []byte(byPolicy))
}

// haltError is the cause of a turn's context when the person's policy ended the turn.
type haltError struct{ why string }

func (e *haltError) Error() string { return e.why }

// policyStop is what the _meta of a cancelled turn's response says, under metaKey, when
// it was the policy that ended the turn and not the client.
type policyStop struct {
	StoppedBy string `json:"stoppedBy"`
	Why       string `json:"why"`
}

const policyName = "policy"

// stopMeta is the _meta of a response to a turn that ended for a cause; none when the
// client cancelled it.
func stopMeta(cause error) json.RawMessage {
	halt, ok := errors.AsType[*haltError](cause)
	if !ok {
		return nil
	}
	return marshal(map[string]policyStop{metaKey: {policyName, halt.why}})
}

// StoppedByPolicy is why the person's policy ended a turn; empty when it did not.
func StoppedByPolicy(resp *acp.PromptResponse) string {
	var meta map[string]policyStop
	if json.Unmarshal(resp.Meta, &meta) != nil || meta[metaKey].StoppedBy != policyName {
		return ""
	}
	return meta[metaKey].Why
}
