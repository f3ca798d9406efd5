//go:build unix

package docker

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// TestNoClassicBuilder: a daemon that has only BuildKit builds by that.
func TestNoClassicBuilder(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !strings.HasSuffix(r.URL.Path, "/build") {
			return
		}
		version := r.URL.Query().Get("version")
		if asked = append(asked, version); version != "2" {
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w, `{"message":"there is no such builder"}`)
			return
		}
		_, _ = io.WriteString(w, `{"stream":"built"}`)
	}))
	defer server.Close()
	cli, err := client.New(client.WithHost("tcp://"+strings.TrimPrefix(server.URL, "http://")), client.WithAPIVersion("1.44"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cli.Close() }()
	c, err := prepareContext(t.Context(), contextOptions(t, "sha512-"), "x86_64")
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	c.output = &said
	if err := c.buildSomehow(t.Context(), cli, "goose"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []string{"1", "2"}) || !strings.Contains(said.String(), "there is no such builder") || !strings.HasSuffix(said.String(), "built") {
		t.Errorf("asked for builders %q, said %q", asked, said.String())
	}
}

// TestTrace: of what BuildKit sends steps are told once, their output and why they
// failed.
func TestTrace(t *testing.T) {
	field := func(number byte, value string) string { return string([]byte{number<<3 | 2, byte(len(value))}) + value }
	step := field(1, "sha256:1") + field(3, "[1/2] RUN make") + field(5, "\x08\x01") + "\x20\x01"
	status := field(1, step) + field(1, step+field(7, "it broke")) + field(1, field(1, "sha256:2")+field(3, "not begun")) +
		field(3, field(1, "sha256:1")+"\x18\x01"+field(4, "making\n"))
	var out strings.Builder
	kit := trace{out: &out, named: map[string]bool{}}
	if err := kit.write(fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString([]byte(status)))); err != nil {
		t.Fatal(err)
	}
	if want := "[1/2] RUN make\nit broke\nmaking\n"; out.String() != want {
		t.Errorf("it says %q, want %q", out.String(), want)
	}
	for _, bad := range []string{"\x0a\x05x", "\x0b", "\xff", "\x0a", "\x08", "\x09\x01"} {
		if err := kit.write(fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString([]byte(bad)))); !errors.Is(err, errTrace) {
			t.Errorf("of %q is said %v", bad, err)
		}
	}
}
