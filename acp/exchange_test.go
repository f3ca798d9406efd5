package acp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
)

var update = flag.Bool("update", false, "rewrite the server's lines in testdata/exchange")

// TestExchange replays what a client sends and compares what the agent's end
// answers, byte for byte. The sections of a file are played in order:
//
//	client  lines to send; the agent is then left to come to rest
//	quoted  the same as Go strings, without adding line ends
//	server  every line that was sent since, in order
//	close   the client closes its end
//
// -update rewrites the server sections.
func TestExchange(t *testing.T) {
	files, err := filepath.Glob("testdata/exchange/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			script, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { play(t, name, script) })
		})
	}
}

func play(t *testing.T, name string, script *txtar.Archive) {
	p := newPlayer(t)
	for i, section := range script.Files {
		switch section.Name {
		case "client":
			p.send(section.Data)
		case "quoted":
			p.send(unquote(t, section.Data))
		case "close":
			_ = p.toAgent.Close()
		case "server":
			got := p.received()
			if *update {
				script.Files[i].Data = got
			} else if diff := cmp.Diff(string(section.Data), string(got)); diff != "" {
				t.Errorf("%s, section %d, server lines (-want +got):\n%s", name, i, diff)
			}
		default:
			t.Fatalf("unknown section %q", section.Name)
		}
		synctest.Wait()
	}
	if rest := p.received(); len(rest) > 0 {
		t.Errorf("lines behind the last server section:\n%s", rest)
	}
	p.stop(t)
	if *update {
		if err := os.WriteFile(name, txtar.Format(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// player is the client of an exchange.
type player struct {
	toAgent io.WriteCloser
	served  chan error
	read    chan struct{}

	// mu guards what follows.
	mu    sync.Mutex
	lines bytes.Buffer
}

func newPlayer(t *testing.T) *player {
	in, toAgent := io.Pipe()
	fromAgent, out := net.Pipe()
	p := &player{toAgent: toAgent, served: make(chan error, 1), read: make(chan struct{})}
	agent := &acptest.Agent{OnPrompt: scripted}
	go func() { p.served <- acp.ServeAgent(t.Context(), duplex{in, out}, agent.New, nil) }()
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(fromAgent); lines.Scan(); {
			p.mu.Lock()
			p.lines.Write(append(lines.Bytes(), '\n'))
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *player) send(data []byte) {
	_, _ = p.toAgent.Write(data) // fails when the agent has gone, as the golden will show
}

func (p *player) received() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.lines.Reset()
	return bytes.Clone(p.lines.Bytes())
}

func (p *player) stop(t *testing.T) {
	_ = p.toAgent.Close()
	if err := <-p.served; err != nil {
		t.Errorf("serving: %v", err)
	}
	<-p.read
}

// duplex is a stream of two.
type duplex struct {
	io.ReadCloser
	w io.WriteCloser
}

func (d duplex) Write(p []byte) (int, error) { return d.w.Write(p) }
func (d duplex) Close() error                { return errors.Join(d.ReadCloser.Close(), d.w.Close()) }

func unquote(t *testing.T, data []byte) (out []byte) {
	for line := range strings.Lines(string(data)) {
		s, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, s...)
	}
	return out
}

// scripted runs the turn that the prompt's text asks for.
func scripted(ctx context.Context, client *acp.ClientConn, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	send := func(update json.RawMessage) {
		_ = client.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: update})
	}
	verb, rest, _ := strings.Cut(acp.ParseContentBlock(req.Prompt[0]).Text, " ")
	switch verb {
	case "say":
		for word := range strings.FieldsSeq(rest) {
			send(acp.MessageChunk(acp.AgentMessageChunk, "m1", word))
		}
	case "send": // raw updates, one per content block
		for _, block := range req.Prompt[1:] {
			send(json.RawMessage(acp.ParseContentBlock(block).Text))
		}
	case "ask":
		resp, err := client.RequestPermission(ctx, &acp.RequestPermissionRequest{
			SessionID: req.SessionID, ToolCall: json.RawMessage(`{"toolCallId":"t1","title":"` + rest + `"}`),
			Options: []acp.PermissionOption{{OptionID: "yes", Name: "Allow", Kind: "allow_once"}},
		})
		if err != nil {
			return nil, err
		}
		send(acp.MessageChunk(acp.AgentMessageChunk, "", resp.Outcome.Outcome+" "+resp.Outcome.OptionID))
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "fail":
		return nil, errors.New(rest)
	case "panic":
		panic(rest)
	}
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
}
