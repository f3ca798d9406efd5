package wire

import (
	"context"
	"sync"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
)

// Follow follows changes of the configuration until the function it returns is
// called; sessions opened after a change use it.
func Follow(ctx context.Context, a *cli.App, w *Wiring) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		err := a.Config.Watch(ctx, func(cfg *config.Config, err error) { reloaded(a, w, cfg, err) })
		if err != nil && ctx.Err() == nil {
			a.Log.Warn("changes of the configuration are not followed; restart gander after one", "err", err)
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

func reloaded(a *cli.App, w *Wiring, cfg *config.Config, err error) {
	if err == nil {
		err = w.checkChoicesOf(cfg)
	}
	if err != nil {
		a.Log.Error("the changed configuration is not used: " + err.Error())
		return
	}
	a.Secrets.Learn(cfg.Secrets())
	a.SetLogLevel(cfg.Log.Level)
	w.SetConfig(cfg)
	a.Log.Info("the configuration has changed; new sessions use it")
}
