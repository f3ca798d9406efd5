package sessions

import (
	"encoding/json"
	"time"
)

// decodeRecord reads a line. It never fails: what it does not understand is an
// Unknown record. The record keeps line as its Raw.
func decodeRecord(line []byte) Record {
	var envelope struct {
		Type      Type   `json:"type"`
		ID        string `json:"id"`
		TurnID    string `json:"turnId"`
		Timestamp int64  `json:"timestamp"`
	}
	r := Record{Raw: line}
	if err := json.Unmarshal(line, &envelope); err != nil {
		r.Body = Unknown{Kind: typeOf(line)}
		return r
	}
	r.ID, r.TurnID = envelope.ID, envelope.TurnID
	if envelope.Timestamp != 0 {
		r.Time = time.UnixMilli(envelope.Timestamp)
	}
	body, err := decodeBody(envelope.Type, line)
	if err != nil {
		body = Unknown{Kind: envelope.Type}
	}
	r.Body = body
	if h, ok := body.(Header); ok {
		r.Time = h.CreatedAt
	}
	return r
}

// typeOf is the type of a record whose envelope is not ours in other ways.
func typeOf(line []byte) Type {
	var envelope struct {
		Type json.RawMessage `json:"type"`
	}
	var t Type
	if json.Unmarshal(line, &envelope) == nil {
		_ = json.Unmarshal(envelope.Type, &t) // not a string: unknown
	}
	return t
}

func decodeBody(t Type, line []byte) (Body, error) {
	switch t {
	case TypeSession:
		return decodeAs[Header](line)
	case TypeMessage:
		return decodeAs[Message](line)
	case TypeCompaction:
		return decodeAs[Compaction](line)
	case TypeUpdate:
		return decodeAs[Update](line)
	case TypePermission:
		return decodeAs[Permission](line)
	case TypeElicitation:
		return decodeAs[Elicitation](line)
	case TypeTurn:
		return decodeAs[TurnEvent](line)
	case TypeAgent:
		return decodeAs[AgentEvent](line)
	case TypeNotice:
		return decodeAs[Notice](line)
	case TypeNetwork:
		return decodeAs[Network](line)
	case TypeConfig:
		return decodeAs[ConfigChange](line)
	case TypeTitle:
		return decodeAs[Title](line)
	case TypeFork:
		return decodeAs[Fork](line)
	case TypePrune:
		return decodeAs[Prune](line)
	case TypeChanges:
		return decodeAs[Changes](line)
	default:
		return Unknown{Kind: t}, nil
	}
}

func decodeAs[B Body](line []byte) (Body, error) {
	var b B
	err := json.Unmarshal(line, &b)
	return b, err
}
