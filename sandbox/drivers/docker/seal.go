package docker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// baseImage is what the agents' images are made from, unless told otherwise.
const baseImage = "debian:bookworm-slim"

// A builder writes into an image when it worked, so that no two builds have the same
// image. sealing takes that out: the layers above the base get no time later than the
// base's, and the image is described anew, with its base's time. What is built from the
// same files, packages and base is the same image then, whichever daemon builds it.
type sealing struct {
	dir     string            // the saved image's files, and the new layers
	files   map[string]string // paths in dir, by their names in the archive
	links   map[string]string // other names of these
	base    int               // how many layers are the base's
	latest  time.Time         // no time is later
	layers  []string          // names of the new archive's layers
	diffIDs []string
}

// sealOnce seals an image that was built, unless the same has been before.
func (c buildContext) sealOnce(ctx context.Context, cli *client.Client, agent string) error {
	name, record := ImageName(agent), filepath.Join(c.dir, filepath.Dir(contextProgram), agent+".sealed")
	built, err := cli.ImageInspect(ctx, name)
	if err != nil {
		return err
	}
	known, _ := os.ReadFile(record)
	from, id, _ := strings.Cut(strings.TrimSpace(string(known)), " ")
	if from == built.ID {
		_, err = cli.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: name})
	}
	if from != built.ID || err != nil { // the sealed one may have been removed
		_, _ = fmt.Fprintln(c.output, "taking the times of this build out, so that the same files make the same image")
		if id, err = c.seal(ctx, cli, name); err != nil {
			return err
		}
		if err := replaceFile(record, strings.NewReader(built.ID+" "+id+"\n"), 0o644); err != nil {
			return err
		}
		c.dropOlder(ctx, cli, strings.Fields(string(known)), []string{built.ID, id})
	}
	_, _ = fmt.Fprintf(c.output, "%s is %s\n", name, id)
	return nil
}

// dropOlder removes images that others were made in the place of, and those of their
// builds' steps that no image needs any more. What a container uses, or has got another
// name, stays.
func (c buildContext) dropOlder(ctx context.Context, cli *client.Client, older, now []string) {
	for _, id := range older {
		if slices.Contains(now, id) {
			continue
		}
		_, err := cli.ImageRemove(ctx, id, client.ImageRemoveOptions{PruneChildren: true})
		if err != nil && !errdefs.IsNotFound(err) {
			_, _ = fmt.Fprintf(c.output, "the older image %s stays: %v\n", id, err)
		}
	}
}

// seal replaces an image by one without traces of when it was built, and returns that
// one's id.
func (c buildContext) seal(ctx context.Context, cli *client.Client, name string) (id string, err error) {
	base, err := cli.ImageInspect(ctx, c.base)
	if err != nil {
		return "", fmt.Errorf("looking at the base: %w", err)
	}
	s := sealing{files: map[string]string{}, links: map[string]string{}, base: len(base.RootFS.Layers)}
	if s.latest, err = time.Parse(time.RFC3339Nano, base.Created); err != nil {
		return "", fmt.Errorf("the base does not say when it was made: %w", err)
	}
	s.latest = s.latest.UTC().Truncate(time.Second)
	if s.dir, err = os.MkdirTemp(filepath.Join(c.dir, filepath.Dir(contextProgram)), "image-"); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	saved, err := cli.ImageSave(ctx, []string{name})
	if err != nil {
		return "", err
	}
	err = errors.Join(s.unpack(saved), saved.Close())
	if err != nil {
		return "", fmt.Errorf("reading the image that was built: %w", err)
	}
	config, err := s.describe()
	if err != nil {
		return "", fmt.Errorf("reading the image that was built: %w", err)
	}
	return s.load(ctx, cli, name, config)
}

// unpack keeps the files of a saved image.
func (s *sealing) unpack(r io.Reader) error {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			at := filepath.Join(s.dir, fmt.Sprint(len(s.files)))
			if err := writeFile(at, t); err != nil {
				return err
			}
			s.files[h.Name] = at
		case tar.TypeSymlink: // the same layer a second time, which may come later
			s.links[h.Name] = path.Join(path.Dir(h.Name), h.Linkname)
		}
	}
}

