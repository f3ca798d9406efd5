package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds what should happen at once; the machine may be busy.
const patience = 30 * time.Second

// public is an address that nobody is to be asked about; connections to it go to a
// server of the test.
var public = netip.MustParseAddr("93.184.215.14")

// world is what is outside of a door: names, and servers behind addresses.
type world struct {
	mu      sync.Mutex
	names   map[string][]netip.Addr
	servers map[netip.AddrPort]string
	lookups []string
	dialed  []netip.AddrPort
}

func (w *world) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, host)
	if addrs, ok := w.names[host]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (w *world) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, to)
	real := w.servers[to]
	w.mu.Unlock()
	if real == "" {
		return nil, errors.New("nobody there")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", real)
}

// sites are names that the resolver of a test knows, all at one public address of
// which each port leads to a server.
func sites(plain, secure *httptest.Server, names ...string) *world {
	w := &world{names: map[string][]netip.Addr{}, servers: map[netip.AddrPort]string{}}
	for _, name := range names {
		w.names[name] = []netip.Addr{public}
	}
	w.servers[netip.AddrPortFrom(public, 80)] = addressOf(plain)
	w.servers[netip.AddrPortFrom(public, 443)] = addressOf(secure)
	return w
}

func rules(t *testing.T, texts ...string) []Rule {
	t.Helper()
	out, err := ParseRules(texts, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// opened is a door with a world behind it.
func opened(t *testing.T, w *world, o Options) *Door {
	t.Helper()
	o.Lookup, o.Connect = w.lookup, w.connect
	d := New(o)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// through is a client that uses the door as its HTTP proxy, trusting the servers of roots.
func through(t *testing.T, d *Door, roots *x509.CertPool) *http.Client {
	t.Helper()
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return d.Dial(ctx) },
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func get(t *testing.T, c *http.Client, address string) (int, string, error) {
	t.Helper()
	res, err := c.Get(address)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

func hello(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "host=%s proxy=%s path=%s", r.Host, r.Header.Get("Proxy-Authorization"), r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s
}

func addressOf(s *httptest.Server) string { return s.Listener.Addr().String() }

func TestPlainHTTP(t *testing.T) {
	s := hello(t)
	w := &world{
		names:   map[string][]netip.Addr{"allowed.example": {public}},
		servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)},
	}
	d := opened(t, w, Options{Rules: rules(t, "allowed.example")})
	c := through(t, d, nil)
	if status, text, err := get(t, c, "http://allowed.example/x"); err != nil || status != 200 || text != "host=allowed.example proxy= path=/x" {
		t.Errorf("allowed: %d %q %v", status, text, err)
	}
	if status, text, err := get(t, c, "http://other.example/x"); err != nil || status != 403 || !strings.Contains(text, "no rule of policy.network allows it") {
		t.Errorf("not allowed: %d %q %v", status, text, err)
	}
	if status, text, err := get(t, c, "http://allowed.example:8080/"); err != nil || status != 403 {
		t.Errorf("another port: %d %q %v", status, text, err)
	}
	// The address counts, not what the Host header says.
	answer := say(t, d, "GET http://allowed.example/y HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: Basic eA==\r\nConnection: close\r\n\r\n")
	if !strings.Contains(answer, "host=allowed.example proxy= path=/y") {
		t.Errorf("another Host header: %s", answer)
	}
	// A refused name is not even asked for: questions carry things out.
	if len(w.lookups) != 2 || w.lookups[0] != "allowed.example" || w.lookups[1] != "allowed.example" {
		t.Errorf("looked up %v", w.lookups)
	}
}

// say sends bytes and returns the answer.
func say(t *testing.T, d *Door, text string) string {
	t.Helper()
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%v after %q", err, answer)
	}
	return string(answer)
}

func TestRefusedRequests(t *testing.T) {
	w := &world{}
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a.example":                            "400 ",
		"GET https://a.example/ HTTP/1.1\r\nHost: a.example":           "403 ",
		"GET ftp://a.example/ HTTP/1.1\r\nHost: a.example":             "403 ",
		"GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example":        "403 ",
		"CONNECT a.example HTTP/1.1\r\nHost: a.example":                "400 ",
		"CONNECT a.example:0 HTTP/1.1\r\nHost: a.example":              "400 ",
		"CONNECT a.example:080 HTTP/1.1\r\nHost: a.example":            "400 ",
		"CONNECT a.example:99999 HTTP/1.1\r\nHost: a.example":          "400 ",
		"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: a.example":             "403 ",
		"CONNECT [::1]:80 HTTP/1.1\r\nHost: a.example":                 "403 ",
		"CONNECT [::ffff:127.0.0.1]:80 HTTP/1.1\r\nHost: a.example":    "403 ",
		"CONNECT 0x7f000001:80 HTTP/1.1\r\nHost: a.example":            "403 ",
		"CONNECT 2130706433:80 HTTP/1.1\r\nHost: a.example":            "403 ",
		"CONNECT 0177.0.0.1:80 HTTP/1.1\r\nHost: a.example":            "403 ",
		"CONNECT 127.1:80 HTTP/1.1\r\nHost: a.example":                 "403 ",
		"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: a.example":       "403 ",
		"CONNECT [fd00:ec2::254]:80 HTTP/1.1\r\nHost: a.example":       "403 ",
		"CONNECT [fe80::1%25eth0]:80 HTTP/1.1\r\nHost: a.example":      "40",
		"GET http://127.0.0.1/latest/meta-data HTTP/1.1\r\nHost: meta": "403 ",
		"OPTIONS * HTTP/1.1\r\nHost: a.example":                        "400 ",
	} {
		var told ledger // of a book of its own: another time the same would not be told again
		d := opened(t, w, Options{Rules: rules(t, "*:*"), Observe: told.note})
		if answer := say(t, d, request+"\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 "+want) {
			t.Errorf("%s got %s", request, answer)
		}
		if all := told.take(); len(all) != 1 || all[0].Allowed || all[0].Reason == "" || all[0].Host == "" {
			t.Errorf("%s is told of as %v", request, all)
		}
	}
	if len(w.lookups)+len(w.dialed) != 0 {
		t.Errorf("looked up %v, connected to %v", w.lookups, w.dialed)
	}
}

