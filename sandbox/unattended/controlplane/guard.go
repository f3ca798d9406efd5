package controlplane

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// policy is the page's: it loads nothing from elsewhere and runs no inline script, so
// that a text of an agent that got into it by mistake stays a text; browsers that know
// trusted types refuse to make markup of a text at all.
const policy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// headers are on every answer.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// hosts are the values of Host that name this server.
type hosts map[string]bool

func newHosts(listen string, allow []string) hosts {
	h := hosts{}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = listen, "80"
	}
	for _, name := range []string{host, "localhost", "127.0.0.1", "::1"} {
		if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
			continue
		}
		h.add(net.JoinHostPort(name, port))
	}
	for _, name := range allow {
		h.add(name)
	}
	return h
}

func (h hosts) add(host string) { h[withPort(host, "80")] = true }

// withPort completes a host that has no port, as browsers leave out the usual one.
func withPort(host, usual string) string {
	host = strings.ToLower(host)
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), usual)
}

// checkHost refuses a request that was meant for another name. A page of elsewhere whose
// name resolves to this machine (DNS rebinding) sends that name.
func (h hosts) checkHost(r *http.Request) error {
	if h[withPort(r.Host, "80")] || ownAddress(r) {
		return nil
	}
	return fail(http.StatusForbidden, "this server is not %q: use the address that gander serve has printed, or start it with --allow-host %s", r.Host, r.Host)
}

// ownAddress says whether Host is the very address at which the request came in: an
// address in numbers resolves to nothing else, so nobody else's page can be behind it.
func ownAddress(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && withPort(r.Host, "80") == strings.ToLower(local.String())
}

// checkOrigin refuses what a page of elsewhere sends. Programs send no Origin.
func (h hosts) checkOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		same := strings.EqualFold(withPort(u.Host, usual), withPort(r.Host, usual))
		if same || h[withPort(u.Host, usual)] || u.Scheme == "https" && h[withPort(u.Host, "80")] {
			return nil
		}
	}
	return fail(http.StatusForbidden, "a page of %s may not do this", origin)
}
