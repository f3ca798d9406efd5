package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// copyTree copies a checkout as far as it is source.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir() && slices.Contains([]string{".git", "node_modules", "bin", "dist", ".image"}, e.Name()) && rel != filepath.Join("cmd", "dist"):
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !e.Type().IsRegular():
			return nil
		}
		body, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // somebody's temporary file
		}
		return errors.Join(err, os.WriteFile(filepath.Join(to, rel), body, 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tree is the content of all files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		rel, relErr := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(body)
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A release of the same source, made in another directory, has the same bytes; and
// it is whole: its sums are right, its program runs, its parts are listed.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("building twice takes its time")
	}
	here := platform{runtime.GOOS, runtime.GOARCH}
	var made []map[string]string
	from := filepath.Join("..", "..") // the second copy is made of the first
	for _, name := range []string{"one", "another/and/deeper"} {
		root := filepath.Join(t.TempDir(), name)
		copyTree(t, from, root)
		from = root
		r := release{root: root, out: filepath.Join(root, "dist"), version: "v1.2.3", url: "https://example.org/VERSION", log: t.Output()}
		if err := r.make(t.Context(), []platform{here}); err != nil {
			t.Fatal(err)
		}
		made = append(made, tree(t, r.out))
	}
	if len(made[0]) < 6 || len(made[0]) != len(made[1]) {
		t.Fatalf("%d files, then %d", len(made[0]), len(made[1]))
	}
	for name, body := range made[0] {
		if made[1][name] != body {
			t.Errorf("%s differs", name)
		}
	}
	checkSums(t, made[0])
	if here.os != "windows" {
		checkArchive(t, made[0][here.base()+".tar.gz"], here)
	}
	if list := made[0][here.base()+".cdx.json"]; !strings.Contains(list, `"pkg:golang/github.com/spf13/cobra@v`) || !strings.Contains(list, `"specVersion": "1.6"`) {
		t.Errorf("the list of parts is %.500s", list)
	}
}

func checkSums(t *testing.T, files map[string]string) {
	t.Helper()
	sums := files["SHA256SUMS"]
	for name, body := range files {
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(body)), name); name != "SHA256SUMS" && !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS has no line %q", line)
		}
	}
}

// checkArchive unpacks an archive and runs what is in it.
func checkArchive(t *testing.T, body string, p platform) {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" || !h.ModTime.Equal(someTime) {
			t.Errorf("%s says who made it, and when: %+v", h.Name, h)
		}
	}
	for _, name := range []string{"LICENSE", "README.md", "config.schema.json", "NOTES.txt", "man/gander.1", "man/gander-acp.1"} {
		if len(files[name]) == 0 {
			t.Errorf("there is no %s in the archive", name)
		}
	}
	pages := 0
	for name := range files {
		if strings.HasPrefix(name, "man/") {
			pages++
		}
	}
	if pages < 20 || !bytes.Contains(files["man/gander-sandbox-exec.1"], []byte("EXAMPLE")) {
		t.Errorf("%d pages of the manual; that of sandbox exec is %q", pages, files["man/gander-sandbox-exec.1"])
	}
	program := filepath.Join(t.TempDir(), p.program())
	if err := os.WriteFile(program, files[p.program()], 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "gander v1.2.3 ") {
		t.Errorf("the program says %q, %v", out, err)
	}
}

// all are the platforms of a release.
func all(t *testing.T) []platform {
	t.Helper()
	list, err := parsePlatforms("linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// read is a value as the readers of its JSON see it.
func read(t *testing.T, v any, to any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(indented(v)))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		t.Fatal(err)
	}
}

