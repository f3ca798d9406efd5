package sessions_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
	"go.uber.org/goleak"
)

// helperEnv makes the test binary a process that appends to a store.
const helperEnv = "SESSIONS_TEST_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		if err := appendForever(dir, acp.SessionID(os.Args[1])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if chaos := os.Getenv(chaosEnv); chaos != "" {
		if err := runChaos(chaos[1:], sessions.SyncPolicy(chaos[0]-'0')); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// appendForever appends numbered updates and prints the number of each that is
// synced, until its standard output is gone.
func appendForever(dir string, id acp.SessionID) error {
	s, err := sessions.Open(dir, nil)
	if err != nil {
		return err
	}
	t, _, err := s.Resume(context.Background(), id)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := t.Append(numbered(os.Args[2], i)); err != nil {
			return err
		}
		if i%100 != 99 {
			continue
		}
		if err := t.Sync(context.Background()); err != nil {
			return err
		}
		if _, err := fmt.Println(i); err != nil {
			return t.Close()
		}
	}
}
