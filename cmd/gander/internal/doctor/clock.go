package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
)

// maxSkew is how wrong a clock may be before certificates and tokens suffer.
const maxSkew = 2 * time.Minute

// examineClock compares this machine's clock with the endpoint's.
func examineClock(ctx context.Context, a *cli.App) Check {
	endpoint, _ := a.Config.Endpoint(a.Config.Agent) // without an address there is nobody to ask
	if endpoint.BaseURL == "" {
		return Check{ID: checkClock, State: checkSkip, What: "there is no endpoint whose clock could be compared"}
	}
	theirs, ours, err := dateOf(ctx, a, endpoint.BaseURL)
	if err != nil {
		return Check{ID: checkClock, State: checkSkip, What: "the endpoint does not say what time it is"}
	}
	skew := ours.Sub(theirs).Round(time.Minute)
	if skew.Abs() <= maxSkew {
		return Check{ID: checkClock, State: CheckOK, What: "this machine's clock agrees with the endpoint's"}
	}
	word := "ahead of"
	if skew < 0 {
		word = "behind"
	}
	return Check{
		ID: checkClock, State: checkWarn, What: fmt.Sprintf("this machine's clock is %s %s the endpoint's", strings.TrimSuffix(skew.Abs().String(), "0s"), word),
		Next: "set the clock (timedatectl set-ntp true); certificates and keys are refused when it is wrong",
	}
}

// dateOf is the endpoint's time and this machine's at the same moment. Nothing
// secret is sent, and the certificate does not count: a wrong clock is a reason
// why it does not hold.
func dateOf(ctx context.Context, a *cli.App, address string) (theirs, ours time.Time, err error) {
	ctx, stop := context.WithTimeout(ctx, modelTimeout)
	defer stop()
	transport := &http.Transport{
		Proxy:           wire.ProxyOf(a.Environ),
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
