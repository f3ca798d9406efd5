package controlplane

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"gander.dev/gander/sandbox/drivers/registry"
)

// What bounds a snapshot, besides the bytes of its files: their number, and the bytes of a
// path, of which a tar takes no more than a MiB when it is read.
const (
	maxEntries = 1_000_000
	maxPath    = 4096
)

// A packer writes what is below a root into a tar, as it is found: files, directories
// and links, which stay links. Pipes, sockets and devices are left out, and so is what
// disappears meanwhile: an agent may be at work.
type packer struct {
	ctx  context.Context
	root *os.Root
	tw   *tar.Writer
	left int64 // bytes that may still come
	room int   // entries that may still be listed: they are held until they are packed
}

// pack writes a compressed tar of a workspace. At most limit bytes of files.
func pack(ctx context.Context, root *os.Root, w io.Writer, limit int64) error {
	zw := gzip.NewWriter(w)
	p := &packer{ctx: ctx, root: root, tw: tar.NewWriter(zw), left: limit, room: maxEntries}
	if err := p.dir("."); err != nil {
		return err
	}
	return errors.Join(p.tw.Close(), zw.Close())
}

func (p *packer) dir(name string) error {
	f, err := p.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return gone(err, name)
	}
	entries, err := f.ReadDir(p.room + 1)
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return gone(err, name)
	}
	if p.room -= len(entries); p.room < 0 {
		return fail(http.StatusRequestEntityTooLarge, "the workspace has more than %d files", maxEntries)
	}
	for _, e := range entries {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := p.entry(path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// gone ignores what is not there any more, or never was for us.
func gone(err error, name string) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && name != "." {
		return nil
	}
	return fmt.Errorf("packing %s: %w", name, err)
}

func (p *packer) entry(name string) error {
	if len(name) > maxPath {
		return fail(http.StatusRequestEntityTooLarge, "the workspace has a path of more than %d bytes, below %.100q: remove it first", maxPath, name)
	}
	info, err := p.root.Lstat(name)
	if err != nil {
		return gone(err, name)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := p.header(name+"/", info, tar.TypeDir, "", 0); err != nil {
			return err
		}
		return p.dir(name)
	case fs.ModeSymlink:
		target, err := p.root.Readlink(name)
		if err != nil {
			return gone(err, name)
		}
		return p.header(name, info, tar.TypeSymlink, target, 0)
	case 0:
		return p.file(name)
	}
	return nil
}

// header writes what is kept of an entry: neither its owner nor its setuid bits, since
// a restored file belongs to whom the workspace does.
func (p *packer) header(name string, info fs.FileInfo, kind byte, target string, size int64) error {
	return p.tw.WriteHeader(&tar.Header{
		Typeflag: kind, Name: name, Linkname: target, Size: size, Mode: int64(info.Mode().Perm()),
		ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX,
	})
}

// file writes a file with the size it has when it is opened: what is appended meanwhile
// is left out, what is cut off is zeros.
func (p *packer) file(name string) error {
	f, err := p.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return gone(err, name)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return gone(err, name)
	}
	if !info.Mode().IsRegular() {
		return nil // it was one before
	}
	size := info.Size()
	if p.left -= size; p.left < 0 {
		return fail(http.StatusRequestEntityTooLarge, "the files of the workspace are too large for a snapshot, at %s", name)
	}
	if err := p.header(name, info, tar.TypeReg, "", size); err != nil {
		return err
	}
	n, err := io.Copy(p.tw, io.LimitReader(reader{p.ctx, f}, size))
	if err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	_, err = io.CopyN(p.tw, zeros{}, size-n)
	return err
}

// A reader ends with its context, also in the middle of a large file.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// zeros are as many as wanted.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// unpack reads what pack wrote into an empty root. Everything goes through the root and
// no link in it is followed, so that nothing can come to lie elsewhere, whatever the
// archive says. uid and gid are of the new files; -1 leaves them.
func unpack(ctx context.Context, root *os.Root, r io.Reader, uid, gid int) error {
	zr, err := gzip.NewReader(reader{ctx, r})
	if err != nil {
		return fmt.Errorf("reading the snapshot: %w", err)
	}
	tr := tar.NewReader(zr)
	var dirs []*tar.Header // their times and modes are set when all is in them
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("reading the snapshot: %w", err)
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, h)
		}
		if err := unpackEntry(root, h, tr, uid, gid); err != nil {
			return fmt.Errorf("restoring %s: %w", h.Name, err)
		}
	}
	for _, h := range slices.Backward(dirs) {
		name := path.Clean(h.Name)
		if err := errors.Join(root.Chmod(name, fs.FileMode(h.Mode).Perm()), root.Chtimes(name, h.ModTime, h.ModTime)); err != nil {
			return fmt.Errorf("restoring %s: %w", h.Name, err)
		}
	}
	return nil
}

func unpackEntry(root *os.Root, h *tar.Header, content io.Reader, uid, gid int) error {
	name := path.Clean(h.Name) // in any encoding, as pack found it
	if !filepath.IsLocal(name) || name == "." {
		return errors.New("no name of a file in a workspace")
	}
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		err = root.Mkdir(name, 0o700)
	case tar.TypeSymlink:
		err = root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		err = unpackFile(root, name, h, content)
	default:
		return fmt.Errorf("an entry of type %q has no place in a snapshot", h.Typeflag)
	}
	if err == nil && uid >= 0 {
		err = root.Lchown(name, uid, gid)
	}
	if err == nil && h.Typeflag == tar.TypeReg {
		// After the owner: a change of that drops bits.
		err = root.Chmod(name, fs.FileMode(h.Mode).Perm())
	}
	return err
}

// unpackFile makes a file that must not be there yet: not even a link of this archive
// can be in its place.
func unpackFile(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}

// empty removes everything below a root. Links are removed, not followed.
func empty(root *os.Root) error {
	if err := registry.Empty(root); err != nil {
		return fmt.Errorf("clearing the workspace: %w", err)
	}
	return nil
}
