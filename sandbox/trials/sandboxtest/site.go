package sandboxtest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"testing"

	"gander.dev/gander/conformance/sitetest"
	"gander.dev/gander/sandbox/outbound/egress"
)

// filesHost is where the index of Python's packages has its files.
const filesHost = "files.pythonhosted.org"

// newSite returns the door to a site that has something for each of the tools, under any
// of names. Who trusts the file authority trusts it.
func newSite(t *testing.T, authority string, rules []egress.Rule, names []string) *egress.Door {
	t.Helper()
	handler := Site(t)
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	config, certificate := sitetest.Certified(t, names...)
	if err := os.WriteFile(authority, certificate, 0o644); err != nil {
		t.Fatal(err)
	}
	secure.TLS = config
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that are cut off
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	address := netip.MustParseAddr("93.184.215.14") // public, so that names decide
	door := egress.New(egress.Options{
		Rules: rules,
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if !slices.Contains(names, host) {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return []netip.Addr{address}, nil
		},
		Connect: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			switch to {
			case netip.AddrPortFrom(address, 80):
				return d.DialContext(ctx, "tcp", plain.Listener.Addr().String())
			case netip.AddrPortFrom(address, 443):
				return d.DialContext(ctx, "tcp", secure.Listener.Addr().String())
			}
			return nil, errors.New("nobody is there")
		},
	})
	t.Cleanup(func() {
		if err := door.Close(); err != nil {
			t.Error(err)
		}
	})
	return door
}

// Site is a git host, a registry of npm, a proxy of Go's modules and an index of
// Python's packages, with one tiny thing in each.
func Site(t *testing.T) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	file := func(path string, content []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	}
	file("/{$}", []byte("hello"))
	mux.Handle("/tiny.git/", sitetest.Git(t, "hello"))

	tarball := npmPackage(t)
	sum := sha512.Sum512(tarball)
	file("/tiny.tgz", tarball)
	mux.HandleFunc("/tiny", func(w http.ResponseWriter, r *http.Request) {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		_, _ = fmt.Fprintf(w, `{"name":"tiny","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"tiny","version":"1.0.0","dist":{"tarball":"%s://%s/tiny.tgz","integrity":"sha512-%s"}}}}`,
			scheme, r.Host, base64.StdEncoding.EncodeToString(sum[:]))
	})

	const version, mod = "/example.org/tiny/@v/v1.0.0.", "module example.org/tiny\n\ngo 1.21\n"
	file(version+"info", []byte(`{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}`))
	file(version+"mod", []byte(mod))
	file(version+"zip", zipped(t, map[string]string{
		"example.org/tiny@v1.0.0/go.mod": mod, "example.org/tiny@v1.0.0/tiny.go": "package tiny\n\nconst Says = \"tiny works\"\n",
	}))

	const wheel, info = "/tiny-1.0-py3-none-any.whl", "tiny-1.0.dist-info/"
	mux.HandleFunc("/simple/tiny/", func(w http.ResponseWriter, r *http.Request) {
		from := ""
		if r.Host == "pypi.org" {
			from = "https://" + filesHost
		}
		_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="%s">tiny</a></body></html>`, from+wheel)
	})
	file(wheel, zipped(t, map[string]string{
		"tiny.py": "says = 'tiny works'\n", info + "METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
		info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n", info + "RECORD": "tiny.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	}))
	return mux
}

func npmPackage(t *testing.T) []byte {
	t.Helper()
	var tarball bytes.Buffer
	z := gzip.NewWriter(&tarball)
	tw := tar.NewWriter(z)
	for name, text := range map[string]string{"package/package.json": `{"name":"tiny","version":"1.0.0"}`, "package/index.js": "module.exports = 'tiny works'"} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(tw, text)
	}
	if err := errors.Join(tw.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return tarball.Bytes()
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, text := range files {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(f, text)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}
