package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"gander.dev/gander/sessions"
)

func Example() {
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sessions.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	transcript, err := store.Create(sessions.Header{SessionID: "demo", AgentID: "goose", WorkingPath: "/project"})
	if err != nil {
		log.Fatal(err)
	}
	defer transcript.Close()
	for _, body := range []sessions.Body{
		sessions.Message{Role: sessions.RoleUser, Content: "Which files are here?"},
		sessions.Update{Update: json.RawMessage(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Only "}}`)},
		sessions.Update{Update: json.RawMessage(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"go.mod."}}`)},
	} {
		if err := transcript.Append(sessions.Record{TurnID: "1", Body: body}); err != nil {
			log.Fatal(err)
		}
	}
	if err := transcript.Sync(context.Background()); err != nil {
		log.Fatal(err)
	}
	history, err := store.History(context.Background(), "demo", 10_000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(history)
	// Output:
	// User: Which files are here?
	// Assistant: Only go.mod.
}
