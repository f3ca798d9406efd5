package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"

	"github.com/sourcegraph/jsonrpc2"
)

const proxyName = "bench-proxy"

// ownSession is the session id that the proxy's client sees.
const ownSession = "proxy-1"

// proxy is the least that can be written between a client and an agent with two
// plain jsonrpc2 connections: it decodes every message, swaps the session id and
// passes it on. Notifications stay in order.
func proxy(agent string) error {
	cmd := exec.Command(agent, "acp")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &plainProxy{ready: make(chan struct{})}
	ctx := context.Background()
	p.client = jsonrpc2.NewConn(ctx, jsonrpc2.NewPlainObjectStream(duplex{os.Stdin, os.Stdout}), jsonrpc2.AsyncHandler(jsonrpc2.HandlerWithError(p.request)))
	p.agent = jsonrpc2.NewConn(ctx, jsonrpc2.NewPlainObjectStream(duplex{out, in}), jsonrpc2.HandlerWithError(p.update))
	close(p.ready)
	<-p.client.DisconnectNotify()
	_ = p.agent.Close()
	return cmd.Wait()
}

type plainProxy struct {
	ready         chan struct{} // closed when both connections are set
	client, agent *jsonrpc2.Conn
	session       string // the agent's; set by the answer to session/new
}

// request passes a request of the client on and its answer back.
func (p *plainProxy) request(ctx context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	<-p.ready
	if r.Params == nil {
		return nil, errors.New("no params")
	}
	params := bytes.ReplaceAll(*r.Params, []byte(ownSession), []byte(p.session))
	var result json.RawMessage
	if err := p.agent.Call(ctx, r.Method, json.RawMessage(params), &result); err != nil {
		return nil, err
	}
	if r.Method != "session/new" {
		return result, nil
	}
	var s struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal(result, &s); err != nil {
		return nil, err
	}
	p.session = s.SessionID
	return map[string]string{"sessionId": ownSession}, nil
}

// update passes a session/update of the agent on.
func (p *plainProxy) update(ctx context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	<-p.ready
	var n struct {
		SessionID string          `json:"sessionId"`
		Update    json.RawMessage `json:"update"`
	}
	if err := json.Unmarshal(*r.Params, &n); err != nil {
		return nil, err
	}
	n.SessionID = ownSession
	return nil, p.client.Notify(ctx, r.Method, n)
}

// duplex makes one stream of two.
type duplex struct {
	io.ReadCloser
	w io.WriteCloser
}

func (d duplex) Write(p []byte) (int, error) { return d.w.Write(p) }

func (d duplex) Close() error { return errors.Join(d.w.Close(), d.ReadCloser.Close()) }
