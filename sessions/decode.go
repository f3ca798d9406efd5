package sessions

import (
	"encoding/json"
	"time"

	"gander.dev/gander/acp"
)

// envelope is what every record has, and what an Update has beside it: nearly all of a
// transcript is updates, which are so read in one go.
type envelope struct {
	Type      Type            `json:"type"`
	ID        string          `json:"id"`
	TurnID    string          `json:"turnId"`
	Timestamp int64           `json:"timestamp"`
	Update    json.RawMessage `json:"update"`
	Sent      json.RawMessage `json:"sent"`
	Child     acp.SessionID   `json:"child"`
}

// decodeRecord reads a line. It never fails: what it does not understand is an
// Unknown record. The record keeps line as its Raw.
func decodeRecord(line []byte) Record {
	r := Record{Raw: line}
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		r.Body = Unknown{Kind: typeOf(line)}
		return r
	}
	r.ID, r.TurnID = e.ID, e.TurnID
	if e.Timestamp != 0 {
		r.Time = time.UnixMilli(e.Timestamp)
	}
	body, err := decodeBody(&e, line)
	if err != nil {
		body = Unknown{Kind: e.Type}
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

func decodeBody(e *envelope, line []byte) (Body, error) {
	switch e.Type {
	case TypeSession:
		return decodeAs[Header](line)
	case TypeMessage:
		return decodeAs[Message](line)
	case TypeCompaction:
		return decodeAs[Compaction](line)
	case TypeUpdate:
		u := Update{Update: e.Update, Child: e.Child}
		if len(e.Sent) == 0 {
			return u, nil
		}
		err := json.Unmarshal(e.Sent, &u.Sent)
		return u, err
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
	case TypeArchive:
		return decodeAs[Archive](line)
	case TypeChild:
		return decodeAs[Child](line)
	case TypeRewind:
		return decodeAs[Rewind](line)
	case TypeStep:
		return decodeAs[Step](line)
	default:
		return Unknown{Kind: e.Type}, nil
	}
}

// stringOf is a raw JSON string; empty for anything else.
func stringOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // anything else is as good as absent
	return s
}

func decodeAs[B Body](line []byte) (Body, error) {
	var b B
	err := json.Unmarshal(line, &b)
	return b, err
}
