package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/unattended/keeper"
)

const (
	healthTime = 5 * time.Second
)

// examineServe asks the control plane of this home whether it is well; where none
// runs it looks whether one could.
func examineServe(ctx context.Context, a *cli.App) Check {
	if !wire.Serving(a) {
		return examinePort(ctx)
	}
	s, err := keeper.Served(a.Config.Home)
	if err == nil {
		err = healthy(ctx, s.URL)
	}
	if err != nil {
		return Check{ID: checkServe, State: checkWarn, What: fmt.Sprintf("a control plane runs for this home, but does not answer: %v", err), Next: "end that gander serve and start it again; unattended runs go on meanwhile"}
	}
	return Check{ID: checkServe, State: CheckOK, What: fmt.Sprintf("the control plane runs at %s (process %d)", s.URL, s.PID)}
}

func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/health answers with status %d", url, resp.StatusCode)
	}
	return nil
}

// examinePort looks whether gander serve could listen where it does by default.
func examinePort(ctx context.Context) Check {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", cli.UsualListen)
	if err != nil {
		return Check{ID: checkServe, State: CheckOK, What: "gander serve is not running; another program has " + cli.UsualListen + ", so it needs an address of its own, as in --listen 127.0.0.1:3001"}
	}
	_ = l.Close()
	return Check{ID: checkServe, State: CheckOK, What: "gander serve is not running, and could: " + cli.UsualListen + " is free"}
}