// The rules of the ACP registry.
func TestAgentEntry(t *testing.T) {
	r := release{version: "v1.2.3", url: "https://example.org/1.2.3"}
	var e struct {
		ID, Name, Version, Description, Repository, License, Icon string
		Authors                                                   []string
		Distribution                                              struct {
			Binary map[string]struct {
				Archive, Cmd string
				Args         []string
			}
		}
	}
	read(t, r.agentEntry(all(t)), &e)
	if !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(e.ID) || e.Name == "" || e.Description == "" || e.License != "Apache-2.0" || len(e.Authors) == 0 {
		t.Errorf("entry %+v", e)
	}
	if !versionShape.MatchString(e.Version) || e.Icon != "./icon.svg" {
		t.Errorf("version %q, icon %q", e.Version, e.Icon)
	}
	for _, key := range []string{"linux-x86_64", "linux-aarch64", "darwin-x86_64", "darwin-aarch64", "windows-x86_64", "windows-aarch64"} {
		b := e.Distribution.Binary[key]
		cmd := "./gander"
		if strings.HasPrefix(key, "windows") {
			cmd += ".exe"
		}
		if u, err := url.Parse(b.Archive); err != nil || u.Scheme != "https" || b.Cmd != cmd || !slices.Equal(b.Args, []string{"acp"}) {
			t.Errorf("%s: %+v", key, b)
		}
	}
}

// The registry's icons are 16 by 16 and have no colour of their own.
func TestIcon(t *testing.T) {
	var svg struct {
		XMLName xml.Name
	}
	if err := xml.Unmarshal(icon, &svg); err != nil {
		t.Fatal(err)
	}
	text := string(icon)
	for _, want := range []string{`width="16"`, `height="16"`, `viewBox="0 0 16 16"`, `fill="currentColor"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the icon has no %s", want)
		}
	}
	if svg.XMLName.Local != "svg" || regexp.MustCompile(`#[0-9a-fA-F]{3}|rgb|stroke=`).MatchString(text) {
		t.Errorf("the icon is %s", text)
	}
}

// The rules of the MCP registry.
func TestServerEntry(t *testing.T) {
	r := release{version: "v1.2.3-4-gabcdef", url: "https://example.org/1.2.3", out: t.TempDir()}
	b, err := r.makeBundle(platform{"linux", "amd64"}, []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Schema                                        string `json:"$schema"`
		Name, Title, Description, Version, WebsiteURL string
		Packages                                      []struct {
			RegistryType, Identifier, Version, FileSHA256 string
			Transport                                     struct{ Type string }
		}
	}
	read(t, r.serverEntry([]bundle{b}), &e)
	if !regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(e.Name) || len(e.Description) > 100 || len(e.Title) > 100 || !versionShape.MatchString(e.Version) {
		t.Errorf("entry %+v", e)
	}
	if !strings.HasSuffix(e.Schema, "/2025-12-11/server.schema.json") {
		t.Errorf("schema %q", e.Schema)
	}
	p := e.Packages[0]
	body, err := os.ReadFile(filepath.Join(r.out, b.file))
	if err != nil || p.FileSHA256 != fmt.Sprintf("%x", sha256.Sum256(body)) || p.RegistryType != "mcpb" || p.Transport.Type != "stdio" || !strings.HasSuffix(p.Identifier, "/gander-mcp-linux-amd64.mcpb") {
		t.Errorf("package %+v, %v", p, err)
	}
}

func TestSemver(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-4-gabcdef-dirty": "1.2.3-4-gabcdef-dirty",
		"020e056": "0.0.0-dev.020e056", "devel": "0.0.0-dev.devel", "feature/x_y": "0.0.0-dev.feature-x-y",
	} {
		if got := semver(version); got != want || !versionShape.MatchString(got) {
			t.Errorf("semver(%q) = %q, want %q", version, got, want)
		}
	}
}

func TestParsePlatforms(t *testing.T) {
	for _, list := range []string{"", "linux", "plan9/amd64", "linux/386", "linux/amd64,"} {
		if _, err := parsePlatforms(list); err == nil {
			t.Errorf("%q is taken", list)
		}
	}
}

// Every archive says what its program cannot do.
func TestNotes(t *testing.T) {
	for _, p := range all(t) {
		n := notes(p, false)
		if !strings.Contains(n, p.String()) || !strings.Contains(n, "knows Go only") || !strings.Contains(n, "Sandboxes: ") {
			t.Errorf("%s: %s", p, n)
		}
	}
	if n := notes(platform{"linux", "amd64"}, true); strings.Contains(n, "Go only") {
		t.Errorf("with C: %s", n)
	}
}