// Programs of Node never end their attempts after a refusal in proper HTTP, see refuseNode;
// others read the reason in it.
func TestRefusedNode(t *testing.T) {
	d := opened(t, &world{}, Options{Rules: rules(t, "a.example")})
	const connect = "CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\nProxy-Connection: Keep-Alive\r\n"
	node := say(t, d, connect+"\r\n")
	lines := strings.Split(node, "\r\n")
	if !strings.HasPrefix(node, "HTTP/1.1 403 Forbidden\r\ngander, ") || strings.Contains(lines[1], ":") || !strings.Contains(lines[1], "b.example port 443") {
		t.Errorf("Node's agent gets %q", node)
	}
	if curl := say(t, d, connect+"User-Agent: curl/8.0\r\n\r\n"); !strings.Contains(curl, "\r\n\r\ngander: ") || !strings.Contains(curl, "b.example:443") {
		t.Errorf("curl gets %q", curl)
	}
}

// A name that turns into an address that is not public is refused, however often it
// changes, and the connection goes to the address that was looked at.
func TestRebinding(t *testing.T) {
	s := hello(t)
	w := &world{servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)}}
	private := []string{
		"127.0.0.1", "10.0.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1",
		"::1", "::", "fe80::1", "fd00:ec2::254", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1", "2001:0:1::1", "::127.0.0.1", "64:ff9b:1::1",
	}
	for _, own := range ownAddresses(t) {
		private = append(private, own.String())
	}
	var lookups atomic.Int32
	var at []netip.Addr
	d := New(Options{
		Rules: rules(t, "turns.example"), Connect: w.connect,
		Lookup: func(context.Context, string) ([]netip.Addr, error) { lookups.Add(1); return at, nil },
	})
	t.Cleanup(func() { _ = d.Close() })
	c := through(t, d, nil)
	for _, text := range private {
		at = []netip.Addr{netip.MustParseAddr(text)}
		status, said, err := get(t, c, "http://turns.example/")
		if err != nil || status != 403 || !strings.Contains(said, "a rule for ") {
			t.Errorf("%s: %d %q %v", text, status, said, err)
		}
	}
	if len(w.dialed) != 0 {
		t.Errorf("connected to %v", w.dialed)
	}
	before := lookups.Load()
	at = []netip.Addr{netip.MustParseAddr("10.0.0.1"), public} // the good one of both
	if status, _, err := get(t, c, "http://turns.example/"); err != nil || status != 200 {
		t.Errorf("%d %v", status, err)
	}
	if n := lookups.Load() - before; n != 1 || len(w.dialed) != 1 || w.dialed[0].Addr() != public {
		t.Errorf("%d lookups, connected to %v", n, w.dialed)
	}
}

