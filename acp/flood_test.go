package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// waitingClient answers nothing before the connection ends.
type waitingClient struct{}

func (waitingClient) SessionUpdate(context.Context, *SessionNotification) error { return nil }

func (waitingClient) RequestPermission(ctx context.Context, _ *RequestPermissionRequest) (*RequestPermissionResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// What an agent asks is kept until it is answered, so that much of it is refused.
func TestUnansweredRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, agent := net.Pipe()
		conn := DialAgent(client, waitingClient{}, &Options{MaxLine: 1000})
		var refused atomic.Int32
		go func() {
			for lines := bufio.NewScanner(agent); lines.Scan(); {
				refused.Add(1)
			}
		}()
		for i := range 20 {
			for _, form := range []string{
				`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","t":"%s"},"options":[]}}`,
				`{"junk":%[2]q,"jsonrpc":"2.0","id":%[1]d,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}}`,
			} {
				if _, err := fmt.Fprintf(agent, form+"\n", i, strings.Repeat("x", 800)); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		if n := refused.Load(); n != 39 {
			t.Errorf("of 40 requests of 900 bytes %d were refused, want all but one", n)
		}
		_ = agent.Close()
		_ = conn.Close()
	})
}

// A client that does not read is given up for nothing that agents ask or say.
func TestAgentsDoNotExhaustASlowClient(t *testing.T) {
	for name, flood := range map[string]func(ctx context.Context, c *ClientConn, data string) error{
		"questions": func(ctx context.Context, c *ClientConn, data string) error {
			_, err := c.RequestPermission(ctx, &RequestPermissionRequest{SessionID: "s", ToolCall: json.RawMessage(`{"toolCallId":"t","rawInput":"` + data + `"}`)})
			return err
		},
		"requests": func(ctx context.Context, c *ClientConn, data string) error {
			_, err := c.Request(ctx, "fs/write_text_file", map[string]string{"content": data})
			return err
		},
		"updates that do not wait": func(ctx context.Context, c *ClientConn, data string) error {
			now, ended := context.WithCancel(ctx)
			ended()
			return c.SessionUpdate(now, &SessionNotification{SessionID: "s", Update: MessageChunk("other", "", data)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, agent := net.Pipe()
				l := newLink(t.Context(), agent, nil)
				l.limit = l.opts.MaxFrame
				c := &ClientConn{link: l}
				l.start(newDispatcher(l, c, nil))
				ctx, stop := context.WithCancel(t.Context())
				data := strings.Repeat("x", 900_000)
				for range 90 {
					go func() { _ = flood(ctx, c, data) }()
				}
				synctest.Wait()
				l.send([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`))
				if err := l.out.reason(); err != nil {
					t.Errorf("the connection ended: %v", err)
				}
				stop()
				synctest.Wait()
				_ = client.Close()
				_ = l.close()
			})
		})
	}
}

// A peer that talks nonsense does not fill the log.
func TestNonsenseIsLoggedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, agent := net.Pipe()
		var log bytes.Buffer
		conn := DialAgent(client, waitingClient{}, &Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		go func() { _, _ = io.Copy(io.Discard, agent) }()
		for range 500 {
			for _, line := range []string{"nonsense", `{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","method":"session/update","params":{}}`} {
				if _, err := fmt.Fprintln(agent, line); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		_ = agent.Close()
		_ = conn.Close()
		if n := strings.Count(log.String(), "\n"); n < maxComplaints || n > maxComplaints+1 {
			t.Errorf("%d lines are in the log, want %d and that there are more", n, maxComplaints)
		}
	})
}
