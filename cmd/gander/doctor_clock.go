package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// maxSkew is how wrong a clock may be before certificates and tokens suffer.
const maxSkew = 2 * time.Minute

// examineClock compares this machine's clock with the endpoint's.
func (a *app) examineClock(ctx context.Context) check {
	endpoint, _ := a.cfg.Endpoint(a.cfg.Agent) // without an address there is nobody to ask
	if endpoint.BaseURL == "" {
		return check{ID: checkClock, State: checkSkip, What: "there is no endpoint whose clock could be compared"}
	}
	theirs, ours, err := a.dateOf(ctx, endpoint.BaseURL)
	if err != nil {
		return check{ID: checkClock, State: checkSkip, What: "the endpoint does not say what time it is"}
	}
	skew := ours.Sub(theirs).Round(time.Minute)
	if skew.Abs() <= maxSkew {
		return check{ID: checkClock, State: checkOK, What: "this machine's clock agrees with the endpoint's"}
	}
	word := "ahead of"
	if skew < 0 {
		word = "behind"
	}
	return check{
		ID: checkClock, State: checkWarn, What: fmt.Sprintf("this machine's clock is %s %s the endpoint's", strings.TrimSuffix(skew.Abs().String(), "0s"), word),
		Next: "set the clock (timedatectl set-ntp true); certificates and keys are refused when it is wrong",
	}
}

// dateOf is the endpoint's time and this machine's at the same moment. Nothing
// secret is sent, and the certificate does not count: a wrong clock is a reason
// why it does not hold.
func (a *app) dateOf(ctx context.Context, address string) (theirs, ours time.Time, err error) {
	ctx, stop := context.WithTimeout(ctx, modelTimeout)
	defer stop()
	transport := &http.Transport{
		Proxy:           proxyOf(a.environ),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // see above
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return theirs, ours, err
	}
	before := time.Now()
	res, err := transport.RoundTrip(req) // redirects are not followed
	if err != nil {
		return theirs, ours, err
	}
	_ = res.Body.Close()
	theirs, err = http.ParseTime(res.Header.Get("Date"))
	return theirs, before.Add(time.Since(before) / 2), err
}
