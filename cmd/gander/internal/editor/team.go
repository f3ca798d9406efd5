package editor

import (
	"context"
	"net"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/team/orchestrator"
)

// teamOf connects the orchestrator to the agents that get tasks: to a router of its own in
// this process, with what the router has that its session is of.
func teamOf(w *wire.Wiring, of router.Options) func(acp.SessionID, acp.Client) (orchestrator.Team, error) {
	return func(parent acp.SessionID, c acp.Client) (orchestrator.Team, error) {
		o := of
		o.Agents, o.Parent = w.Agents(), parent
		o.Spares, o.Loops, o.Setup, o.Ports = 0, nil, router.Setup{}, nil
		o.CancelDeadline /= 2 // the orchestrator has to answer in time, too
		inner, outer := net.Pipe()
		ctx, stop := context.WithCancel(context.Background())
		made, served := make(chan *router.Router, 1), make(chan error, 1)
		go func() {
			served <- acp.ServeAgent(ctx, inner, func(client *acp.ClientConn) acp.Agent {
				r := router.New(client, o)
				made <- r
				return r
			}, &acp.Options{Log: w.Log})
		}()
		r, conn := <-made, acp.DialAgent(outer, c, &acp.Options{Log: w.Log})
		return orchestrator.Team{AgentConn: conn, Close: func() {
			r.Close()
			_ = conn.Close()
			stop()
			if err := <-served; err != nil {
				w.Log.Debug("the connection to the orchestrator's agents has ended", "err", err)
			}
			r.Close() // what was opened while it closed
		}}, nil
	}
}
