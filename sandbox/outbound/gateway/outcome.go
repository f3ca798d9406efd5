package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// outcome is the last event of a call.
func (g *Gateway) outcome(c *call) Event {
	e := c.event
	e.Duration = time.Since(c.start)
	e.Status = c.status
	said := ""
	if c.body != nil {
		e.Bytes, said = c.body.bytes, c.body.message()
	}
	e.Usage = c.used()
	e.Kind, e.Message, e.Retry = g.verdict(c, said)
	if no, ok := errors.AsType[*refusal](c.err); ok {
		e.Status = no.status
	}
	if e.Status == 0 && (e.Kind == Unreachable || e.Kind == Untrusted) {
		e.Status = http.StatusBadGateway
	}
	e.Message = g.mask.text(e.Message)
	return e
}

// verdict says how a call ended, in a kind and a sentence, and whether agents retry.
func (g *Gateway) verdict(c *call, said string) (Kind, string, bool) {
	host := g.endpoint.root.Host
	ended := c.body != nil && errors.Is(c.body.err, io.EOF)
	switch {
	case errors.Is(context.Cause(c.ctx), errAborted) && !ended:
		return Aborted, "The model call was cancelled.", false
	case c.ctx.Err() != nil && !ended:
		return Cancelled, "The agent gave up waiting for the model.", false
	case c.err != nil && c.limit.final:
		return g.badStatus(c, said)
	case c.err != nil:
		return g.noAnswer(c)
	case c.status >= 300:
		return g.badStatus(c, said)
	case c.body == nil || c.body.err != nil && !ended:
		return Broken, fmt.Sprintf("The answer of the model at %s broke off%s.", host, g.retries()), true
	case said != "":
		return Broken, fmt.Sprintf("The model at %s failed while answering: %s.", host, said), true
	}
	return Finished, "The model has answered.", false
}

// WillRetry is in the texts of failures after which agents ask again. Once the agent has
// ended its turn it is not true any more.
const WillRetry = "; the agent will retry"

// retries returns the words for what agents do after a failure that may pass.
func (g *Gateway) retries() string {
	if g.opts.Retries {
		return WillRetry
	}
	return ""
}

// noTools matches the words of endpoints whose model takes no tools.
var noTools = regexp.MustCompile(`(?i)(not support|unsupported|no endpoints? found that support)[a-z ]* (tool|function)|(tool|function)[a-z ]* (not|isn't|aren't) (supported|available)`)

func (g *Gateway) badStatus(c *call, said string) (Kind, string, bool) {
	status := c.status
	said = strings.TrimRight(compacted(said), ".")
	root := g.endpoint.root
	text := fmt.Sprintf("%d %s", status, http.StatusText(status))
	because := ""
	if said != "" {
		because = ": " + said
	}
	switch {
	case (status == 401 || status == 403) && g.endpoint.APIKey == "":
		return BadKey, fmt.Sprintf("The model endpoint %s wants a key and none is configured (%s); set LLM_API_KEY.", root.Host, text), false
	case (status == 401 || status == 403) && g.endpoint.KeySource != "":
		return BadKey, fmt.Sprintf("The model endpoint %s refused the key from %s (%s); put a valid one there.", root.Host, g.endpoint.KeySource, text), false
	case status == 401 || status == 403:
		return BadKey, fmt.Sprintf("The model endpoint %s refused the key (%s); set LLM_API_KEY to a valid one.", root.Host, text), false
	case (status == 400 || status == 404 || status == 422) && noTools.MatchString(said):
		return Rejected, fmt.Sprintf("The model endpoint %s takes no tools for this model (%s)%s; agents work by tools: choose a model that takes them.", root.Host, text, because), false
	case status == 404:
		return NotFound, fmt.Sprintf("The model endpoint %s does not know the model or the path (%s)%s; check LLM_HOST and the model's name.", root, text, because), false
	case status == 429:
		return RateLimited, fmt.Sprintf("The model endpoint %s wants fewer requests (%s)%s%s.", root.Host, text, because, c.limit.words(g.opts.Retries)), !c.limit.final
	case status >= 500:
		return ServerError, fmt.Sprintf("The model endpoint %s failed (%s)%s%s.", root.Host, text, because, c.limit.words(g.opts.Retries)), !c.limit.final
	}
	return Rejected, fmt.Sprintf("The model endpoint %s rejected the request (%s)%s.", root.Host, text, because), false
}

// noAnswer explains why there was no answer that could be passed on.
func (g *Gateway) noAnswer(c *call) (Kind, string, bool) {
	root := g.endpoint.root
	if _, ok := errors.AsType[*http.MaxBytesError](c.err); ok {
		return Refused, refused(g.tooLarge()), false
	}
	if no, ok := errors.AsType[*refusal](c.err); ok && no.code == pausedCode {
		return Paused, no.message, false
	} else if ok {
		return Refused, refused(no.message), false
	}
	if no, ok := errors.AsType[*noAnswer](c.err); ok {
		return Rejected, strings.ToUpper(no.why[:1]) + no.why[1:] + ".", false
	}
	if errors.Is(c.err, errRedirect) {
		return Rejected, fmt.Sprintf("The model endpoint %s redirects to %s (%d); set LLM_HOST to the final address.", root, c.target, c.status), false
	}
	if errors.Is(c.err, errEncoding) || errors.Is(c.err, errUpgrade) {
		return Rejected, fmt.Sprintf("The model endpoint %s answers in a way that agents cannot read: %v.", root.Host, c.err), false
	}
	if why := tlsTrouble(c.err, root.Hostname()); why != "" {
		return Untrusted, why, false
	}
	return Unreachable, fmt.Sprintf("The model endpoint %s cannot be reached: %s; check LLM_HOST and the network.", root, plain(c.err)), true
}

// tlsTrouble explains errors of TLS; it returns "" for others.
func tlsTrouble(err error, host string) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Sprintf("The certificate of %s is signed by an authority that this machine does not know; install ca-certificates or set SSL_CERT_FILE to its CA bundle.", host)
	}
	if _, ok := errors.AsType[x509.SystemRootsError](err); ok {
		return "This machine has no certificate authorities; install ca-certificates or set SSL_CERT_FILE to a CA bundle."
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("The certificate that %s shows is for another name; check LLM_HOST.", host)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return fmt.Sprintf("The certificate of %s has expired or is not valid yet; check this machine's clock, or renew the certificate.", host)
		}
		return fmt.Sprintf("The certificate of %s is not valid: %v.", host, invalid)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Sprintf("%s does not speak TLS on this port; use http:// in LLM_HOST if that is intended.", host)
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return fmt.Sprintf("%s refused the TLS connection: %v.", host, alert)
	}
	return ""
}

// plain is a network error without Go's decoration.
func plain(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "there is no host of that name"
		}
		return "its name cannot be looked up: " + dns.Err
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "it did not answer in time"
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it closed the connection without an answer"
	}
	return err.Error()
}