func ownAddresses(t *testing.T) (out []netip.Addr) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if addr, ok := netip.AddrFromSlice(a.(*net.IPNet).IP); ok {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// An address that is not public is reached when a rule names it with its port.
func TestLiteralAddress(t *testing.T) {
	s := hello(t)
	near := netip.MustParseAddrPort("10.1.2.3:5432")
	w := &world{
		names:   map[string][]netip.Addr{"db.example": {near.Addr()}},
		servers: map[netip.AddrPort]string{near: addressOf(s)},
	}
	d := opened(t, w, Options{Rules: rules(t, "10.1.2.3:5432", "db.example:*")})
	c := through(t, d, nil)
	for address, want := range map[string]int{
		"http://10.1.2.3:5432/": 200, "http://db.example:5432/": 200, "http://10.1.2.3:5433/": 403, "http://db.example:5433/": 403, "http://10.1.2.4:5432/": 403,
	} {
		if status, text, err := get(t, c, address); err != nil || status != want {
			t.Errorf("%s: %d %q %v", address, status, text, err)
		}
	}
}

// A redirect is followed by the client, and decided about again.
func TestRedirect(t *testing.T) {
	s := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest", http.StatusFound))
	t.Cleanup(s.Close)
	w := &world{names: map[string][]netip.Addr{"a.example": {public}}, servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)}}
	d := opened(t, w, Options{Rules: rules(t, "a.example")})
	if status, text, err := get(t, through(t, d, nil), "http://a.example/"); err != nil || status != 403 || !strings.Contains(text, "metadata") {
		t.Errorf("%d %q %v", status, text, err)
	}
}

func tlsWorld(t *testing.T) (*world, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "for "+r.Host) }))
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate()) // for example.com
	w := &world{
		names:   map[string][]netip.Addr{"example.com": {public}, "cdn.example": {public}},
		servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 443): addressOf(s)},
	}
	return w, pool
}

func TestTunnel(t *testing.T) {
	w, pool := tlsWorld(t)
	d := opened(t, w, Options{Rules: rules(t, "example.com:443")})
	c := through(t, d, pool)
	if status, text, err := get(t, c, "https://example.com/"); err != nil || status != 200 || text != "for example.com" {
		t.Errorf("%d %q %v", status, text, err)
	}
	if _, _, err := get(t, c, "https://cdn.example/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("not allowed: %v", err)
	}
}

// The name in the TLS greeting must be allowed, too, also when it comes in pieces.
func TestFronting(t *testing.T) {
	for name, tt := range map[string]struct {
		sni   string
		pass  bool
		piece int
		rules []string
	}{
		"the same":             {"cdn.example", true, 0, nil},
		"the same, in pieces":  {"CDN.example", true, 1, nil},
		"another":              {"example.com", false, 0, nil},
		"another, in pieces":   {"example.com", false, 1, nil},
		"another that may":     {"example.com", true, 0, []string{"example.com"}},
		"none":                 {"", true, 0, nil},
		"below the allowed":    {"x.cdn.example", false, 0, nil},
		"a name with a prefix": {"xcdn.example", false, 7, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := tlsWorld(t)
			d := opened(t, w, Options{Rules: rules(t, append(tt.rules, "cdn.example")...)})
			c, err := d.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(c, "CONNECT cdn.example:443 HTTP/1.1\r\nHost: cdn.example:443\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("%+v %v", res, err)
			}
			greeting := tls.Client(&slow{Conn: c, piece: tt.piece}, &tls.Config{ServerName: tt.sni, InsecureSkipVerify: true}) //nolint:gosec // the test's own server
			if err := greeting.HandshakeContext(t.Context()); (err == nil) != tt.pass {
				t.Errorf("the handshake ends with %v", err)
			}
		})
	}
}

