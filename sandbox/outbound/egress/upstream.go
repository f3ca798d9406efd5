package egress

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ownLookupTime bounds the looking up of a name that this machine's proxy resolves.
const ownLookupTime = 2 * time.Second

// upstream is the proxy of this machine that carries connections to a host; nil for none.
func (d *Door) upstream(host string, port int) (*url.URL, error) {
	if d.opts.Proxy == nil {
		return nil, nil
	}
	scheme := "https"
	if port == httpPort {
		scheme = "http"
	}
	to := &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, strconv.Itoa(port))}
	via, err := d.opts.Proxy(&http.Request{URL: to})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the proxy that this machine's environment names cannot be used: %w", err)
	case via != nil && via.Scheme != "http" && via.Scheme != "https":
		return nil, fmt.Errorf("the proxy that this machine's environment names is of the kind %s; name one of http or https, or the host in NO_PROXY", via.Scheme)
	}
	return via, nil
}

// connectBy has the proxy connect to a host, by CONNECT. What it needs to know whom it serves
// is said to it alone.
func (d *Door) connectBy(ctx context.Context, via *url.URL, host string, port int) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, connectTime)
	defer done()
	at := net.JoinHostPort(via.Hostname(), cmp.Or(via.Port(), map[string]string{"http": "80", "https": "443"}[via.Scheme]))
	c, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("connecting to the proxy of this machine: %w", err)
	}
	if via.Scheme == "https" {
		c = tls.Client(c, &tls.Config{ServerName: via.Hostname(), MinVersion: tls.VersionTLS12})
	}
	if !d.keep(c) {
		return nil, ErrClosed
	}
	made := &kept{Conn: c, door: d}
	stop := context.AfterFunc(ctx, func() { _ = made.Close() })
	rest, err := askProxy(c, via, net.JoinHostPort(host, strconv.Itoa(port)))
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = made.Close()
		return nil, fmt.Errorf("the proxy of this machine, %s, makes no connection to %s: %w", via.Host, host, err)
	}
	return &early{Conn: made, first: rest}, nil
}

// askProxy asks a proxy for a connection and returns what has come by it already.
func askProxy(c net.Conn, via *url.URL, to string) (rest []byte, err error) {
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: to}, Host: to, Header: http.Header{}}
	if user := via.User; user != nil {
		password, _ := user.Password()
		ask.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := ask.Write(c); err != nil {
		return nil, err
	}
	read := bufio.NewReader(c)
	res, err := http.ReadResponse(read, ask)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", short(res.Status))
	}
	rest, _ = read.Peek(read.Buffered()) // what is buffered can be peeked
	return rest, nil
}
