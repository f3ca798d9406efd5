//go:build unix

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/build"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// daemon is a client of the daemon of make check.
func daemon(t *testing.T) *client.Client {
	t.Helper()
	cli, err := Options{Host: os.Getenv("DOCKER_HOST")}.connect(t.Context())
	if err != nil && os.Getenv("GANDER_CHECK") != "1" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	return cli
}

const sealDockerfile = "FROM " + baseImage + `
ENV GREETING=hello
RUN mkdir -p /made/deep && echo text > /made/deep/file && chown 7:8 /made/deep/file && chmod 640 /made/deep/file \
 && ln /made/deep/file /made/again && ln -s deep/file /made/link && rm /etc/debian_version
RUN echo more > /made/more; echo it is made
USER 7:8
`

// freshly builds the tests' image from nothing, with further steps.
func freshly(t *testing.T, cli *client.Client, name string, version build.BuilderVersion, more string) (id string) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(sealDockerfile + more))})
	if err == nil {
		_, err = io.WriteString(w, sealDockerfile+more)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	res, err := cli.ImageBuild(t.Context(), &archive, client.ImageBuildOptions{Tags: []string{name}, Version: version, Remove: true, NoCache: true})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := errors.Join(follow(res.Body, &said), res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "echo more > /made/more") || !strings.Contains(said.String(), "it is made") {
		t.Errorf("the builder's steps and their output are not told: %q", said.String())
	}
	return imageID(t, cli, name)
}

func imageID(t *testing.T, cli *client.Client, name string) string {
	t.Helper()
	image, err := cli.ImageInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return image.ID
}

// TestSeal: two builds of the same are the same image, in which nothing is missing, by
// either builder.
func TestSeal(t *testing.T) {
	cli := daemon(t)
	for name, version := range map[string]build.BuilderVersion{"classic": build.BuilderV1, "buildkit": build.BuilderBuildKit} {
		t.Run(name, func(t *testing.T) { testSeal(t, cli, "gander-test-sealed-"+name+":latest", version) })
	}
}

func testSeal(t *testing.T, cli *client.Client, name string, version build.BuilderVersion) {
	c := buildContext{dir: t.TempDir(), output: t.Output(), base: baseImage}
	if err := os.Mkdir(filepath.Join(c.dir, ".image"), 0o700); err != nil {
		t.Fatal(err)
	}
	var built, sealed []string
	for range 2 {
		built = append(built, freshly(t, cli, name, version, ""))
		id, err := c.seal(t.Context(), cli, name)
		if err != nil {
			t.Fatal(err)
		}
		if now := imageID(t, cli, name); now != id {
			t.Errorf("the name is %s's, the sealed image is %s", now, id)
		}
		sealed = append(sealed, id)
		time.Sleep(time.Second)
	}
	t.Cleanup(func() {
		for _, id := range append(built, sealed[0]) {
			_, _ = cli.ImageRemove(context.WithoutCancel(t.Context()), id, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		}
	})
	if built[0] == built[1] {
		t.Error("the control: both builds were the same before")
	}
	if sealed[0] != sealed[1] {
		t.Errorf("two builds are %s and %s", sealed[0], sealed[1])
	}
	if left, _ := os.ReadDir(filepath.Join(c.dir, ".image")); len(left) > 0 {
		t.Errorf("left in the context is %v", left)
	}
	lookInto(t, cli, name)
}

// TestOlderImagesGo: a new image takes the place of the one before, but for one that is used.
func TestOlderImagesGo(t *testing.T) {
	cli := daemon(t)
	const agent = "older-images"
	c := buildContext{dir: t.TempDir(), output: t.Output(), base: baseImage}
	if err := os.Mkdir(filepath.Join(c.dir, filepath.Dir(contextProgram)), 0o700); err != nil {
		t.Fatal(err)
	}
	sealed := func(more string) (ids []string) {
		t.Helper()
		built := freshly(t, cli, ImageName(agent), build.BuilderV1, more)
		if err := c.sealOnce(t.Context(), cli, agent); err != nil {
			t.Fatal(err)
		}
		ids = []string{built, imageID(t, cli, ImageName(agent))}
		t.Cleanup(func() {
			for _, id := range ids {
				_, _ = cli.ImageRemove(context.WithoutCancel(t.Context()), id, client.ImageRemoveOptions{Force: true, PruneChildren: true})
			}
		})
		return ids
	}
	there := func(ids []string) (n int) {
		for _, id := range ids {
			if _, err := cli.ImageInspect(t.Context(), id); err == nil {
				n++
			}
		}
		return n
	}
	first := sealed("ENV N=1")
	if n := there(first); n != 2 {
		t.Fatalf("%d of 2 images are there to begin with", n)
	}
	second := sealed("ENV N=2")
	if n := there(first); n != 0 {
		t.Errorf("%d of 2 older images are left", n)
	}
	used, err := cli.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &api.Config{Image: second[1], Cmd: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = cli.ContainerRemove(context.WithoutCancel(t.Context()), used.ID, client.ContainerRemoveOptions{Force: true})
	})
	third := sealed("ENV N=3")
	if there(second[:1]) != 0 || there(second[1:]) != 1 || there(third) != 2 {
		t.Errorf("of the second build, whose image is used, there are %d and %d, of the third %d", there(second[:1]), there(second[1:]), there(third))
	}
}

