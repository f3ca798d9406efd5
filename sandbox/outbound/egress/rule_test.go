package egress

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
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

// What the clients of a preset ask for by default comes through a door that has only
// that preset, and what is next to it does not, nor is it looked up.
func TestPresets(t *testing.T) {
	clients := map[string]struct{ need, beside []string }{
		"go": {
			need:   []string{"https://proxy.golang.org/golang.org/x/text/@v/list", "https://sum.golang.org/latest"},
			beside: []string{"https://golang.org/", "https://storage.googleapis.com/x", "https://x.proxy.golang.org/", "http://proxy.golang.org/", "https://proxy.golang.org:8443/"},
		},
		"npm": {
			need:   []string{"https://registry.npmjs.org/tiny", "https://registry.npmjs.org/-/npm/v1/security/audits/quick", "https://registry.yarnpkg.com/tiny", "https://nodejs.org/download/release/v22.0.0/node-v22.0.0-headers.tar.gz"},
			beside: []string{"https://npmjs.org/", "https://www.npmjs.com/", "https://npm.pkg.github.com/", "https://registry.npmjs.org.evil.example/", "http://registry.npmjs.org/tiny"},
		},
		"pypi": {
			need:   []string{"https://pypi.org/simple/tiny/", "https://files.pythonhosted.org/packages/tiny.whl"},
			beside: []string{"https://upload.pypi.org/legacy/", "https://test.pypi.org/simple/", "https://pythonhosted.org/", "http://pypi.org/simple/tiny/"},
		},
		"crates": {
			need:   []string{"https://index.crates.io/config.json", "https://static.crates.io/crates/tiny/1.0.0/download", "https://crates.io/api/v1/crates/tiny/1.0.0/download", "https://static.rust-lang.org/dist/channel-rust-stable.toml"},
			beside: []string{"https://docs.rs/", "https://www.rust-lang.org/", "https://x.crates.io/", "https://github.com/rust-lang/crates.io-index", "http://index.crates.io/"},
		},
		"debian": {
			need:   []string{"http://deb.debian.org/debian/dists/bookworm/InRelease", "https://deb.debian.org/debian/", "http://security.debian.org/debian-security/", "https://security.debian.org/"},
			beside: []string{"http://ftp.debian.org/", "https://salsa.debian.org/", "http://snapshot.debian.org/", "http://debian.org/", "http://deb.debian.org:8080/"},
		},
		"git": {
			need: []string{
				"https://github.com/a/b.git/info/refs", "https://codeload.github.com/a/b/tar.gz/main", "https://raw.githubusercontent.com/a/b/main/c", "https://objects.githubusercontent.com/a", "https://release-assets.githubusercontent.com/a",
				"https://gitlab.com/a/b.git/info/refs", "https://codeberg.org/a/b.git/info/refs", "https://bitbucket.org/a/b.git/info/refs", "https://git.sr.ht/~a/b/info/refs",
			},
			beside: []string{"https://gist.github.com/", "https://api.github.com/", "https://uploads.github.com/", "https://a.github.io/", "https://gist.githubusercontent.com/", "http://github.com/", "https://github.com:22/"},
		},
		"alpine": {
			need:   []string{"http://dl-cdn.alpinelinux.org/alpine/v3.20/main/x86_64/APKINDEX.tar.gz", "https://dl-cdn.alpinelinux.org/alpine/"},
			beside: []string{"https://gitlab.alpinelinux.org/", "http://alpinelinux.org/"},
		},
		"gradle": {
			need:   []string{"https://services.gradle.org/distributions/gradle-9.0-bin.zip", "https://plugins.gradle.org/m2/", "https://plugins-artifacts.gradle.org/a", "https://release-assets.githubusercontent.com/a"},
			beside: []string{"https://scans.gradle.com/", "https://gradle.org/", "http://services.gradle.org/"},
		},
		"hex": {
			need:   []string{"https://repo.hex.pm/names", "https://hex.pm/api/packages", "https://builds.hex.pm/installs/hex.csv"},
			beside: []string{"https://hexdocs.pm/", "https://x.hex.pm/", "http://repo.hex.pm/"},
		},
		"maven": {
			need:   []string{"https://repo.maven.apache.org/maven2/", "https://repo1.maven.org/maven2/"},
			beside: []string{"https://oss.sonatype.org/", "https://maven.org/", "http://repo1.maven.org/"},
		},
		"nuget": {
			need:   []string{"https://api.nuget.org/v3/index.json", "https://www.nuget.org/api/v2/"},
			beside: []string{"https://nuget.org/", "https://int.nugettest.org/", "http://api.nuget.org/"},
		},
		"rubygems": {
			need:   []string{"https://rubygems.org/gems/a.gem", "https://index.rubygems.org/versions"},
			beside: []string{"https://stdgems.org/", "https://x.rubygems.org/", "http://rubygems.org/"},
		},
		"ubuntu": {
			need:   []string{"http://archive.ubuntu.com/ubuntu/", "http://security.ubuntu.com/ubuntu/", "http://ports.ubuntu.com/ubuntu-ports/"},
			beside: []string{"http://ppa.launchpad.net/", "http://changelogs.ubuntu.com/", "http://ubuntu.com/"},
		},
	}
	if len(clients) != len(Presets()) {
		t.Fatalf("presets %v", Presets())
	}
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Host) })
	plain, secure := httptest.NewServer(serve), httptest.NewTLSServer(serve)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	for name, of := range clients {
		t.Run(name, func(t *testing.T) {
			rules, err := ParseRules(nil, []string{name})
			if err != nil {
				t.Fatal(err)
			}
			w := sites(plain, secure)
			hosts := map[string]bool{}
			for i, address := range slices.Concat(of.need, of.beside) {
				u, err := url.Parse(address)
				if err != nil {
					t.Fatal(err)
				}
				w.names[u.Hostname()] = []netip.Addr{public} // refused for their names alone
				if i < len(of.need) {
					hosts[u.Hostname()] = true
				}
			}
			var told ledger
			c := through(t, opened(t, w, Options{Rules: rules, Observe: told.note}), nil)
			c.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true // the server is nobody's
			for _, address := range of.need {
				u, _ := url.Parse(address)
				if status, text, err := get(t, c, address); err != nil || status != http.StatusOK || text != u.Host {
					t.Errorf("%s: %d %q %v", address, status, text, err)
				}
			}
			for _, d := range told.take() {
				if !strings.Contains(d.By, "(preset "+name+")") {
					t.Errorf("%s is allowed by %q", d.Address(), d.By)
				}
			}
			for _, address := range of.beside {
				status, _, err := get(t, c, address)
				if status != http.StatusForbidden && (err == nil || !strings.Contains(err.Error(), "Forbidden")) {
					t.Errorf("%s is not refused: %d %v", address, status, err)
				}
			}
			for _, host := range w.lookups {
				if !hosts[host] {
					t.Errorf("%s was looked up", host)
				}
			}
		})
	}
	if _, err := ParseRules(nil, []string{"rust"}); err == nil || !strings.Contains(err.Error(), "crates, debian, git, go, gradle") {
		t.Errorf("an unknown preset: %v", err)
	}
}