// A server of many hosts goes by the Host header of plain HTTP, in a tunnel, too, and by that
// of each request.
func TestFrontingInPlainHTTP(t *testing.T) {
	const get = "GET /x HTTP/1.1\r\nHost: %s\r\n%s\r\n"
	last := "Connection: close\r\n"
	for name, tt := range map[string]struct {
		said string
		want []string // in each answer
	}{
		"the same":             {fmt.Sprintf(get, "CDN.example", last), []string{"host=CDN.example "}},
		"with its port":        {fmt.Sprintf(get, "cdn.example:80", last), []string{"host=cdn.example:80 "}},
		"none":                 {"GET /x HTTP/1.0\r\n\r\n", []string{"host=cdn.example "}},
		"another that may":     {fmt.Sprintf(get, "other.example", last), []string{"host=other.example "}},
		"another":              {fmt.Sprintf(get, "example.com", last), []string{"403 Forbidden"}},
		"of an address":        {"GET http://example.com/x HTTP/1.1\r\nHost: cdn.example\r\n\r\n", []string{"403 Forbidden"}},
		"another port":         {fmt.Sprintf(get, "cdn.example:81", last), []string{"403 Forbidden"}},
		"twice":                {fmt.Sprintf(get, "cdn.example\r\nHost: example.com", last), []string{"400 Bad Request"}},
		"later":                {fmt.Sprintf(get, "cdn.example", "") + fmt.Sprintf(get, "example.com", last), []string{"host=cdn.example ", "403 Forbidden"}},
		"behind a body":        {"POST / HTTP/1.1\r\nHost: cdn.example\r\nContent-Length: 1\r\n\r\n." + fmt.Sprintf(get, "example.com", last), []string{"host=cdn.example ", "403 Forbidden"}},
		"no HTTP":              {"hello\r\n\r\n", []string{"400 Bad Request"}},
		"a tunnel in a tunnel": {"CONNECT cdn.example:80 HTTP/1.1\r\nHost: cdn.example:80\r\n\r\n", []string{"403 Forbidden"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := sites(hello(t), hello(t), "cdn.example")
			var told ledger
			d := opened(t, w, Options{Rules: rules(t, "cdn.example", "other.example"), Observe: told.note})
			code, c := socks(t, d, 1, socksName, "cdn.example", 80)
			if code != 0 {
				t.Fatal(code)
			}
			if _, err := io.WriteString(c, tt.said); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c)
			if err != nil || strings.Count(string(got), "HTTP/1.") != len(tt.want) {
				t.Errorf("%v: %s", err, got)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(got), want) {
					t.Errorf("no %q in %s", want, got)
				}
			}
			allowed := 0
			for _, one := range told.take() {
				if one.Allowed {
					allowed++
				}
			}
			if allowed != 1 || len(w.dialed) != 1 {
				t.Errorf("allowed %d times, connected %d times", allowed, len(w.dialed))
			}
		})
	}
}

// slow writes in small pieces.
type slow struct {
	net.Conn
	piece int
}

func (s *slow) Write(p []byte) (int, error) {
	for i := 0; s.piece > 0 && i < len(p); i += s.piece {
		if _, err := s.Conn.Write(p[i:min(i+s.piece, len(p))]); err != nil {
			return i, err
		}
	}
	if s.piece == 0 {
		return s.Conn.Write(p)
	}
	return len(p), nil
}

// socks asks for an address and returns the reply's code and the connection.
func socks(t *testing.T, d *Door, command, kind byte, address string, port int) (byte, net.Conn) {
	t.Helper()
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	request := []byte{5, 2, 9, 0, 5, command, 0, kind}
	if kind == socksName {
		request = append(request, byte(len(address)))
	}
	request = append(append(request, address...), byte(port>>8), byte(port))
	go func() { _, _ = c.Write(request) }()
	reply := make([]byte, 12)
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Fatalf("%v after % x", err, reply)
	}
	if reply[0] != 5 || reply[1] != 0 || reply[2] != 5 {
		t.Fatalf("reply % x", reply)
	}
	return reply[3], c
}

