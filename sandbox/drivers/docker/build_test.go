//go:build unix

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeNPM installs what the lock file in its directory pins, in the way npm does,
// with a wrong hash when the environment says so.
const fakeNPM = `#!/bin/sh
[ "$1 $2" = "ci --ignore-scripts" ] || exit 9
mkdir -p node_modules/@aaif/goose-binary-linux-x64/bin node_modules/opencode-linux-x64/bin
echo goose > node_modules/@aaif/goose-binary-linux-x64/bin/goose
echo opencode > node_modules/opencode-linux-x64/bin/opencode
sed "s|sha512-|$HASH|" package-lock.json > node_modules/.package-lock.json
echo ran >> npm-runs
`

func contextOptions(t *testing.T, hash string) BuildOptions {
	t.Helper()
	dir := t.TempDir()
	write := func(name, body string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var program bytes.Buffer // the head of a program that is linked statically
	if err := binary.Write(&program, binary.LittleEndian, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
	}); err != nil {
		t.Fatal(err)
	}
	return BuildOptions{
		Options: Options{StateDir: filepath.Join(dir, "state"), Executable: write("gander", program.String()), CABundle: write("bundle", "certificates")},
		NPM:     write("npm", fakeNPM), Env: append(os.Environ(), "HASH="+hash), Output: io.Discard,
	}
}

func TestPrepareContext(t *testing.T) {
	o := contextOptions(t, "sha512-")
	var c buildContext
	for range 2 { // the second time npm has nothing to do
		var err error
		if c, err = prepareContext(t.Context(), o, "x86_64"); err != nil {
			t.Fatal(err)
		}
	}
	if runs, _ := os.ReadFile(filepath.Join(c.dir, "npm-runs")); string(runs) != "ran\n" {
		t.Errorf("npm ran %q", runs)
	}
	for _, agent := range imageAgents() {
		files, err := c.files(agent)
		if err != nil {
			t.Fatal(err)
		}
		names := tarNames(t, c.dir, files)
		slices.Sort(files)
		if !slices.Equal(names, files) {
			t.Errorf("the archive has %q, want %q", names, files)
		}
		checkCopied(t, c.dir, agent, names)
	}
	if _, err := c.files("nobody"); err == nil {
		t.Error("there is an image for nobody")
	}
}

func tarNames(t *testing.T, dir string, files []string) (names []string) {
	t.Helper()
	var b bytes.Buffer
	if err := writeTar(&b, dir, files); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// checkCopied: what the Dockerfile copies is in the archive, and permitted by
// .dockerignore.
func checkCopied(t *testing.T, dir, agent string, names []string) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, dockerfile(agent)))
	if err != nil {
		t.Fatal(err)
	}
	ignore, err := os.ReadFile(filepath.Join(dir, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	copied := 0
	for line := range strings.Lines(string(body)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "COPY" {
			continue
		}
		for _, from := range f[1 : len(f)-1] {
			if strings.HasPrefix(from, "--") {
				continue
			}
			copied++
			if !slices.ContainsFunc(names, func(n string) bool { ok, _ := filepath.Match(from, n); return ok }) {
				t.Errorf("%s copies %s, which is not sent", agent, from)
			}
			plain := strings.Replace(from, "[e]", "e", 1)
			if !slices.ContainsFunc(strings.Fields(string(ignore)), func(p string) bool { return strings.HasPrefix(p, "!") && strings.HasPrefix(plain, p[1:]) }) {
				t.Errorf(".dockerignore hides %s", from)
			}
		}
	}
	if want := map[string]int{"goose": 5, "opencode": 6}[agent]; copied != want {
		t.Errorf("%s copies %d files", agent, copied)
	}
}

// TestContextHasNoKey: what a daemon gets to build an image of has nothing of gander's environment.
func TestContextHasNoKey(t *testing.T) {
	const key = "sk-canary-0123456789abcdef"
	o := contextOptions(t, "sha512-")
	o.Env = append(o.Env, "LLM_API_KEY="+key)
	c, err := prepareContext(t.Context(), o, "x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range imageAgents() {
		files, err := c.files(agent)
		if err != nil {
			t.Fatal(err)
		}
		var sent bytes.Buffer
		if err := writeTar(&sent, c.dir, files); err != nil {
			t.Fatal(err)
		}
		if sent.Len() == 0 || bytes.Contains(sent.Bytes(), []byte(key)) {
			t.Errorf("%d bytes of %s hold the key, or nothing", sent.Len(), agent)
		}
	}
	for name, value := range c.arguments() {
		if strings.Contains(*value, key) {
			t.Errorf("the argument %s is the key", name)
		}
	}
}

func TestPrepareContextErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		hash, machine string
		change        func(*BuildOptions)
		want          string
	}{
		"another agent":     {"sha512-x", "x86_64", func(*BuildOptions) {}, "not the one that the lock file pins"},
		"another processor": {"sha512-", "aarch64", func(*BuildOptions) {}, "pinned for x64 processors, and the daemon's machine has arm64"},
		"no npm":            {"sha512-", "x86_64", func(o *BuildOptions) { o.NPM = "no-such-npm" }, "no-such-npm is not installed; install Node.js"},
		"npm fails":         {"sha512-", "x86_64", func(o *BuildOptions) { o.NPM = "false" }, "fetching the agents with false"},
		"no bundle":         {"sha512-", "x86_64", func(o *BuildOptions) { o.CABundle = "" }, "CA certificates"},
		"lost bundle":       {"sha512-", "x86_64", func(o *BuildOptions) { o.CABundle = "/no/such" }, "/no/such"},
		"nowhere":           {"sha512-", "x86_64", func(o *BuildOptions) { o.StateDir = "" }, "neither Context nor StateDir"},
	} {
		t.Run(name, func(t *testing.T) {
			o := contextOptions(t, tt.hash)
			tt.change(&o)
			if _, err := prepareContext(t.Context(), o, tt.machine); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestPrepareContextCancelled(t *testing.T) {
	o := contextOptions(t, "sha512-")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := prepareContext(ctx, o, "x86_64"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestCheckContext(t *testing.T) {
	if err := CheckContext("../.."); err != nil {
		t.Errorf("this checkout: %v", err)
	}
	if err := CheckContext(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no package-lock.json") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestCheckoutIsKept: files of a checkout are not replaced.
func TestCheckoutIsKept(t *testing.T) {
	o := contextOptions(t, "sha512-")
	o.Context = filepath.Join(t.TempDir(), "sandbox")
	if err := unpackSource(o.Context); err != nil {
		t.Fatal(err)
	}
	edited := filepath.Join(o.Context, "BOOTSTRAP.md")
	if err := os.WriteFile(edited, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareContext(t.Context(), o, "amd64"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(edited); string(b) != "mine" {
		t.Errorf("the file is now %q", b)
	}
}
