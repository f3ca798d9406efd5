package mcp

import (
	"bufio"
	"bytes"
	"context"
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
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the server's lines in testdata/exchange and the tools in testdata/tools")

// TestExchange replays what a client sends and compares what the server answers,
// byte for byte. The sections of a file are played in order:
//
//	client  lines to send; the server is then left to come to rest
//	quoted  the same as Go strings, without adding line ends
//	server  every line that was sent since, in order
//	sleep   time goes by
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
			_, _ = p.toServer.Write(section.Data) // fails when the server has gone, as the golden will show
		case "quoted":
			_, _ = p.toServer.Write(unquote(t, section.Data))
		case "sleep":
			d, err := time.ParseDuration(strings.TrimSpace(string(section.Data)))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
		case "close":
			_ = p.toServer.Close()
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
	toServer io.WriteCloser
	served   chan error
	read     chan struct{}

	// mu guards what follows.
	mu    sync.Mutex
	lines bytes.Buffer
}

func newPlayer(t *testing.T) *player {
	in, toServer := io.Pipe()
	fromServer, out := net.Pipe()
	p := &player{toServer: toServer, served: make(chan error, 1), read: make(chan struct{})}
	options := Options{Version: "1.2.3", WorkingDir: "/server", HintFiles: []string{"AGENTS.md", ".goosehints"}, MaxLine: 4096}
	tools := fakeTools(t)
	go func() { p.served <- Serve(context.Background(), duplex{in, out}, tools, options) }()
	go func() {
		defer close(p.read)
		for lines := bufio.NewReader(fromServer); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			p.mu.Lock()
			p.lines.Write(line)
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *player) received() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.lines.Reset()
	return bytes.Clone(p.lines.Bytes())
}

func (p *player) stop(t *testing.T) {
	_ = p.toServer.Close()
	if err := <-p.served; err != nil {
		t.Errorf("serving: %v", err)
	}
	<-p.read
}

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
