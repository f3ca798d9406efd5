package egress

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The proxy of this machine carries allowed hosts, by name, also those that only it can look
// up. What it needs to know whom it serves is said to it alone, and a name that leads to an
// address of a network of this machine stays refused.
func TestUpstream(t *testing.T) {
	s := hello(t)
	var mu sync.Mutex
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Host == "closed.example:80" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		to, err := net.Dial("tcp", addressOf(s))
		if err != nil {
			t.Error(err)
			return
		}
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		_, _ = io.Copy(from, to)
		_ = from.Close()
	}))
	t.Cleanup(proxy.Close)
	via, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	via.User = url.UserPassword("user", "password")
	w := &world{
		names:   map[string][]netip.Addr{"inner.example": {netip.MustParseAddr("10.0.0.1")}, "direct.example": {public}, "seen.example": {public}},
		servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)},
	}
	d := opened(t, w, Options{
		Rules: rules(t, "intranet.example", "seen.example", "inner.example", "direct.example", "closed.example", "odd.example"),
		Proxy: func(r *http.Request) (*url.URL, error) {
			switch r.URL.Hostname() {
			case "direct.example": // as NO_PROXY says
				return nil, nil
			case "odd.example":
				return &url.URL{Scheme: "socks5", Host: "x"}, nil
			}
			return via, nil
		},
	})
	c := through(t, d, nil)
	for host, want := range map[string]struct {
		status int
		text   string
	}{
		"intranet.example": {200, ""},
		"seen.example":     {200, ""},
		"direct.example":   {200, ""},
		"inner.example":    {403, "a rule for 10.0.0.1:80 would allow it"},
		"other.example":    {403, "no rule"},
		"closed.example":   {502, "it answers 403 Forbidden"},
		"odd.example":      {502, "socks5"},
	} {
		status, text, err := get(t, c, "http://"+host+"/")
		if err != nil || status != want.status || !strings.Contains(text, want.text) || strings.Contains(text, "password") {
			t.Errorf("%s: %d %q %v", host, status, text, err)
		}
	}
	slices.Sort(asked)
	const who = " Basic dXNlcjpwYXNzd29yZA=="
	if want := []string{"CONNECT closed.example:80" + who, "CONNECT intranet.example:80" + who, "CONNECT seen.example:80" + who}; !slices.Equal(asked, want) {
		t.Errorf("the proxy was asked: %q", asked)
	}
}
