package wire

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/rules/project"
)

// authorityVariables name the variables by which programs find the certificates of
// authorities that a person trusts besides the system's.
var authorityVariables = []string{
	"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "CURL_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT", "AWS_CA_BUNDLE",
}

// maxAuthorities bounds a file of certificates, in bytes.
const maxAuthorities = 4 << 20

// Authorities is a file of certificates that a variable of the person's names.
type Authorities struct {
	Variable string `json:"variable"`
	Path     string `json:"path"`
	// Why says why it is not inside; empty where it is.
	Why string `json:"why,omitempty"`

	text []byte // the certificates; nil where the project has the file
}

// FindAuthorities reads the certificates that the person's variables name. Of a file that a
// sandbox can write nothing is read; in the project it is there anyway.
func FindAuthorities(cfg *config.Config, dir string) (all []Authorities) {
	for _, name := range authorityVariables {
		path := cfg.Variable(name)
		if path == "" {
			continue
		}
		a := Authorities{Variable: name, Path: filepath.Clean(path)}
		if err := a.read(dir, cfg.Home); err != nil {
			a.Why = err.Error()
		}
		all = append(all, a)
	}
	return all
}

func (a *Authorities) read(dir, state string) error {
	if !filepath.IsAbs(a.Path) {
		return errors.New("its path is not absolute")
	}
	writable := []string{dir, state}
	real, err := project.Resolve(a.Path, writable)
	if err != nil {
		return err
	}
	for i, at := range writable {
		if at, err := filepath.EvalSymlinks(at); err == nil && at != "" && project.Below(real, at) {
			if i == 0 {
				return nil
			}
			return errors.New("it is among gander's own files")
		}
	}
	f, err := os.Open(real) //nolint:gosec // the person's own
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxAuthorities {
		return fmt.Errorf("it is no regular file of at most %d bytes", maxAuthorities)
	}
	if last, ok := lastRead.Load(real); ok && last.(authorityFile).is(info) {
		a.text = last.(authorityFile).text
		return nil
	}
	text := make([]byte, info.Size())
	if _, err := io.ReadFull(f, text); err != nil {
		return err
	}
	if text = certificatesIn(text); len(text) == 0 {
		return errors.New("there is no certificate in it")
	}
	a.text = text
	lastRead.Store(real, authorityFile{info, a.text})
	return nil
}

// lastRead has an authorityFile for each path: a system's bundle takes 10 ms to read, several
// variables name it, and agents are looked up often.
var lastRead sync.Map

// authorityFile holds the certificates of a file as it was.
type authorityFile struct {
	info os.FileInfo
	text []byte
}

// is reports whether a file is the one that was read, and has not changed since.
func (f authorityFile) is(info os.FileInfo) bool {
	return os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime())
}

// certificatesIn returns the certificates of a text, and nothing else of it.
func certificatesIn(text []byte) []byte {
	all := bytes.NewBuffer(make([]byte, 0, len(text)))
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" || block.Type == "TRUSTED CERTIFICATE" {
			_ = pem.Encode(all, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // to memory
		}
	}
	return all.Bytes()
}

// systemBundles are where systems keep their CA certificates.
func systemBundles() []string {
	return []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"}
}

// InsideEnv returns the environment that every program in a sandbox starts from: the
// allow-list of the configuration, nothing else of the host's.
func InsideEnv(cfg *config.Config) ([]string, error) {
	certificates, err := certificateVariables(cfg)
	if err != nil {
		return nil, err
	}
	return append(cfg.InsideEnvironment(), certificates...), nil
}

// certificateVariables name the CA certificates inside.
func certificateVariables(cfg *config.Config) (env []string, err error) {
	for _, a := range FindAuthorities(cfg, "") {
		switch {
		case a.Why == "":
			env = append(env, a.Variable+"="+a.Path)
		case a.Variable == "SSL_CERT_FILE":
			return nil, fmt.Errorf("the CA certificates that SSL_CERT_FILE names cannot be read: %s: %s; correct the variable or unset it", a.Path, a.Why)
		}
	}
	if cfg.CABundle() != "" {
		return env, nil
	}
	if runtime.GOOS == "windows" { // which keeps them elsewhere, and programs know where
		return env, nil
	}
	bundles := systemBundles()
	i := slices.IndexFunc(bundles, func(path string) bool { _, err := os.Stat(path); return err == nil })
	if i < 0 {
		return nil, errors.New("this machine has no CA certificates, without which agents do not start; install the package ca-certificates, or name a bundle in SSL_CERT_FILE")
	}
	return append(env, "SSL_CERT_FILE="+bundles[i]), nil
}
