package supervise

import (
	"bufio"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func question(t *testing.T, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	raw, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The resolver has an address for known names, nothing else for them, and no such name for
// the rest, whatever is asked.
func TestResolverAnswers(t *testing.T) {
	var asked []string
	r := &resolver{own: "gander", find: func(name string) (netip.Addr, bool) {
		asked = append(asked, name)
		return netip.MustParseAddr("127.64.0.9"), name == "known.example"
	}}
	for _, tt := range []struct {
		name string
		kind dnsmessage.Type
		want string
	}{
		{"known.example.", dnsmessage.TypeA, "127.64.0.9"},
		{"KNOWN.eXample.", dnsmessage.TypeA, "127.64.0.9"},
		{"known.example.", dnsmessage.TypeAAAA, "nothing"},
		{"known.example.", dnsmessage.TypeTXT, "nothing"},
		{"known.example.", dnsmessage.TypeALL, "nothing"},
		{"known.example.", dnsmessage.TypeSRV, "nothing"},
		{"other.example.", dnsmessage.TypeA, "no such name"},
		{"other.example.", dnsmessage.TypeTXT, "no such name"},
		{"secret.other.example.", dnsmessage.TypeNS, "no such name"},
		{"9.0.64.127.in-addr.arpa.", dnsmessage.TypePTR, "no such name"},
		{"localhost.", dnsmessage.TypeA, "127.0.0.1"},
		{"a.localhost.", dnsmessage.TypeA, "127.0.0.1"},
		{"gander.", dnsmessage.TypeA, "127.0.0.1"},
	} {
		var m dnsmessage.Message
		if err := m.Unpack(r.answer(question(t, tt.name, tt.kind))); err != nil {
			t.Fatal(err)
		}
		got := map[dnsmessage.RCode]string{dnsmessage.RCodeSuccess: "nothing", dnsmessage.RCodeNameError: "no such name"}[m.RCode]
		for _, a := range m.Answers {
			got = netip.AddrFrom4(a.Body.(*dnsmessage.AResource).A).String()
		}
		if got != tt.want || m.ID != 7 || !m.Response || len(m.Answers)+len(m.Authorities)+len(m.Additionals) > 1 {
			t.Errorf("%s %s: %s, %+v", tt.name, tt.kind, got, m)
		}
	}
	if len(asked) != 10 {
		t.Errorf("asked for %v", asked)
	}
	for _, text := range []string{"", "x", string(make([]byte, 11)), string(question(t, "known.example.", dnsmessage.TypeA))[:14]} {
		if got := r.answer([]byte(text)); len(got) > maxMessage {
			t.Errorf("%q: %d bytes", text, len(got))
		}
	}
	if got := r.answer(r.answer(question(t, "known.example.", dnsmessage.TypeA))); got != nil {
		t.Errorf("an answer is answered: %q", got)
	}
}

// A program that looks up names without end takes the place of what was not used for long,
// and no address soon means something else.
func TestAddressesAreBounded(t *testing.T) {
	a := newAddresses[string]("127.64.0.0", 8)
	kept := a.at("kept")
	seen := map[netip.Addr]bool{kept: true}
	for i := range 10_000 {
		addr := a.at(fmt.Sprint(i))
		if seen[addr] || !namePrefix.Contains(addr) {
			t.Fatalf("%s is given twice, or of somebody else", addr)
		}
		seen[addr] = true
		if a.at("kept") != kept {
			t.Fatal("what is used is forgotten")
		}
	}
	if len(a.of) > 8 || len(a.things) != len(a.of) || len(a.used) != len(a.of) {
		t.Errorf("%d, %d and %d are kept", len(a.of), len(a.things), len(a.used))
	}
	b := newAddresses[route]("127.96.0.0", 8)
	b.next = 1<<addressBits - 2
	for range 3 {
		if addr := b.at(route{"a", uint16(b.next)}); !netip.MustParsePrefix("127.96.0.0/11").Contains(addr) {
			t.Errorf("%s is no route's", addr)
		}
	}
}

func TestListeners(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 00000000000000000000000001000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   2: 0100007F:1539 0100007F:1538 01 00000000:00000000 00:00000000 00000000     0        0 1 1
`
	if got := fmt.Sprint(listeners(bufio.NewScanner(strings.NewReader(table)))); got != "[127.0.0.1:5432 [::1]:80]" {
		t.Error(got)
	}
}
