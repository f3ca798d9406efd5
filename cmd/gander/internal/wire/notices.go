package wire

import (
	"context"
	"errors"
	"fmt"

	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/canary"
	"gander.dev/gander/sandbox/outbound/notify"
)

// Notices returns the sender of the person's notices: nil where no address is set.
func (w *Wiring) Notices() (*notify.Sender, error) {
	n := w.Config().Notify
	if n.URL == "" {
		return nil, nil
	}
	s, err := notify.New(notify.Options{
		URL: n.URL.Reveal(), Format: n.Format, Token: w.Config().Variable(n.TokenEnv), Words: n.Words,
		Look: w.lookAtWords, Proxy: ProxyOf(w.Environ), Log: w.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("notify.url: %w", err)
	}
	return s, nil
}

// lookAtWords looks for content of the closed files of a project in words that are about to
// leave, unless its policy switches canaries off, and for the person's secrets.
func (w *Wiring) lookAtWords(ctx context.Context, dir, words string) error {
	if w.Secrets.HideIn(words) != words {
		return errors.New("they hold a secret of yours")
	}
	p, err := w.Policy(dir)
	if err != nil {
		return err
	}
	if p.Canaries == confine.CanariesOff || dir == "" {
		return nil
	}
	set := canary.NewSet()
	report, err := set.Read(ctx, dir, "", w.Rules().Own)
	if err != nil {
		return err
	}
	if from, found := set.Find([]byte(words)); found {
		return fmt.Errorf("they look like a secret of the closed file %s (line %d)", from.File, from.Line)
	}
	if report.Partial {
		return fmt.Errorf("not all closed files of %s could be looked at", dir)
	}
	return nil
}