func writeFile(at string, r io.Reader) error {
	f, err := os.Create(at)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// describe makes the layers anew and returns the new image's configuration.
func (s *sealing) describe() ([]byte, error) {
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := s.read("manifest.json", &manifest); err != nil {
		return nil, err
	}
	if len(manifest) != 1 || len(manifest[0].Layers) < s.base {
		return nil, fmt.Errorf("the archive has %d images, and the base %d layers", len(manifest), s.base)
	}
	type step struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by,omitempty"`
		Empty     bool      `json:"empty_layer,omitempty"`
	}
	var image struct {
		Architecture string          `json:"architecture"`
		Variant      string          `json:"variant,omitempty"`
		OS           string          `json:"os"`
		Created      time.Time       `json:"created"`
		Config       json.RawMessage `json:"config"`
		RootFS       struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
		History []step `json:"history"`
	}
	if err := s.read(manifest[0].Config, &image); err != nil {
		return nil, err
	}
	for i, layer := range manifest[0].Layers {
		if err := s.addLayer(layer, i < s.base); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	for i := range image.History {
		if image.History[i].Created.After(s.latest) {
			image.History[i].Created = s.latest
		}
	}
	config, err := settled(image.Config)
	if err != nil {
		return nil, err
	}
	image.Created, image.Config, image.RootFS.DiffIDs = s.latest, config, s.diffIDs
	return json.Marshal(image)
}

// settled is a configuration without the builder's own id of it, its names in order.
func settled(config json.RawMessage) (json.RawMessage, error) {
	var all map[string]any
	if err := json.Unmarshal(config, &all); err != nil {
		return nil, err
	}
	delete(all, "Image")
	delete(all, "Hostname")
	return json.Marshal(all)
}

func (s *sealing) read(name string, into any) error {
	raw, err := os.ReadFile(s.files[name])
	if err != nil {
		return fmt.Errorf("the archive has no %s: %w", name, err)
	}
	return json.Unmarshal(raw, into)
}

// addLayer writes a layer for the new archive, the base's as it is.
func (s *sealing) addLayer(name string, keep bool) error {
	if target, ok := s.links[name]; ok {
		name = target
	}
	in, err := os.Open(s.files[name])
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	plain, err := decompressed(in)
	if err != nil {
		return err
	}
	at := filepath.Join(s.dir, fmt.Sprintf("layer%d", len(s.layers)))
	out, err := os.Create(at)
	if err != nil {
		return err
	}
	sum := sha256.New()
	if keep {
		_, err = io.Copy(io.MultiWriter(out, sum), plain)
	} else {
		err = s.clamp(io.MultiWriter(out, sum), plain)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	s.layers = append(s.layers, digest+"/layer.tar")
	s.files[digest+"/layer.tar"] = at
	s.diffIDs = append(s.diffIDs, "sha256:"+digest)
	return nil
}

// decompressed reads layers of daemons that keep them compressed, too.
func decompressed(f *os.File) (io.Reader, error) {
	var magic [2]byte
	_, err := f.ReadAt(magic[:], 0)
	if err != nil || !bytes.Equal(magic[:], []byte{0x1f, 0x8b}) {
		return f, nil // also when it is too short: who reads it says so
	}
	return gzip.NewReader(f)
}

// clamp copies an archive; nothing in it is later than s.latest.
func (s *sealing) clamp(w io.Writer, r io.Reader) error {
	out := tar.NewWriter(w)
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		} else if err != nil {
			return err
		}
		if h.ModTime = h.ModTime.Truncate(time.Second); h.ModTime.After(s.latest) {
			h.ModTime = s.latest
		}
		h.AccessTime, h.ChangeTime, h.Format = time.Time{}, time.Time{}, tar.FormatPAX
		for name := range h.PAXRecords {
			if !strings.HasPrefix(name, "SCHILY.xattr.") {
				delete(h.PAXRecords, name)
			}
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// loaded finds an image's id in what a daemon says of its loading.
var loaded = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// load gives the new image to the daemon, under the name.
func (s *sealing) load(ctx context.Context, cli *client.Client, name string, config []byte) (string, error) {
	archive, sender := io.Pipe()
	sent := make(chan struct{})
	go func() { // ends when the daemon has read all or the pipe is closed below
		defer close(sent)
		_ = sender.CloseWithError(s.write(sender, config))
	}()
	defer func() {
		_ = archive.Close()
		<-sent
	}()
	res, err := cli.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return "", fmt.Errorf("loading the image: %w", err)
	}
	defer func() { _ = res.Close() }()
	var said bytes.Buffer
	if err := follow(res, &said); err != nil {
		return "", fmt.Errorf("loading the image: %w", err)
	}
	id := loaded.FindString(said.String())
	if id == "" {
		return "", fmt.Errorf("the daemon does not say which image it has loaded: %q", said.String())
	}
	_, err = cli.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: name})
	return id, err
}

// write is the archive of the new image.
func (s *sealing) write(w io.Writer, config []byte) error {
	sum := sha256.Sum256(config)
	name := hex.EncodeToString(sum[:]) + ".json"
	type image struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	manifest, err := json.Marshal([]image{{name, nil, s.layers}})
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	add := func(name string, size int64, r io.Reader) error {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size}); err != nil {
			return err
		}
		_, err := io.Copy(out, r)
		return err
	}
	for i, layer := range s.layers {
		if slices.Contains(s.layers[:i], layer) {
			continue
		}
		if err := s.addFile(layer, add); err != nil {
			return err
		}
	}
	err = errors.Join(
		add(name, int64(len(config)), bytes.NewReader(config)),
		add("manifest.json", int64(len(manifest)), bytes.NewReader(manifest)))
	return errors.Join(err, out.Close())
}

func (s *sealing) addFile(name string, add func(string, int64, io.Reader) error) error {
	f, err := os.Open(s.files[name])
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return add(name, st.Size(), f)
}
