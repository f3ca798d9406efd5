//go:build unix

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"
)

// ownAddress is one of this machine's that containers reach, too.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this machine has no address but that of its loopback device")
	return ""
}

func TestDebianArchive(t *testing.T) {
	for of, want := range map[string]string{
		"20261101T000000Z":               "http://snapshot.debian.org/archive/debian/20261101T000000Z",
		"http://deb.debian.org/debian":   "http://deb.debian.org/debian",
		"https://mirror.example/debian/": "https://mirror.example/debian/",
		"20261101":                       "",
		"2026-11-01T00:00:00Z":           "",
		"mirror.example/debian":          "",
		"file:///srv/debian":             "",
		"http:///debian":                 "",
		"http://a/b c":                   "",
		"http://a/$(id)\"":               "",
		"http://a/ [trusted=yes]":        "",
	} {
		if got, err := DebianArchive(of); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", of, got, err, want)
		}
	}
}

// TestArchiveIsTheOnlyOne: an image whose packages are pinned takes them from nowhere else.
// The archive here has nothing, so that there is no image.
func TestArchiveIsTheOnlyOne(t *testing.T) {
	cli := daemon(t)
	var mu sync.Mutex
	var asked []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		http.NotFound(w, r)
	}))
	_ = server.Listener.Close()
	listener, err := net.Listen("tcp4", net.JoinHostPort(ownAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.Start()
	defer server.Close()
	var said strings.Builder
	o := contextOptions(t, "sha512-")
	o.Output, o.Fresh = &said, true
	o.Archive = server.URL + "/archive/debian/20261101T000000Z"
	c, err := prepareContext(t.Context(), o, "x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range imageAgents() {
		said.Reset()
		if err := c.buildSomehow(t.Context(), cli, agent); err == nil {
			t.Errorf("%s: there is an image without packages", agent)
		}
		if strings.Contains(said.String(), "deb.debian.org") {
			t.Errorf("%s: other archives were asked: %s", agent, said.String())
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, path := range asked {
		if !strings.HasPrefix(path, "/archive/debian/20261101T000000Z/dists/bookworm/") {
			t.Errorf("the archive was asked for %s", path)
		}
	}
	if len(asked) == 0 {
		t.Errorf("the archive was asked for nothing: %s", said.String())
	}
}

// TestBase: images are built on the base that was asked for, and sealed above its layers.
func TestBase(t *testing.T) {
	cli := daemon(t)
	const empty = "gander-test-base:latest" // has no shell, so that nothing can be built on it
	var archive bytes.Buffer
	if err := tar.NewWriter(&archive).Close(); err != nil {
		t.Fatal(err)
	}
	r, err := cli.ImageImport(t.Context(), client.ImageImportSource{Source: &archive, SourceName: "-"}, empty, client.ImageImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	t.Cleanup(func() {
		_, _ = cli.ImageRemove(context.WithoutCancel(t.Context()), empty, client.ImageRemoveOptions{Force: true})
	})
	o := contextOptions(t, "sha512-")
	var said bytes.Buffer // Podman says why there only
	o.Base, o.Fresh, o.Output = empty, true, io.MultiWriter(t.Output(), &said)
	c, err := prepareContext(t.Context(), o, "x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range imageAgents() {
		said.Reset()
		err := c.buildSomehow(t.Context(), cli, agent)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()+said.String()), "/bin/sh: no such file") {
			t.Errorf("%s on a base without a shell: %v", agent, err)
		}
	}
	c.base = "gander-test-no-base:latest"
	if _, err := c.seal(t.Context(), cli, empty); err == nil || !strings.Contains(err.Error(), c.base) {
		t.Errorf("an image is sealed above a base that is not there: %v", err)
	}
}