// TestSealLinkedLayer: the archive of a daemon may have a link before what it leads to.
func TestSealLinkedLayer(t *testing.T) {
	var layer, archive bytes.Buffer
	if err := tar.NewWriter(&layer).Close(); err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(&archive)
	err := errors.Join(
		w.WriteHeader(&tar.Header{Name: "b/layer.tar", Typeflag: tar.TypeSymlink, Linkname: "../a/layer.tar"}),
		w.WriteHeader(&tar.Header{Name: "a/layer.tar", Mode: 0o644, Size: int64(layer.Len())}))
	if _, werr := w.Write(layer.Bytes()); errors.Join(err, werr, w.Close()) != nil {
		t.Fatal(err, werr)
	}
	s := sealing{dir: t.TempDir(), files: map[string]string{}, links: map[string]string{}}
	if err := s.unpack(&archive); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/layer.tar", "b/layer.tar"} {
		if err := s.addLayer(name, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.diffIDs) != 2 || s.diffIDs[0] != s.diffIDs[1] {
		t.Errorf("the layers are %q", s.diffIDs)
	}
}

// lookInto compares what is in the sealed image with its Dockerfile.
func lookInto(t *testing.T, cli *client.Client, name string) {
	t.Helper()
	image, err := cli.ImageInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if env := image.Config.Env; image.Config.User != "7:8" || len(env) == 0 || env[len(env)-1] != "GREETING=hello" {
		t.Errorf("configuration %+v", image.Config)
	}
	made, err := cli.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &api.Config{Image: name, Cmd: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cli.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true}) }()
	files, err := cli.ContainerExport(t.Context(), made.ID, client.ContainerExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	found := map[string]*tar.Header{}
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = h
	}
	file, again, link := found["made/deep/file"], found["made/again"], found["made/link"]
	if file == nil || again == nil || link == nil || found["made/more"] == nil || found["etc/passwd"] == nil || found["etc/debian_version"] != nil {
		t.Fatalf("of what was made there is %v, %v, %v", file, again, link)
	}
	one := file // the export has the content under one of the names
	if file.Typeflag == tar.TypeLink {
		one = again
	}
	if one.Uid != 7 || one.Gid != 8 || one.Mode&0o777 != 0o640 || one.Size != 5 || file.Typeflag == again.Typeflag || link.Linkname != "deep/file" {
		t.Errorf("file %+v, again %+v, link %+v", file, again, link)
	}
}
