package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Rule allows hosts. The zero value allows none.
type Rule struct {
	text  string
	from  string     // whose it is, in words; empty for one of the configuration's own
	name  string     // the host, or the domain above it; "*" is every public host
	below bool       // the names below name, not name itself
	addr  netip.Addr // instead of name
	ports []int      // empty means any
}

// webPorts are the ports of a rule that names none.
var webPorts = []int{80, 443}

// ParseRule reads a rule as a configuration has it:
//
//	github.com           a host, at the ports of the web, 80 and 443
//	github.com:22        a host at one port; ":*" is any port
//	*.npmjs.org          all hosts below a domain, not the domain itself
//	*                    every public host
//	10.1.2.3:5432        an address at one port, also one that is not public
//	[fd00::7]:443        the same for IPv6
//
// Names are in ASCII (an international one begins with xn--).
func ParseRule(text string) (Rule, error) {
	r := Rule{text: text, ports: webPorts}
	host, port, hasPort := splitPort(text)
	if hasPort {
		r.ports = nil
		if port != "*" {
			n, err := parsePort(port)
			if err != nil {
				return Rule{}, fmt.Errorf("%q is not a host and port: the port must be a number from 1 to 65535, or *; write it like github.com, github.com:22, *.npmjs.org or 10.1.2.3:5432", text)
			}
			r.ports = []int{n}
		}
	}
	if host == "*" {
		r.name = "*"
		return r, nil
	}
	host, r.below = strings.CutPrefix(host, "*.")
	h, err := parseHost(host)
	if err != nil {
		return Rule{}, fmt.Errorf("%q is not a host and port: %w; write it like github.com, github.com:22, *.npmjs.org or 10.1.2.3:5432", text, err)
	}
	if h.addr.IsValid() && (r.below || len(r.ports) != 1) {
		return Rule{}, fmt.Errorf("%q is not a host and port: an address needs one port, as in 10.1.2.3:5432 or [fd00::7]:443", text)
	}
	r.name, r.addr = h.name, h.addr
	return r, nil
}

// ParseRules is ParseRule for all of a list and of the presets that are named.
func ParseRules(list, presets []string) ([]Rule, error) {
	var rules []Rule
	for _, text := range list {
		r, err := ParseRule(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	for _, name := range presets {
		of, err := Preset(name)
		if err != nil {
			return nil, err
		}
		rules = append(rules, of...)
	}
	return rules, nil
}

// String is the rule as it was written, and where it is from.
func (r Rule) String() string {
	if r.from != "" {
		return r.text + " (" + r.from + ")"
	}
	return r.text
}

// By returns the rule as somebody's, whom its String names.
func (r Rule) By(whom string) Rule {
	r.from = whom
	return r
}

// Text returns the rule as it was written.
func (r Rule) Text() string { return r.text }

// allows reports whether a rule names a host at a port.
func (r Rule) allows(h host, port int) bool {
	return (len(r.ports) == 0 || slices.Contains(r.ports, port)) && r.names(h)
}

// names reports whether a rule names a host, at whatever port.
func (r Rule) names(h host) bool {
	switch {
	case r.name == "*":
		return true
	case r.addr.IsValid() || h.addr.IsValid():
		return r.addr.IsValid() && r.addr == h.addr
	case r.below:
		return strings.HasSuffix(h.name, "."+r.name)
	}
	return r.name != "" && h.name == r.name
}

// host is a host as a client may name it: either of the two.
type host struct {
	name string // lower case, without a dot at the end
	addr netip.Addr
}

func (h host) String() string {
	if h.addr.IsValid() {
		return h.addr.String()
	}
	return h.name
}

// parseHost takes a name or an address in its ordinary form, and nothing that one
// program could read as a name and another as an address.
func parseHost(text string) (host, error) {
	inner, bracketed := strings.CutPrefix(text, "[")
	if bracketed {
		inner = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(inner)
	switch {
	case err == nil && addr.Zone() != "":
		return host{}, fmt.Errorf("%s is an address with a zone", short(text))
	case err == nil && addr.Is4() && bracketed:
		return host{}, fmt.Errorf("%s is not an IPv6 address", short(text))
	case err == nil:
		return host{addr: addr}, nil
	case bracketed || strings.Contains(inner, ":"):
		return host{}, fmt.Errorf("%s is not an IPv6 address", short(text))
	}
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	if why := badName(name); why != "" {
		return host{}, fmt.Errorf("the host %q %s", short(text), why)
	}
	return host{name: name}, nil
}

// badName says what is wrong with the name of a host; empty when nothing is.
func badName(name string) string {
	if name == "" || len(name) > 253 {
		return "is empty or too long"
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return "is not a host name"
		}
		if strings.ContainsFunc(label, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' }) {
			return "has characters that no host name has (international names begin with xn--)"
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "is a number, and no address in the ordinary form"
	}
	return ""
}

// absolute is a name as resolvers take it without adding a domain; one without
// a dot is for them to complete.
func absolute(name string) string {
	if strings.Contains(name, ".") {
		return name + "."
	}
	return name
}

// splitPort cuts a port off a host; IPv6 addresses have brackets then.
func splitPort(text string) (host, port string, ok bool) {
	if _, err := netip.ParseAddr(text); err == nil {
		return text, "", false
	}
	if strings.HasPrefix(text, "[") || strings.Count(text, ":") == 1 {
		if h, p, err := net.SplitHostPort(text); err == nil {
			return strings.TrimSuffix(text, ":"+p), p, h != ""
		}
	}
	return text, "", false
}

func parsePort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, fmt.Errorf("the port %q is not a number from 1 to 65535", short(text))
	}
	return int(n), nil
}

// short keeps what a client sent from filling a log, and from being anything but a text of
// one line to a terminal or an editor.
func short(text string) string {
	const most = 200
	plain := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune("<>()`*|\\", r) || r == utf8.RuneError {
			return '\uFFFD'
		}
		return r
	}, text)
	if len(plain) <= most {
		return plain
	}
	end := most
	for !utf8.RuneStart(plain[end]) {
		end--
	}
	return plain[:end] + "..."
}
