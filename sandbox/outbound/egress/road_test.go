package egress

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// A name is known when a rule allows it at some port that is not denied, and an address
// when it is allowed with its port; nothing is looked up for that, and refusals are told
// with what would allow them, once for each host, ten in all and in printable text.
func TestKnown(t *testing.T) {
	w := &world{}
	var notices []string
	denied := rules(t, "denied.example", "half.example:80", "*.closed.example:*")
	d := opened(t, w, Options{
		Rules:      rules(t, "a.example", "*.b.example:22", "10.1.2.3:5432", "127.0.0.1:6379", "denied.example", "half.example", "x.closed.example:9", "any.example:*"),
		Remembered: func() (allowed, no []Rule) { return rules(t, "said.example:1", "127.0.0.1:5432"), denied },
		Notice:     func(text string) { notices = append(notices, text) },
	})
	for _, tt := range []struct {
		host string
		port int
		want bool
	}{
		{"a.example", 0, true},
		{"A.Example.", 0, true},
		{"said.example", 0, true},
		{"x.b.example", 0, true},
		{"any.example", 0, true},
		{"half.example", 0, true},
		{"10.1.2.3", 5432, true},
		{"127.0.0.1", 6379, true},
		{"127.0.0.1", 1, false},
		{"b.example", 0, false},
		{"denied.example", 0, false},
		{"x.closed.example", 0, false},
		{"10.1.2.3", 1, false},
		{"10.1.2.3", 0, false},
		{"evil\x1b[2J.example", 0, false},
		{strings.Repeat("a.", 130) + "example", 0, false},
		{"0x7f.1", 0, false},
		{"", 0, false},
	} {
		if got := d.Known(t.Context(), tt.host, tt.port); got != tt.want {
			t.Errorf("%q at %d: %t", tt.host, tt.port, got)
		}
	}
	want := []string{
		"The sandbox may not reach b.example: no rule of policy.network allows it. To allow it in this project: gander policy allow b.example",
		"The sandbox may not reach denied.example: you have denied it for good. To allow it in this project: gander policy allow denied.example",
		"The sandbox may not reach x.closed.example: you have denied it for good. To allow it in this project: gander policy allow x.closed.example",
		"The sandbox may not reach 10.1.2.3:1: it is a private address, which only a rule for this very address and port allows. To allow it in this project: gander policy allow 10.1.2.3:1",
	}
	if !slices.Equal(notices, want) {
		t.Errorf("told: %s", strings.Join(notices, "\n"))
	}
	for i := range 100 {
		d.Known(t.Context(), fmt.Sprintf("h%d.example", i), 0)
	}
	if len(notices) != maxNotices || !strings.HasSuffix(notices[maxNotices-1], "on record only.") {
		t.Errorf("%d notices", len(notices))
	}
	if len(w.lookups) != 0 {
		t.Errorf("looked up: %v", w.lookups)
	}
	if got := fmt.Sprint(d.Loopback()); got != "[127.0.0.1:6379 127.0.0.1:5432]" {
		t.Errorf("loopback: %s", got)
	}
	denied = append(denied, rules(t, "127.0.0.1:6379")...)
	if got := fmt.Sprint(d.Loopback()); got != "[127.0.0.1:5432]" {
		t.Errorf("loopback, when one is denied: %s", got)
	}
}

// Where the person can be asked, a host is known until it is answered for.
func TestKnownIsAskedFor(t *testing.T) {
	d := opened(t, &world{}, Options{Ask: func(context.Context, string, int) Answer { return Deny }})
	for host, want := range map[string]bool{"a.example": true, "10.0.0.1": false} {
		if got := d.Known(t.Context(), host, map[bool]int{true: 0, false: 80}[want]); got != want {
			t.Errorf("%s: %t", host, got)
		}
	}
	if _, err := d.DialHost(t.Context(), "a.example", 443); err == nil {
		t.Error("what was denied is reached")
	}
}

// A connection by plain TCP is decided about by the name, looked up once, and looked at as
// a tunnel is: neither TLS nor plain HTTP asks for another host in it.
func TestDialHost(t *testing.T) {
	s := hello(t)
	w := &world{
		names:   map[string][]netip.Addr{"a.example": {public}, "inner.example": {netip.MustParseAddr("10.0.0.1")}},
		servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s), netip.AddrPortFrom(public, 443): addressOf(s)},
	}
	var told ledger
	d := opened(t, w, Options{Rules: rules(t, "a.example", "inner.example"), Observe: told.note})
	ask := func(port int, text string) string {
		c, err := d.DialHost(t.Context(), "a.example", port)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(c)
		return string(answer)
	}
	request := func(host string) string {
		return "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
	}
	if got := ask(80, request("a.example")); !strings.Contains(got, " 200 OK") {
		t.Errorf("the allowed host: %q", got)
	}
	if got := ask(80, request("other.example")); !strings.Contains(got, " 403 ") {
		t.Errorf("another Host: %q", got)
	}
	told.take()
	c, err := d.DialHost(t.Context(), "a.example", 443)
	if err != nil {
		t.Fatal(err)
	}
	if err := tls.Client(c, &tls.Config{ServerName: "other.example", InsecureSkipVerify: true}).HandshakeContext(t.Context()); err == nil {
		t.Error("another name in TLS")
	}
	if all := told.take(); len(all) != 2 || all[1].Allowed || all[1].Host != "other.example" {
		t.Errorf("told of %+v", all)
	}
	before := len(w.lookups)
	for _, host := range []string{"b.example", "127.0.0.1", "169.254.169.254", "inner.example"} {
		if c, err := d.DialHost(t.Context(), host, 80); err == nil {
			_ = c.Close()
			t.Errorf("%s is reached", host)
		}
	}
	if got := w.lookups[before:]; !slices.Equal(got, []string{"inner.example"}) {
		t.Errorf("looked up: %v", got)
	}
}
