package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strings"
	"time"
)

// serveHTTP takes what a client says to an HTTP proxy.
func (d *Door) serveHTTP(w http.ResponseWriter, r *http.Request) {
	t, _ := r.Context().Value(tunnelledKey{}).(*tunnelled)
	switch {
	case t != nil:
		d.serveTunnelled(w, r, t)
	case r.Method == http.MethodConnect:
		d.tunnelHTTP(w, r)
	case r.URL.IsAbs() && r.URL.Scheme == "http" && r.URL.Host != "" && r.URL.User == nil:
		d.pass(w, r, d.plain)
	case r.URL.IsAbs():
		d.refuse(w, http.StatusForbidden, r.URL.Scheme+"://"+r.URL.Host, "this proxy takes http:// addresses, and CONNECT for all else")
	default:
		d.refuse(w, http.StatusBadRequest, r.Host, "this is a proxy: send it the whole address, or CONNECT")
	}
}

// pass has a request inspected and forwarded.
func (d *Door) pass(w http.ResponseWriter, r *http.Request, by http.Handler) {
	r, err := d.inspectRequest(r)
	if err != nil {
		refuse(w, status(err), err.Error())
		return
	}
	by.ServeHTTP(w, r)
}

// refuse refuses what is decided about by its form alone.
func (d *Door) refuse(w http.ResponseWriter, status int, to, why string) {
	d.malformed(to, why)
	refuse(w, status, why)
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Connection", "close")
	http.Error(w, "gander: "+why, status)
}

// refuseNode refuses a tunnel of the package https-proxy-agent, which npm, pnpm and many other
// programs of Node use. It hands a proper refusal to the request as if the host had sent it, on a
// socket that cannot be written to. Node's agent then takes the next request that waits for
// a socket, finds the same, and so on without end: with more than 15 packages "npm ci" never
// gives up. A line that is no header ends it at once, and the program shows the line.
func refuseNode(w http.ResponseWriter, status int, why string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	why = strings.Join(strings.Fields(why), " ")
	why = strings.ReplaceAll(portOf.ReplaceAllString(why, " port $1"), ":", ",") // a colon makes a header
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\ngander, %s\r\nConnection: close\r\n\r\n", status, http.StatusText(status), why)
	_ = conn.Close()
}

// portOf matches the port behind a host.
var portOf = regexp.MustCompile(`:(\d+)\b`)

// refusalTime bounds how long a client may take to read that it is refused.
const refusalTime = 5 * time.Second

// status is how an error of reach is said in HTTP.
func status(err error) int {
	_, refused := errors.AsType[*errRefused](err)
	_, leak := errors.AsType[*leakError](err)
	if refused || leak {
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// tunnelHTTP serves CONNECT.
func (d *Door) tunnelHTTP(w http.ResponseWriter, r *http.Request) {
	name, port, err := target(r.RequestURI)
	if err != nil {
		d.refuse(w, http.StatusBadRequest, r.RequestURI, err.Error())
		return
	}
	ctx, done := d.scope(r.Context())
	defer done()
	to, err := d.reach(ctx, name, port)
	switch {
	case err != nil && r.UserAgent() == "" && r.Header.Get("Proxy-Connection") != "":
		refuseNode(w, status(err), err.Error())
		return
	case err != nil:
		refuse(w, status(err), err.Error())
		return
	}
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		return
	}
	_ = from.SetDeadline(time.Time{})
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	sent, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // what is buffered can be peeked
	d.tunnel(&early{Conn: from, first: append([]byte(nil), sent...)}, to, name, port)
}

// early is a connection of which something has been read already.
type early struct {
	net.Conn
	first []byte
}

func (e *early) Read(p []byte) (int, error) {
	if len(e.first) > 0 {
		n := copy(p, e.first)
		e.first = e.first[n:]
		return n, nil
	}
	return e.Conn.Read(p)
}

// CloseWrite ends what the other side reads.
func (e *early) CloseWrite() error {
	closeWrite(e.Conn)
	return nil
}

// scope is a request's context that also ends with the door.
func (d *Door) scope(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// target reads the host and port of a CONNECT.
func target(text string) (string, int, error) {
	name, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("CONNECT needs host:port, got %q", short(text))
	}
	n, err := parsePort(port)
	return name, n, err
}

// forwarder carries plain HTTP requests.
func (d *Door) forwarder() (http.Handler, func()) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			name, port, err := target(address)
			if err != nil {
				d.malformed(address, err.Error())
				return nil, err
			}
			ctx, done := d.scope(ctx)
			defer done()
			return d.reach(ctx, name, port)
		},
		// Each request is decided about, and an answer counts for those who wait.
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeader,
	}
	return d.proxyBy(transport), transport.CloseIdleConnections
}

// proxyBy forwards requests to the hosts that their addresses name.
func (d *Door) proxyBy(transport *http.Transport) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL = pr.In.URL
			pr.Out.Host = pr.In.Host // that of the address, or in a tunnel one that may be asked for
			pr.Out.Header.Del("Proxy-Authorization")
			pr.Out.Trailer = nil // nobody would look at it
		},
		ModifyResponse: upgraded,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if d.ctx.Err() != nil || r.Context().Err() != nil {
				panic(http.ErrAbortHandler)
			}
			refuse(w, status(err), err.Error())
		},
	}
}

// leakError is what the inspection of a connection objects to.
type leakError struct{ error }

// inspect has bytes inspected that are about to go out, apart from any others.
func (d *Door) inspect(p []byte) error {
	if d.opts.Inspect == nil {
		return nil
	}
	if _, err := d.opts.Inspect().Write(p); err != nil {
		return &leakError{err}
	}
	return nil
}

// inspectRequest has a request inspected: its head now, before anything is looked up, its
// body while it is sent.
func (d *Door) inspectRequest(r *http.Request) (*http.Request, error) {
	if d.opts.Inspect == nil {
		return r, nil
	}
	w := d.opts.Inspect()
	_, err := io.WriteString(w, r.Method+" "+r.URL.String()+"\n"+r.Host+"\n")
	if err == nil {
		err = r.Header.Write(w)
	}
	if err != nil {
		return nil, &leakError{err}
	}
	r = r.WithContext(context.WithValue(r.Context(), inspectionKey{}, w))
	r.Body = &inspected{ReadCloser: r.Body, w: w}
	return r, nil
}

// inspectionKey is where a request's context has its inspection.
type inspectionKey struct{}

// inspected is a body that is inspected before it goes out.
type inspected struct {
	io.ReadCloser
	w   io.Writer
	err error
}

func (i *inspected) Read(p []byte) (int, error) {
	if i.err != nil {
		return 0, i.err
	}
	n, err := i.ReadCloser.Read(p)
	if _, leak := i.w.Write(p[:n]); leak != nil {
		i.err = &leakError{leak}
		return 0, i.err
	}
	return n, err
}

// upgraded has inspected what goes out when a server has switched to another protocol, by
// the request's inspection.
func upgraded(res *http.Response) error {
	w, ok := res.Request.Context().Value(inspectionKey{}).(io.Writer)
	if conn, isConn := res.Body.(io.ReadWriteCloser); ok && isConn && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = &inspectedConn{conn, w}
	}
	return nil
}

// inspectedConn is a connection that is inspected before anything goes out.
type inspectedConn struct {
	io.ReadWriteCloser
	w io.Writer
}

func (i *inspectedConn) Write(p []byte) (int, error) {
	if _, err := i.w.Write(p); err != nil {
		_ = i.Close() // or who waits for an answer would wait on
		return 0, &leakError{err}
	}
	return i.ReadWriteCloser.Write(p)
}
