package sandboxtest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/egress"
)

// filesHost is where the index of Python's packages has its files.
const filesHost = "files.pythonhosted.org"

// newSite returns the door to a site that has something for each of the tools, under any
// of names. Who trusts the file authority trusts it.
func newSite(t *testing.T, authority string, rules []egress.Rule, names []string) *egress.Door {
	t.Helper()
	handler := siteHandler(t)
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.TLS = certified(t, authority, names)
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

// certified makes an authority, whose certificate it writes to a file, and has it sign
// for names.
func certified(t *testing.T, file string, names []string) *tls.Config {
	t.Helper()
	sign := func(c, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		c.NotBefore, c.NotAfter, c.BasicConstraintsValid = time.Now().Add(-time.Hour), time.Now().Add(time.Hour), true
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	root.Subject.CommonName = "an authority of a test"
	top, rootKey := sign(root, root, nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	leaf.Subject.CommonName = names[0]
	der, key := sign(leaf, root, rootKey)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: top}), 0o644); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

// siteHandler is a git host, a registry of npm, a proxy of Go's modules and an index of
// Python's packages, with one tiny thing in each.
func siteHandler(t *testing.T) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	file := func(path string, content []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	}
	file("/{$}", []byte("hello"))
	mux.Handle("/tiny.git/", gitHandler(t))

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

// gitHandler serves a repository with one file.
func gitHandler(t *testing.T) http.Handler {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	repos := t.TempDir()
	script := `git init -q --bare -b main tiny.git && git init -q -b main w && cd w && echo hello > file && git add file && git commit -qm one && git push -q ../tiny.git main`
	if said, err := outside(t, repos, script); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + repos, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
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
