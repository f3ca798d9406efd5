package gateway

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// methods are the paths that exist inside, and the method of each, by protocol.
var methods = map[Protocol]map[string]string{
	OpenAI: {
		"/v1/chat/completions": http.MethodPost,
		"/v1/completions":      http.MethodPost,
		"/v1/responses":        http.MethodPost,
		"/v1/embeddings":       http.MethodPost,
		"/v1/models":           http.MethodGet,
	},
	Anthropic: {
		messagesPath: http.MethodPost,
		countPath:    http.MethodPost,
		"/v1/models": http.MethodGet,
	},
}

// allowed says what exists inside.
var allowed = map[Protocol]string{
	OpenAI:    "this sandbox reaches only the model: POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, and GET /v1/models",
	Anthropic: "this sandbox reaches only the model, in Anthropic's protocol: POST /v1/messages, /v1/messages/count_tokens, and GET /v1/models",
}

// admit says why a request may not pass, or returns "". The path is compared as
// it was sent, so that no spelling of another path gets through.
func (p Protocol) admit(r *http.Request) string {
	target, _, _ := strings.Cut(r.RequestURI, "?")
	method, known := methods[p][target]
	switch {
	case r.Method == http.MethodConnect:
		return "CONNECT is refused"
	case !strings.HasPrefix(target, "/"):
		return "an absolute URL is refused"
	case !loopback(r.Host):
		return fmt.Sprintf("the host %q is refused", short(r.Host))
	case r.Header.Get("Upgrade") != "":
		return "an upgrade of the connection is refused"
	case !known:
		return fmt.Sprintf("the path %q is refused", short(target))
	case r.Method != method:
		return fmt.Sprintf("%s %s is refused", short(r.Method), target)
	}
	return ""
}

// loopback reports whether host is what a client of the door inside says, which
// is a loopback address; HTTP/1.0 clients need not say any.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "" || strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// short keeps what a client sent from filling a log.
func short(text string) string {
	if len(text) > 200 {
		return text[:200] + "..."
	}
	return text
}

// writeError answers with an error in the shape of the API.
func writeError(w http.ResponseWriter, status int, code, message string) {
	type detail struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	}
	data, err := json.Marshal(map[string]detail{"error": {message, "gateway_error", code}})
	if err != nil {
		panic(err) // strings always marshal
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that is gone needs no answer
}
