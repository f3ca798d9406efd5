package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		rule, host string
		port       int
		want       bool
	}{
		{"github.com", "github.com", 443, true},
		{"github.com", "GitHub.com.", 80, true},
		{"github.com", "github.com", 22, false},
		{"github.com:22", "github.com", 22, true},
		{"github.com:22", "github.com", 443, false},
		{"github.com:*", "github.com", 9418, true},
		{"github.com", "xgithub.com", 443, false},
		{"github.com", "a.github.com", 443, false},
		{"*.npmjs.org", "registry.npmjs.org", 443, true},
		{"*.npmjs.org", "a.b.npmjs.org", 443, true},
		{"*.npmjs.org", "npmjs.org", 443, false},
		{"*.npmjs.org", "xnpmjs.org", 443, false},
		{"*.npmjs.org:8443", "x.npmjs.org", 443, false},
		{"*", "anything.example", 443, true},
		{"*", "anything.example", 22, false},
		{"*:*", "93.184.215.14", 22, true},
		{"*:*", "10.0.0.1", 22, false},
		{"10.0.0.1:22", "10.0.0.1", 22, true},
		{"10.0.0.1:22", "10.0.0.2", 22, false},
		{"[fd00::7]:443", "fd00::7", 443, true},
		{"[fd00::7]:443", "[fd00:0:0::7]", 443, true},
		{"[fd00::7]:443", "fd00::8", 443, false},
		{"example.com", "93.184.215.14", 443, false},
		{"93.184.215.14:443", "93.184.215.14", 443, true},
		{"127.0.0.1:80", "::ffff:127.0.0.1", 80, false},
		{"github.com", "github.com\x00.evil.example", 443, false},
		{"github.com", "github.com@evil.example", 443, false},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", 443, true},
	} {
		r, err := ParseRule(tt.rule)
		if err != nil {
			t.Errorf("%s: %v", tt.rule, err)
			continue
		}
		d := Explain([]Rule{r}, tt.host, tt.port)
		if d.Allowed != tt.want || d.Allowed != (d.Reason == "") || d.Allowed != (d.By == tt.rule) {
			t.Errorf("%s for %s at %d: %+v", tt.rule, tt.host, tt.port, d)
		}
	}
}

func TestBadRules(t *testing.T) {
	for _, text := range []string{
		"", ".", "*.", "a..b", "http://github.com", "github.com/x", "github.com:", "github.com:0", "github.com:70000", "github.com:080", "github.com:x",
		"10.0.0.1", "10.0.0.1:*", "*.10.0.0.1:80", "[fd00::7]", "fd00::7", "fd00::7:443:x", "[10.0.0.1]:80", "0x7f.1:80", "127.1:80", "1234:80",
		"bücher.example", "a b", "-a.example", "*.*.example", "a*.example", "[fe80::1%eth0]:80", strings.Repeat("a.", 130) + "example",
	} {
		if r, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), "is not a host and port") {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

// Every preset must let its tools through, and no more than those hosts' TLS.
func TestPresets(t *testing.T) {
	needs := map[string][]string{
		"go":     {"proxy.golang.org:443", "sum.golang.org:443"},
		"npm":    {"registry.npmjs.org:443", "registry.yarnpkg.com:443"},
		"pypi":   {"pypi.org:443", "files.pythonhosted.org:443"},
		"crates": {"index.crates.io:443", "static.crates.io:443", "crates.io:443"},
		"debian": {"deb.debian.org:80", "deb.debian.org:443", "security.debian.org:80"},
		"git":    {"github.com:443", "codeload.github.com:443", "gitlab.com:443", "codeberg.org:443", "bitbucket.org:443"},
	}
	if len(needs) != len(Presets()) {
		t.Fatalf("presets %v", Presets())
	}
	for _, name := range Presets() {
		rules, err := ParseRules(nil, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range needs[name] {
			host, text, _ := splitPort(address)
			port, _ := parsePort(text)
			if d := Explain(rules, host, port); !d.Allowed || !strings.Contains(d.By, "(preset "+name+")") {
				t.Errorf("%s: %s is %+v", name, address, d)
			}
		}
		for _, host := range []string{"evil.example", "gist.github.com", "storage.googleapis.com", "x.pypi.org", "github.io"} {
			if d := Explain(rules, host, 443); d.Allowed {
				t.Errorf("%s: %s is %+v", name, host, d)
			}
		}
	}
	if _, err := ParseRules(nil, []string{"rust"}); err == nil || !strings.Contains(err.Error(), "crates, debian, git, go, npm, pypi") {
		t.Errorf("an unknown preset: %v", err)
	}
}

func TestNotPublic(t *testing.T) {
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.255.255.255", "100.127.255.255", "127.255.255.254", "169.254.169.254", "172.16.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1",
		"192.168.0.1", "198.19.0.1", "198.51.100.1", "203.0.113.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1", "fe80::1", "febf::1",
		"fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:10::1", "2001:db8::1",
		"2002:808:808::1", "3fff::1", "4000::1", "5f00::1",
	} {
		if notPublic(netip.MustParseAddr(text)) == "" {
			t.Errorf("%s counts as public", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "93.184.215.14", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"} {
		if why := notPublic(netip.MustParseAddr(text)); why != "" {
			t.Errorf("%s is %s", text, why)
		}
	}
}
