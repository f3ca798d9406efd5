package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

// An Endpoint is the model API that a Gateway reaches.
type Endpoint struct {
	// BaseURL is the address as in LLM_HOST, without /v1 ("https://api.example.com").
	BaseURL string
	// Protocol is that of its calls; empty means OpenAI's.
	Protocol Protocol
	// Exact says that BaseURL is the root of the API as it is.
	Exact bool
	// APIKey is sent as a bearer token, or as it is in the header KeyHeader; Anthropic's protocol
	// has X-Api-Key unless that is set. An empty key sends none.
	APIKey, KeyHeader string
	// KeySource is where the key is from, in words for people; may be empty.
	KeySource string
	// Headers are sent with every request, also those that the agent may not send. Their
	// values are treated as secrets.
	Headers map[string]string
	// RootCAs are the certificate authorities to trust; nil means the system's.
	RootCAs *x509.CertPool
	// Model is the model that Check tries when the endpoint does not list models.
	Model string
}

// String returns the address only: an Endpoint may end up in a log.
func (e Endpoint) String() string { return e.BaseURL }

// LogValue is String for slog.
func (e Endpoint) LogValue() slog.Value { return slog.StringValue(e.String()) }

// endpoint is a checked Endpoint.
type endpoint struct {
	Endpoint
	root *url.URL // of the API: /v1 or another version is its last element
}

// version is the last element of a base that is already the root of an API.
var version = regexp.MustCompile(`^v[0-9][0-9a-z]*$`)

func newEndpoint(e Endpoint) (*endpoint, error) {
	if e.BaseURL == "" {
		return nil, errors.New("no model endpoint is configured; set LLM_HOST to its address, without /v1")
	}
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the address of the model endpoint is not an http or https URL; set LLM_HOST to one like https://api.example.com")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the address of the model endpoint at %s has more than host and path; set LLM_HOST without it, and the key in LLM_API_KEY", u.Host)
	}
	if strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions") {
		return nil, fmt.Errorf("the address of the model endpoint, %s, is that of one method; set LLM_HOST to what comes before /v1", u)
	}
	if err := checkHeaders(e); err != nil {
		return nil, err
	}
	root := apiRoot(u)
	if e.Exact {
		root = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path.Clean("/" + u.Path)}
	}
	return &endpoint{Endpoint: e, root: root}, nil
}

func apiRoot(base *url.URL) *url.URL {
	p := path.Clean("/" + base.Path)
	if !version.MatchString(path.Base(p)) {
		p = path.Join(p, "v1")
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: p}
}

// checkHeaders refuses what cannot be sent; the values are not repeated.
func checkHeaders(e Endpoint) error {
	if !sendable(e.APIKey) {
		return errors.New("the key of the model endpoint has a line break or another control character in it; set LLM_API_KEY again")
	}
	if strings.ContainsAny(e.KeyHeader, " :\r\n\t") {
		return fmt.Errorf("%q is no header that could take the key", e.KeyHeader)
	}
	for name, value := range e.Headers {
		if name == "" || strings.ContainsAny(name, " :\r\n\t") || !sendable(value) {
			return fmt.Errorf("the header %q for the model endpoint cannot be sent; check its name and value", name)
		}
	}
	return nil
}

func sendable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// url returns the address outside of an allowed path inside.
func (e *endpoint) url(inside string) *url.URL {
	return e.root.JoinPath(strings.TrimPrefix(inside, "/v1"))
}

// authorize adds the endpoint's credentials.
func (e *endpoint) authorize(h http.Header) {
	switch header := e.keyHeader(); {
	case e.APIKey == "":
	case header == bearerHeader:
		h.Set(header, "Bearer "+e.APIKey)
	default:
		h.Set(header, e.APIKey)
	}
	if e.Protocol == Anthropic && h.Get(versionHeader) == "" {
		h.Set(versionHeader, anthropicVersion)
	}
	for name, value := range e.Headers {
		h.Set(name, value)
	}
}

const bearerHeader = "Authorization"

// keyHeader is the header that takes the key; of bearerHeader it is a bearer token.
func (e *endpoint) keyHeader() string {
	switch {
	case e.KeyHeader != "":
		return http.CanonicalHeaderKey(e.KeyHeader)
	case e.Protocol == Anthropic:
		return "X-Api-Key"
	}
	return bearerHeader
}

// passed are the request headers that pass from inside: what the body is, and whose call
// it is. Others choose accounts, or with some endpoints where a call goes with its key.
var passed = []string{
	"Accept", "Content-Type", "Content-Encoding", "User-Agent", "Idempotency-Key", "X-Request-Id",
	"Agent-Session-Id",                   // goose
	"X-Session-Id", "X-Session-Affinity", // opencode
}

func (e *endpoint) secrets() []string {
	secrets := []string{e.APIKey}
	for _, value := range e.Headers {
		secrets = append(secrets, value)
	}
	return secrets
}

func newTransport(o Options) *http.Transport {
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  o.Proxy,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.Endpoint.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    15 * time.Second,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		IdleConnTimeout:        60 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}