func TestSocks(t *testing.T) {
	s := hello(t)
	w := &world{
		names:   map[string][]netip.Addr{"a.example": {public}, "gone.example": {netip.MustParseAddr("93.184.215.15")}},
		servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)},
	}
	var told ledger
	door := func() *Door {
		return opened(t, w, Options{Rules: rules(t, "a.example", "gone.example", "nowhere.example"), Observe: told.note})
	}
	d := door()
	code, c := socks(t, d, 1, socksName, "a.example", 80)
	if code != 0 {
		t.Fatalf("code %d", code)
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.0\r\nHost: a.example\r\n\r\n")
	closeWrite(c) // the answer comes all the same
	if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), "host=a.example") {
		t.Errorf("%q %v", text, err)
	}
	if all := told.take(); len(all) != 1 || all[0] != (Tally{Decision{Host: "a.example", Port: 80, Allowed: true, By: "a.example"}, 1}) {
		t.Errorf("an allowed connection is told of as %+v", all)
	}
	for name, tt := range map[string]struct {
		command, kind byte
		address       string
		port          int
		want          byte
	}{
		"not allowed":  {1, socksName, "b.example", 80, socksRefused},
		"other port":   {1, socksName, "a.example", 22, socksRefused},
		"private":      {1, socksIPv4, "\x0a\x00\x00\x01", 80, socksRefused},
		"loopback":     {1, socksIPv6, string(netip.MustParseAddr("::1").AsSlice()), 80, socksRefused},
		"in disguise":  {1, socksIPv6, string(netip.MustParseAddr("::ffff:127.0.0.1").AsSlice()), 80, socksRefused},
		"address name": {1, socksName, "127.0.0.1", 80, socksRefused},
		"unknown name": {1, socksName, "nowhere.example", 80, socksNoHost},
		"nobody there": {1, socksName, "gone.example", 80, socksNotMade},
		"bind":         {2, socksName, "a.example", 80, socksNoCommand},
		"datagrams":    {3, socksName, "a.example", 80, socksNoCommand},
		"unknown kind": {1, 7, "", 80, socksNoAddress},
		"empty name":   {1, socksName, "", 80, socksNoAddress},
		"zero byte":    {1, socksName, "a.example\x00.b", 80, socksRefused},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _ := socks(t, door(), tt.command, tt.kind, tt.address, tt.port); code != tt.want {
				t.Errorf("code %d, want %d", code, tt.want)
			}
			refused := tt.want != socksNoHost && tt.want != socksNotMade
			if all := told.take(); len(all) != 1 || all[0].Allowed == refused || all[0].Allowed && all[0].By == "" || refused && all[0].Reason == "" {
				t.Errorf("it is told of as %+v", all)
			}
		})
	}
}

func TestAsking(t *testing.T) {
	s := hello(t)
	w := &world{
		names:   map[string][]netip.Addr{},
		servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)},
	}
	for _, name := range []string{"once", "session", "project", "deny", "unasked", "many"} {
		w.names[name+".example"] = []netip.Addr{public}
	}
	var mu sync.Mutex
	asked := map[string]int{}
	saved := map[string]bool{"known.example:80": true}
	release := make(chan struct{})
	o := Options{Remembered: func() (allowed, _ []Rule) {
		mu.Lock()
		defer mu.Unlock()
		for address := range saved {
			allowed = append(allowed, rules(t, address)...)
		}
		return allowed, nil
	}, Book: NewBook(func(address string) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(address, "full.") {
			return errors.New("the disk is full")
		}
		saved[address] = true
		return nil
	})}
	o.Ask = func(_ context.Context, host string, port int) Answer {
		mu.Lock()
		asked[host]++
		mu.Unlock()
		if host == "many.example" {
			<-release
			return Once
		}
		name, _, _ := strings.Cut(host, ".")
		if name == "unasked" {
			return Unasked
		}
		if name == "full" {
			return Project
		}
		return Answer(name)
	}
	w.names["known.example"], w.names["full.example"] = []netip.Addr{public}, []netip.Addr{public}
	d := opened(t, w, o)
	c := through(t, d, nil)
	for name, want := range map[string]struct{ status, questions int }{
		"once": {200, 2}, "session": {200, 1}, "project": {200, 1}, "deny": {403, 1}, "unasked": {403, 2}, "known": {200, 0}, "full": {200, 1},
	} {
		for range 2 {
			if status, text, err := get(t, c, "http://"+name+".example/"); err != nil || status != want.status {
				t.Errorf("%s: %d %q %v", name, status, text, err)
			}
		}
		if asked[name+".example"] != want.questions {
			t.Errorf("%s: asked %d times", name, asked[name+".example"])
		}
	}
	if !saved["project.example:80"] || len(saved) != 2 {
		t.Errorf("saved %v", saved)
	}
	mu.Lock()
	clear(saved) // the person takes it back
	mu.Unlock()
	if status, _, err := get(t, c, "http://project.example/"); err != nil || status != 200 || asked["project.example"] != 2 {
		t.Errorf("what was taken back: %d %v, asked %d times", status, err, asked["project.example"])
	}
	if status, _, err := get(t, c, "http://10.0.0.1/"); err != nil || status != 403 || asked["10.0.0.1"] != 0 {
		t.Errorf("a private address: %d %v, asked %v", status, err, asked)
	}
	var wg sync.WaitGroup
	for range 5 { // one question for all who wait
		wg.Go(func() {
			if status, text, err := get(t, c, "http://many.example/"); err != nil || status != 200 {
				t.Errorf("%d %q %v", status, text, err)
			}
		})
	}
	waiting := func() bool { mu.Lock(); defer mu.Unlock(); return asked["many.example"] > 0 }
	for deadline := time.Now().Add(patience); !waiting(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody was asked")
		}
	}
	close(release)
	wg.Wait()
}

