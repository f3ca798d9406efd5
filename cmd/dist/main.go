// Command dist makes a release: an archive per platform, checksums, a list of what
// each program is made of, and the entries for the registries of agents (ACP) and of
// servers (MCP). It is run from the root of a checkout by make dist.
//
// The same source and version give the same bytes, wherever and whenever it is run:
// nothing that it writes knows the time, the directory or the machine.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// release is what is made of one source.
type release struct {
	root    string // the checkout
	out     string // the directory that is filled
	version string // as git describes it
	url     string // where the files of out will be
	log     io.Writer
}

func main() {
	r := release{log: os.Stderr}
	flag.StringVar(&r.root, "root", ".", "the checkout")
	flag.StringVar(&r.out, "out", "dist", "the directory to fill; it is emptied first")
	flag.StringVar(&r.version, "version", "devel", "the version, as git describe prints it")
	flag.StringVar(&r.url, "url", "https://gander.dev/releases/VERSION", "where the files will be; VERSION stands for the version")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "what to build for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	list, err := parsePlatforms(*platforms)
	if err == nil {
		err = r.make(ctx, list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		stop()
		os.Exit(1)
	}
}

// make fills the directory.
func (r *release) make(ctx context.Context, platforms []platform) error {
	r.url = strings.ReplaceAll(r.url, "VERSION", semver(r.version))
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "gander-dist-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	common, err := r.common(ctx, work)
	if err != nil {
		return err
	}
	var bundles []bundle
	for _, p := range platforms {
		b, err := r.makePlatform(ctx, work, p, common)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		bundles = append(bundles, b)
	}
	if err := r.writeRegistries(platforms, bundles); err != nil {
		return err
	}
	return r.writeSums()
}

// makePlatform builds for one platform and packs what belongs to it.
func (r *release) makePlatform(ctx context.Context, work string, p platform, common []file) (bundle, error) {
	_, _ = fmt.Fprintln(r.log, r.file(p))
	program := filepath.Join(work, p.os+"-"+p.arch, p.program())
	cgo, err := r.build(ctx, p, program)
	if err != nil {
		return bundle{}, err
	}
	body, err := os.ReadFile(program)
	if err != nil {
		return bundle{}, err
	}
	files := append([]file{
		{name: p.program(), body: body, mode: 0o755},
		{name: "NOTES.txt", body: []byte(notes(p, cgo)), mode: 0o644},
	}, common...)
	pack := tarball
	if p.os == "windows" {
		pack = zipped
	}
	if err := r.write(r.file(p), pack(files)); err != nil {
		return bundle{}, err
	}
	list, err := components(program, semver(r.version))
	if err != nil {
		return bundle{}, err
	}
	if err := r.write(p.base()+".cdx.json", list); err != nil {
		return bundle{}, err
	}
	return r.makeBundle(p, body)
}

// file is the name of a platform's archive.
func (r *release) file(p platform) string {
	if p.os == "windows" {
		return p.base() + ".zip"
	}
	return p.base() + ".tar.gz"
}

func (r *release) write(name string, body []byte) error {
	path := filepath.Join(r.out, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, body, 0o644)
}

// writeSums writes SHA256SUMS, as sha256sum -c reads it.
func (r *release) writeSums() error {
	var sums strings.Builder
	err := filepath.WalkDir(r.out, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		rel, relErr := filepath.Rel(r.out, path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(body), filepath.ToSlash(rel))
		return errors.Join(err, relErr)
	})
	if err != nil {
		return err
	}
	return r.write("SHA256SUMS", []byte(sums.String()))
}
