package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
)

// BuildOptions say how images are built. Options names the daemon, gander's
// program (Executable), the state directory and the CA bundle.
type BuildOptions struct {
	Options
	// Agents are the images to build; empty means all.
	Agents []string
	// Context is the folder sandbox/ of a checkout, see CheckContext. Its files are
	// used as they are, and the plain docker build works with it afterwards. Empty
	// means a directory below StateDir, filled with this program's own files.
	Context string
	// Fresh builds everything again, with Debian's packages as they are now.
	Fresh bool
	// Archive is where Debian's packages are from, see DebianArchive. Empty means the
	// archives of the base image, as they are now.
	Archive string
	// Base is the image of Debian 12 that is built on, by its tag or digest. Empty means
	// debian:bookworm-slim as the daemon has it, or else as the registry has it now.
	Base string
	// NPM is the npm program; empty means npm.
	NPM string
	// Env is the environment that npm runs with, as KEY=value.
	Env []string
	// Output takes the progress, for people.
	Output io.Writer
}

// CheckContext says why a directory is no build context. One is chosen by a person and never
// found: what its files say is done on this machine (npm's settings) and gets into images.
func CheckContext(dir string) error {
	needed := []string{"package-lock.json"}
	for _, agent := range imageAgents() {
		needed = append(needed, dockerfile(agent))
	}
	for _, f := range needed {
		if !isFile(filepath.Join(dir, f)) {
			return fmt.Errorf("%s is not the folder sandbox/ of a checkout of gander: it has no %s", dir, f)
		}
	}
	return nil
}

// Build builds the agents' images. The agents are fetched by npm on this machine
// and checked against the lock file; nothing but Debian's packages is downloaded
// inside a build. The builder is the classic one, or BuildKit where there is no other. What is
// built from the same files, packages and base is the same image, to the bit.
func Build(ctx context.Context, o BuildOptions) error {
	if o.Output == nil {
		o.Output = io.Discard
	}
	cli, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = cli.Close() }()
	machine, err := cli.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("asking the daemon about the machine: %w", err)
	}
	c, err := prepareContext(ctx, o, machine.Info.Architecture)
	if err != nil {
		return err
	}
	agents := o.Agents
	if len(agents) == 0 {
		agents = imageAgents()
	}
	for _, agent := range agents {
		if err := c.build(ctx, cli, agent); err != nil {
			return fmt.Errorf("building the image %s: %w", ImageName(agent), c.explain(err))
		}
	}
	return nil
}

// build makes an agent's image.
func (c buildContext) build(ctx context.Context, cli *client.Client, agent string) error {
	_, _ = fmt.Fprintf(c.output, "building %s\n", ImageName(agent))
	if err := c.buildSomehow(ctx, cli, agent); err != nil {
		return err
	}
	return c.sealOnce(ctx, cli, agent)
}

// buildSomehow prefers the classic builder: its words are the same everywhere.
func (c buildContext) buildSomehow(ctx context.Context, cli *client.Client, agent string) error {
	err := c.buildWith(ctx, cli, agent, ImageName(agent), build.BuilderV1)
	if noBuilder(err) {
		_, _ = fmt.Fprintf(c.output, "the daemon does not build in the classic way (%v); asking its BuildKit\n", err)
		return c.buildWith(ctx, cli, agent, ImageName(agent), build.BuilderBuildKit)
	}
	return err
}

// noBuilder says whether a daemon refused to begin, as one does whose classic builder
// has been taken out.
func noBuilder(err error) bool {
	return errdefs.IsNotImplemented(err) || errdefs.IsInvalidArgument(err) || errdefs.IsNotFound(err)
}

// buildWith sends the context to the daemon and follows what it says.
func (c buildContext) buildWith(ctx context.Context, cli *client.Client, agent, name string, version build.BuilderVersion) error {
	files, err := c.files(agent)
	if err != nil {
		return err
	}
	content, sender := io.Pipe()
	sent := make(chan struct{})
	go func() { // ends when the daemon has read all or the pipe is closed below
		defer close(sent)
		_ = sender.CloseWithError(writeTar(sender, c.dir, files))
	}()
	defer func() {
		_ = content.Close()
		<-sent
	}()
	res, err := cli.ImageBuild(ctx, content, client.ImageBuildOptions{
		Tags: []string{name}, Dockerfile: dockerfile(agent), Version: version,
		Remove: true, ForceRemove: true, NoCache: c.fresh, BuildArgs: c.arguments(),
	})
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return follow(res.Body, c.output)
}

// arguments are those of the Dockerfiles.
func (c buildContext) arguments() map[string]*string {
	args := map[string]*string{"BASE": &c.base}
	if c.archive != "" {
		args["DEBIAN_ARCHIVE"] = &c.archive
	}
	return args
}

// snapshotTime is a time in the names of Debian's snapshots.
var snapshotTime = regexp.MustCompile(`^\d{8}T\d{6}Z$`)

// DebianArchive is the address of an archive of Debian's packages: of the one as it was
// at a time, such as 20261101T000000Z, or one that is named itself. apt checks what comes
// from it against Debian's signatures, also where it is old.
func DebianArchive(of string) (string, error) {
	if snapshotTime.MatchString(of) {
		return "http://snapshot.debian.org/archive/debian/" + of, nil
	}
	u, err := url.Parse(of)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsFunc(of, unicode.IsSpace) || strings.ContainsAny(of, `"'\[]`) {
		return "", fmt.Errorf("%q is neither a time of Debian's snapshots, such as 20261101T000000Z, nor the address of an archive, such as http://deb.debian.org/debian", of)
	}
	return of, nil
}

// explain says what to do when the base image cannot be had.
func (c buildContext) explain(err error) error {
	for _, sign := range []string{"registry", "pull access denied", "manifest"} {
		if strings.Contains(err.Error(), sign) {
			return fmt.Errorf("%w; the base image %s is not here and cannot be pulled: load it from elsewhere, or make it as .ci/docker in gander's source does", err, c.base)
		}
	}
	return err
}

// follow copies the daemon's words and returns the error among them.
func follow(r io.Reader, out io.Writer) error {
	kit := trace{out: out, named: map[string]bool{}}
	for d := json.NewDecoder(r); ; {
		var m jsonstream.Message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading the daemon's answer: %w", err)
		}
		if m.Error != nil {
			return errors.New(m.Error.Message)
		}
		if m.ID == traceID && m.Aux != nil {
			if err := kit.write(*m.Aux); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(out, m.Stream); err != nil {
			return err
		}
	}
}