// A program cannot wear a person out, nor fill the session with notices.
func TestQuestionsAreBounded(t *testing.T) {
	asked, notices := 0, 0
	w := &world{names: map[string][]netip.Addr{}}
	d := opened(t, w, Options{
		Ask:    func(context.Context, string, int) Answer { asked++; return Deny },
		Notice: func(string) { notices++ },
	})
	c := through(t, d, nil)
	for i := range 50 {
		if status, _, err := get(t, c, fmt.Sprintf("http://h%d.example/", i)); err != nil || status != 403 {
			t.Fatalf("%d %v", status, err)
		}
	}
	if asked != maxQuestions || notices != maxNotices {
		t.Errorf("%d questions, %d notices", asked, notices)
	}
}

// What the inspection objects to does not leave.
func TestInspection(t *testing.T) {
	var heard atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		heard.Add(n)
	}))
	t.Cleanup(s.Close)
	w := &world{names: map[string][]netip.Addr{"a.example": {public}}, servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)}}
	d := opened(t, w, Options{Rules: rules(t, "a.example"), Inspect: func() io.Writer { return &finder{} }})
	c := through(t, d, nil)
	for name, body := range map[string]string{"body": "the secret", "long": strings.Repeat("x", 1<<20) + "secret"} {
		res, err := c.Post("http://a.example/", "text/plain", io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 403 {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
	}
	for _, address := range []string{"http://a.example/?q=secret", "http://a.example/secret"} {
		if status, text, err := get(t, c, address); err != nil || status != 403 || !strings.Contains(text, "found it") {
			t.Errorf("%s: %d %q %v", address, status, text, err)
		}
	}
	if status, _, err := get(t, c, "http://a.example/fine"); err != nil || status != 200 {
		t.Errorf("%d %v", status, err)
	}
	code, conn := socks(t, d, 1, socksName, "a.example", 80)
	if code != 0 {
		t.Fatal(code)
	}
	_, _ = io.WriteString(conn, "POST / HTTP/1.0\r\nContent-Length: 6\r\n\r\nsecret")
	if text, _ := io.ReadAll(conn); strings.Contains(string(text), "200 OK") {
		t.Errorf("through a tunnel: %s", text)
	}
	if heard.Load() > 1<<20 {
		t.Errorf("the server heard %d bytes", heard.Load())
	}
}

// What is found before anything has gone out keeps all of it: the name is not looked up, and
// nobody is connected to.
func TestInspectionComesFirst(t *testing.T) {
	var decided atomic.Int64
	w := &world{}
	d := opened(t, w, Options{Rules: rules(t, "*.example"), Inspect: func() io.Writer { return &finder{} }, Observe: func(Tally) { decided.Add(1) }})
	c := through(t, d, nil)
	for _, address := range []string{"http://a.example/?q=secret", "http://secret.a.example/", "https://secret.a.example/"} {
		if status, text, err := get(t, c, address); err == nil && (status != 403 || !strings.Contains(text, "found it")) || err != nil && !strings.Contains(err.Error(), "Forbidden") {
			t.Errorf("%s: %d %q %v", address, status, text, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.example/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Any", "secret")
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if code, _ := socks(t, d, 1, socksName, "secret.a.example", 443); res.StatusCode != 403 || code == 0 {
		t.Errorf("a header: %d; SOCKS: %d", res.StatusCode, code)
	}
	if n := decided.Load(); n != 0 || len(w.lookups) != 0 {
		t.Errorf("%d hosts were decided about, and %q looked up", n, w.lookups)
	}
	if status, text, _ := get(t, c, "http://a.example/"); status != 502 || len(w.lookups) != 1 {
		t.Errorf("the control: %d %q; %q was looked up", status, text, w.lookups)
	}
}

// A connection that changes its protocol is inspected on.
func TestUpgradedIsInspected(t *testing.T) {
	heard := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: words\r\n\r\n")
		said, _ := io.ReadAll(c)
		heard <- string(said)
	}))
	t.Cleanup(s.Close)
	for _, said := range []string{"plain words", "a secret", "words in a tunnel", "a secret in a tunnel"} {
		w := &world{names: map[string][]netip.Addr{"a.example": {public}}, servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)}}
		d := opened(t, w, Options{Rules: rules(t, "a.example"), Inspect: func() io.Writer { return &finder{} }})
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(said, "tunnel") {
			_, c = socks(t, d, 1, socksName, "a.example", 80)
		}
		_, _ = io.WriteString(c, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: words\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v %v", res, err)
		}
		_, _ = io.WriteString(c, said)
		time.AfterFunc(100*time.Millisecond, func() { _ = c.Close() })
		if got := <-heard; strings.Contains(got, "secret") || !strings.Contains(said, "secret") && got != said {
			t.Errorf("the server heard %q of %q", got, said)
		}
	}
}

