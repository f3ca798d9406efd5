package gateway

import (
	"crypto/subtle"
	"net/http"
	"strings"
)

// Token is what calls from inside must carry where a key belongs: as the bearer
// token, or in the header Api-Key or X-Api-Key. It is random, another one for
// every gateway, and worth nothing outside: the endpoint never sees it. It keeps
// a door that others can reach too, where there is no network of the sandbox's
// own, from being their way to the key.
func (g *Gateway) Token() string { return g.token }

// authentic reports whether a request carries the token.
func (g *Gateway) authentic(h http.Header) bool {
	scheme, bearer, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		bearer = ""
	}
	for _, given := range []string{strings.TrimSpace(bearer), h.Get("Api-Key"), h.Get("X-Api-Key")} {
		if subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1 {
			return true
		}
	}
	return false
}
