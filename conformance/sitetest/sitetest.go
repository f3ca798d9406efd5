// Package sitetest has what tests make sites of from which programs in sandboxes download:
// Git is a git host, and Certified has it trusted by whom the test tells of its authority.
package sitetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Git serves a repository, tiny.git, that has one file, called file, with a line of text.
func Git(t *testing.T, text string) http.Handler {
	t.Helper()
	repos := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `git init -q --bare -b main tiny.git && git init -q -b main w && cd w && echo "$0" > file &&
git add file && git -c user.name=a -c user.email=a@b commit -qm one && git push -q ../tiny.git main`, text)
	cmd.Dir, cmd.Env = repos, append(os.Environ(), "HOME="+repos, "GIT_CONFIG_NOSYSTEM=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return GitIn(t, repos)
}

// GitIn serves the repositories in a directory.
func GitIn(t *testing.T, repos string) http.Handler {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + repos, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
}

// Certified makes an authority and has it sign for names, or addresses. It returns what a
// server is configured with, and the authority's certificate as PEM.
func Certified(t *testing.T, names ...string) (config *tls.Config, authority []byte) {
	t.Helper()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	root.Subject.CommonName = "an authority of a test"
	top, rootKey := sign(t, root, root, nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	leaf.Subject.CommonName = names[0]
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, address)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	der, key := sign(t, leaf, root, rootKey)
	config = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	return config, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: top})
}

// sign makes a certificate with a new key. Without a signer it signs itself.
func sign(t *testing.T, c, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
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
