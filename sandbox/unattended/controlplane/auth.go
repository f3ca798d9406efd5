package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// A kind says who sends a request; a route lists those it is for.
type kind int

const (
	nobody  kind = 1 << iota // shows nothing
	sandbox                  // the keeper of a run, with the run's token
	person                   // with the person's token
)

// A caller is who sends a request.
type caller struct {
	kind kind
	run  *Run // of a sandbox: its own
}

type callerKey struct{}

// callerOf is who sends a request; the guard has put it there.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// newToken makes a token of a sandbox, and the hash that is kept of it.
func newToken() (token string, hash []byte) {
	token = rand.Text() + rand.Text() // 256 bits
	return token, hashToken(token)
}

func hashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// identify says who a request is from: 401 for a token that nobody has.
func (p *Plane) identify(r *http.Request, rt *route) (caller, error) {
	token := bearer(r)
	if token == "" && rt.query {
		token = r.URL.Query().Get("token")
	}
	if token == "" {
		if p.compatible(r, rt) {
			return caller{kind: person}, nil
		}
		return caller{kind: nobody}, nil
	}
	hash := hashToken(token)
	if subtle.ConstantTimeCompare(hash, p.token) == 1 {
		return caller{kind: person}, nil
	}
	// The search is by the hash: how long it takes tells nothing about a token.
	run, err := readRun(r.Context(), p.db.read, whereToken, hash)
	if err != nil {
		return caller{}, err
	}
	if run == nil {
		return caller{}, fail(http.StatusUnauthorized, "this token is not known here: gander serve prints the one for people")
	}
	return caller{kind: sandbox, run: run}, nil
}

// compatible says whether a request without a token is from a client of the succeeded
// system, on this machine.
func (p *Plane) compatible(r *http.Request, rt *route) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return p.o.Compat && rt.old && err == nil && ip != nil && ip.IsLoopback()
}

// bearer is the token of the Authorization header.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// authorise says who a request is from, when the route is for them.
func (p *Plane) authorise(r *http.Request, rt *route) (*http.Request, error) {
	if rt.who&nobody != 0 {
		return r, nil
	}
	c, err := p.identify(r, rt)
	switch {
	case err != nil:
		return nil, err
	case c.kind == nobody:
		return nil, fail(http.StatusUnauthorized, "show the token that gander serve has printed: Authorization: Bearer …")
	case rt.who&c.kind == 0:
		return nil, fail(http.StatusForbidden, "the token of a sandbox is for its telemetry, its prompt and its mailbox")
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c)), nil
}
