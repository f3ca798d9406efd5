package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/sandbox"
)

// Where the parts of a build context are that are not source.
const (
	contextProgram = ".image/gander"
	contextBundle  = ".image/ca-certificates.crt"
)

// imageAgents returns the agents that have a Dockerfile, sorted.
func imageAgents() []string {
	var agents []string
	found, _ := fs.Glob(sandbox.Images, dockerfile("*")) // the pattern is well formed
	for _, file := range found {
		agents = append(agents, path.Dir(file))
	}
	return agents
}

func dockerfile(agent string) string { return agent + "/Dockerfile" }

// copied returns the files that a Dockerfile copies into its image. A star in one stands for
// the processor. A character in brackets lets docker build by itself begin without the file.
func copied(dockerfile []byte, processor string) (files []string) {
	for line := range strings.Lines(string(dockerfile)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "COPY" {
			continue
		}
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") })
		for _, source := range words[:max(len(words)-1, 0)] {
			files = append(files, strings.NewReplacer("*", processor, "[", "", "]", "").Replace(source))
		}
	}
	return files
}

// buildContext is a directory that is ready to be built from.
type buildContext struct {
	dir       string
	processor string // as in the names of npm's packages
	output    io.Writer
	fresh     bool // nothing of an earlier build is used
	archive   string
	base      string // an image's name
}

// prepareContext fills the context: source, agents, gander and certificates.
func prepareContext(ctx context.Context, o BuildOptions, architecture string) (buildContext, error) {
	c := buildContext{dir: o.Context, processor: architecture, output: o.Output, fresh: o.Fresh, archive: o.Archive, base: cmp.Or(o.Base, baseImage)}
	switch architecture {
	case "x86_64", "amd64":
		c.processor = "x64"
	case "aarch64", "arm64":
		c.processor = "arm64"
	}
	if c.dir == "" {
		if o.StateDir == "" {
			return c, errors.New("building images needs a directory for the build context: neither Context nor StateDir is set")
		}
		c.dir = filepath.Join(o.StateDir, "images")
		if err := unpackSource(c.dir); err != nil {
			return c, fmt.Errorf("writing the build context: %w", err)
		}
	}
	if err := c.addProgram(o); err != nil {
		return c, err
	}
	if err := c.addBundle(o.CABundle); err != nil {
		return c, err
	}
	return c, c.installAgents(ctx, o)
}

// unpackSource writes this program's own files.
func unpackSource(dir string) error {
	for _, source := range []fs.FS{sandbox.Images, sandbox.NPM} {
		err := fs.WalkDir(source, ".", func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			body, err := fs.ReadFile(source, path)
			if err != nil {
				return err
			}
			return replaceFile(filepath.Join(dir, path), bytes.NewReader(body), 0o644)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c buildContext) addProgram(o BuildOptions) error {
	path, err := o.program()
	if err == nil && path == "" {
		err = errors.New("the images need gander for Linux; on this system name it (gander-linux-amd64 of the release)")
	}
	if err != nil {
		return err
	}
	return c.copyIn(path, contextProgram, 0o755)
}

func (c buildContext) addBundle(path string) error {
	if path == "" {
		return errors.New("the images need this machine's CA certificates and none were found; install ca-certificates, or name a bundle in SSL_CERT_FILE")
	}
	return c.copyIn(path, contextBundle, 0o644)
}

func (c buildContext) copyIn(path, at string, mode fs.FileMode) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("adding %s to the build context: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if err := replaceFile(filepath.Join(c.dir, at), f, mode); err != nil {
		return fmt.Errorf("adding %s to the build context: %w", path, err)
	}
	return nil
}

// replaceFile writes a file at one stroke, so that a build that runs beside this
// one gets the old or the new.
func replaceFile(path string, r io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// files lists what an agent's image needs of the context.
func (c buildContext) files(agent string) ([]string, error) {
	if !slices.Contains(imageAgents(), agent) {
		return nil, fmt.Errorf("there is no image for an agent %q; there is one for each of: %v", agent, imageAgents())
	}
	body, err := os.ReadFile(filepath.Join(c.dir, dockerfile(agent)))
	if err != nil {
		return nil, fmt.Errorf("the build context is not complete: %w", err)
	}
	files := append([]string{dockerfile(agent)}, copied(body, c.processor)...)
	for _, f := range files {
		if !filepath.IsLocal(f) {
			return nil, fmt.Errorf("%s copies %s, which is not in the build context", dockerfile(agent), f)
		}
		if _, err := os.Stat(filepath.Join(c.dir, f)); err != nil {
			return nil, fmt.Errorf("the build context is not complete: %w", err)
		}
	}
	return files, nil
}

// writeTar streams files of dir as the daemon wants a build context.
func writeTar(w io.Writer, dir string, files []string) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := addToTar(t, dir, f); err != nil {
			return fmt.Errorf("sending %s to the daemon: %w", f, err)
		}
	}
	return t.Close()
}

func addToTar(t *tar.Writer, dir, name string) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	// No times: an unchanged file must not look changed to the builder's cache.
	h := &tar.Header{Name: name, Mode: int64(st.Mode().Perm()), Size: st.Size(), Format: tar.FormatPAX}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