func TestNotPublic(t *testing.T) {
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.255.255.255", "100.127.255.255", "127.255.255.254", "168.63.129.16", "169.254.169.254", "172.16.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1",
		"192.168.0.1", "198.19.0.1", "198.51.100.1", "203.0.113.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1", "fe80::1", "febf::1",
		"fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:10::1", "2001:db8::1",
		"2002:808:808::1", "3fff::1", "4000::1", "5f00::1",
	} {
		if notPublic(netip.MustParseAddr(text)) == "" {
			t.Errorf("%s counts as public", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "93.184.215.14", "100.63.255.255", "100.128.0.1", "168.63.129.17", "172.32.0.1", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"} {
		if why := notPublic(netip.MustParseAddr(text)); why != "" {
			t.Errorf("%s is %s", text, why)
		}
	}
}

// Each row of the presets is complete, and its rule can be read.
func TestPresetRows(t *testing.T) {
	rows := PresetRows()
	if len(rows) < 30 {
		t.Errorf("%d rows", len(rows))
	}
	for _, r := range rows {
		_, bad := ParseRule(r.Rule)
		if _, err := time.Parse(time.DateOnly, r.Written); err != nil || bad != nil || r.Preset == "" || !strings.HasPrefix(r.Source, "https://") {
			t.Errorf("%+v: %v, %v", r, err, bad)
		}
	}
}