// A name in a TLS greeting leaves in the clear.
func TestGreetingIsInspected(t *testing.T) {
	heard := make(chan int, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(patience))
			n, _ := c.Read(make([]byte, 1000))
			heard <- n
			_ = c.Close()
		}
	}()
	w := &world{names: map[string][]netip.Addr{"a.example": {public}}, servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 443): l.Addr().String()}}
	d := opened(t, w, Options{Rules: rules(t, "*.example"), Inspect: func() io.Writer { return &finder{} }})
	for sni, goesOut := range map[string]bool{"fine.example": true, "secret.example": false} {
		code, c := socks(t, d, 1, socksName, "a.example", 443)
		if code != 0 {
			t.Fatal(code)
		}
		_ = tls.Client(c, &tls.Config{ServerName: sni}).HandshakeContext(t.Context())
		if n := <-heard; (n > 0) != goesOut {
			t.Errorf("%s: the server heard %d bytes", sni, n)
		}
	}
	// Another record first does not have the greeting pass unread.
	code, c := socks(t, d, 1, socksName, "a.example", 443)
	if code != 0 {
		t.Fatal(code)
	}
	const warning, noRenegotiation = 1, 100
	_, _ = c.Write([]byte{0x15, 3, 3, 0, 2, warning, noRenegotiation})
	_ = tls.Client(c, &tls.Config{ServerName: "other.test"}).HandshakeContext(t.Context())
	if n := <-heard; n != 0 {
		t.Errorf("the server heard %d bytes", n)
	}
}

// What a client asks for is shown to people, and does nothing where it is shown.
func TestNamesAreShown(t *testing.T) {
	for said, want := range map[string]string{
		"a.example":          "a.example",
		"[::1]":              "[::1]",
		"a\x1b[31m\nb\u202e": "a\uFFFD[31m\uFFFDb\uFFFD",
		"[x](http://evil)":   "[x]\uFFFDhttp://evil\uFFFD",
		"\xff`<b>":           "\uFFFD\uFFFD\uFFFDb\uFFFD",
		strings.Repeat("x", 199) + "ü" + "longer":  strings.Repeat("x", 199) + "...",
		strings.Repeat("x", 198) + "ü" + "longer!": strings.Repeat("x", 198) + "ü...",
	} {
		if got := short(said); got != want {
			t.Errorf("%q is shown as %q, want %q", said, got, want)
		}
	}
}

type finder struct{ seen string }

func (f *finder) Write(p []byte) (int, error) {
	f.seen += string(p)
	if strings.Contains(f.seen, "secret") {
		return 0, errors.New("found it")
	}
	return len(p), nil
}

func TestConnectionsAreBoundedAndEnd(t *testing.T) {
	d := New(Options{MaxConns: 2})
	a, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a third: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives the door")
	}
	if _, err := d.Dial(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
