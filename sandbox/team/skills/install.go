package skills

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits bound what is installed: Depth counts folders within each other.
type Limits struct {
	What  string // it is, for people
	Files int
	Bytes int64
	Depth int
}

// OfSkills bounds a skill.
var OfSkills = Limits{What: "a skill", Files: 500, Bytes: 8 << 20, Depth: 6}

// The rights of what is installed: a sandbox may run as another user, as whom it reads it.
const (
	folderMode = 0o755
	fileMode   = 0o644
)

// An Origin says where an installed skill came from.
type Origin struct {
	Source    string    `json:"source"`
	SHA256    string    `json:"sha256"` // of its files' names, rights and contents
	Installed time.Time `json:"installed"`
}

// A Store is a folder in which skills are installed.
type Store struct{ Dir string }

// Install copies a skill into the store under an id, and notes where it came from: a folder,
// an archive (.tgz, .tar.gz, .tar, .zip), or a SKILL.md alone. An empty id means the skill's
// own name. What a skill must not have is refused: links, devices, odd names, and more than
// 500 files, 8 MiB, or six folders within each other.
func (s Store) Install(from, id string) (Skill, error) { return s.InstallFrom(from, from, id) }

// InstallFrom installs what was fetched from a source to a path, as Install does.
func (s Store) InstallFrom(from, source, id string) (Skill, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return Skill{}, fmt.Errorf("making the folder of skills: %w", err)
	}
	work, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return Skill{}, fmt.Errorf("making a folder for the new skill: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.Chmod(work, folderMode); err != nil {
		return Skill{}, fmt.Errorf("making a folder for the new skill: %w", err)
	}
	if err := Gather(from, work, OfSkills); err != nil {
		return Skill{}, fmt.Errorf("%s: %w", source, err)
	}
	top, err := topOf(work)
	if err != nil {
		return Skill{}, fmt.Errorf("%s: %w", source, err)
	}
	text, err := readFile(filepath.Join(top, File))
	if err != nil {
		return Skill{}, fmt.Errorf("%s: %w", source, err)
	}
	parsed, err := Parse(text)
	if err != nil {
		return Skill{}, fmt.Errorf("%s: %w", source, err)
	}
	if id == "" {
		id = parsed.Name
	}
	if id == "" {
		base := strings.ToLower(filepath.Base(from))
		id = strings.TrimSuffix(strings.TrimSuffix(base, filepath.Ext(base)), ".tar")
	}
	if !validName(id) {
		return Skill{}, fmt.Errorf("the id %q is not usable: take small letters, digits and dashes, 64 at most", shorten(id))
	}
	if parsed.Name != id { // agents know a skill by the name in the file
		if err := os.WriteFile(filepath.Join(top, File), rename(text, id), fileMode); err != nil {
			return Skill{}, fmt.Errorf("naming the skill: %w", err)
		}
	}
	to := filepath.Join(s.Dir, id)
	if _, err := os.Lstat(to); err == nil {
		return Skill{}, fmt.Errorf("there is a skill %s: remove it first, or give this one another id", id)
	}
	sum, err := Sum(top)
	if err != nil {
		return Skill{}, err
	}
	if err := os.Rename(top, to); err != nil {
		return Skill{}, fmt.Errorf("putting the skill in its place: %w", err)
	}
	if err := s.note(id, Origin{Source: source, SHA256: sum, Installed: time.Now().UTC()}); err != nil {
		return Skill{}, err
	}
	return Read(to)
}

var nameLine = regexp.MustCompile(`(?m)^name:.*$`)

// rename gives a SKILL.md another name.
func rename(text []byte, id string) []byte {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	front, _ := frontMatter(text)
	start := bytes.Index(text, []byte("---\n")) + len("---\n")
	named := []byte("name: " + id + "\n" + string(front))
	if at := nameLine.FindIndex(front); at != nil {
		named = slices.Concat(front[:at[0]], []byte("name: "+id), front[at[1]:])
	}
	return slices.Concat(text[:start], named, text[start+len(front):])
}

// Remove removes a skill.
func (s Store) Remove(id string) error {
	if !validName(id) {
		return fs.ErrNotExist
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, id)); err != nil {
		return err
	}
	if err := os.Remove(s.origin(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(filepath.Join(s.Dir, id))
}

func (s Store) origin(id string) string { return filepath.Join(s.Dir, ".origins", id+".json") }

func (s Store) note(id string, o Origin) error {
	text, err := json.MarshalIndent(o, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.origin(id)), 0o700)
	}
	if err == nil {
		err = os.WriteFile(s.origin(id), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting where the skill came from: %w", err)
	}
	return nil
}

// Installed returns the ids of the skills whose origin is known.
func (s Store) Installed() []string {
	notes, _ := filepath.Glob(filepath.Join(s.Dir, ".origins", "*.json")) // the pattern is right
	var ids []string
	for _, note := range notes {
		ids = append(ids, strings.TrimSuffix(filepath.Base(note), ".json"))
	}
	return ids
}

// Origin returns where a skill came from; ok is false for one that was put there by hand.
func (s Store) Origin(id string) (o Origin, ok bool) {
	text, err := os.ReadFile(s.origin(id))
	return o, err == nil && json.Unmarshal(text, &o) == nil
}

// Changed reports whether the files of an installed skill are others than those that were installed.
func (s Store) Changed(id string) (bool, error) {
	o, ok := s.Origin(id)
	if !ok {
		return false, nil
	}
	sum, err := Sum(filepath.Join(s.Dir, id))
	return sum != o.SHA256, err
}

// Sum returns the SHA-256 of the names, rights and contents of the files below a folder.
func Sum(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v %v\n", filepath.ToSlash(name), info.Mode().Type(), info.Mode()&0o111 != 0)
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		n, err := io.Copy(h, f)
		fmt.Fprintf(h, "\n%d\n", n)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// topOf returns the folder with the SKILL.md: the top, or the only folder in it.
func topOf(dir string) (string, error) {
	if _, err := os.Lstat(filepath.Join(dir, File)); err == nil {
		return dir, nil
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", File))
	if err != nil {
		return "", err
	}
	deeper, err := filepath.Glob(filepath.Join(dir, "*", "*", File))
	if err != nil {
		return "", err
	}
	switch found = append(found, deeper...); len(found) {
	case 0:
		return "", fmt.Errorf("there is no %s in it", File)
	case 1:
		return filepath.Dir(found[0]), nil
	}
	return "", fmt.Errorf("there are %d skills in it; name the folder of one, as in %s", len(found), filepath.Base(filepath.Dir(found[0])))
}

// Gather copies what is at a path into an empty folder: a folder, a SKILL.md or an archive
// (.tgz, .tar.gz, .tar, .zip). Only regular files with names that every system can have are copied,
// and only so much as the limits allow.
func Gather(from, to string, limits Limits) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	c := &copier{root: root, limits: limits}
	switch name := strings.ToLower(from); {
	case info.IsDir():
		return c.folder(from)
	case filepath.Base(from) == File:
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return c.file(File, info.Mode(), f)
	case strings.HasSuffix(name, ".zip"):
		return c.zipped(from)
	case strings.HasSuffix(name, ".tgz"), strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tar"):
		return c.tarred(from)
	}
	return fmt.Errorf("it is no folder, no %s and no archive (.tgz, .tar.gz, .tar, .zip)", File)
}

// A copier copies regular files into a folder, within the limits.
type copier struct {
	root   *os.Root
	limits Limits
	files  int
	bytes  int64
}

func (c *copier) file(name string, mode fs.FileMode, from io.Reader) error {
	if err := c.checkName(name); err != nil {
		return err
	}
	if c.files++; c.files > c.limits.Files {
		return fmt.Errorf("it has more than %d files", c.limits.Files)
	}
	if err := c.root.MkdirAll(path.Dir(name), folderMode); err != nil {
		return err
	}
	f, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode|mode&0o111)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(from, c.limits.Bytes+1-c.bytes))
	if c.bytes += n; err == nil && c.bytes > c.limits.Bytes {
		err = fmt.Errorf("its files have more than %d MiB", c.limits.Bytes>>20)
	}
	return errors.Join(err, f.Close())
}

// checkName refuses names that would lead out, or that not every system can have.
func (c *copier) checkName(name string) error {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\:*?\"<>|") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(name) > 512 {
		return fmt.Errorf("%q is no name that a file of %s may have", shorten(name), c.limits.What)
	}
	if strings.Count(name, "/") > c.limits.Depth {
		return fmt.Errorf("%q is more than %d folders deep", shorten(name), c.limits.Depth)
	}
	return nil
}

func (c *copier) folder(dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // the folder itself may be a link of the person's
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" && file != dir {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return c.notRegular(filepath.ToSlash(name), d.Type())
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return c.notRegular(filepath.ToSlash(name), info.Mode())
		}
		return c.file(filepath.ToSlash(name), info.Mode(), f)
	})
}

func (c *copier) notRegular(name string, mode fs.FileMode) error {
	kind := "no regular file"
	if mode&fs.ModeSymlink != 0 {
		kind = "a link"
	}
	return fmt.Errorf("%q is %s; %s has regular files and folders only", shorten(name), kind, c.limits.What)
}

func (c *copier) tarred(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var in io.Reader = f
	if !strings.HasSuffix(strings.ToLower(file), ".tar") {
		if in, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	t := tar.NewReader(in)
	for entries := 0; ; entries++ {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case entries > 10*c.limits.Files:
			return fmt.Errorf("it has more than %d entries", 10*c.limits.Files)
		}
		switch h.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg:
		default:
			return c.notRegular(h.Name, h.FileInfo().Mode())
		}
		if err := c.file(strings.TrimPrefix(h.Name, "./"), h.FileInfo().Mode(), t); err != nil {
			return err
		}
	}
}

func (c *copier) zipped(file string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	for _, entry := range z.File {
		if strings.HasSuffix(entry.Name, "/") {
			continue
		}
		if !entry.Mode().IsRegular() {
			return c.notRegular(entry.Name, entry.Mode())
		}
		f, err := entry.Open()
		if err != nil {
			return err
		}
		err = errors.Join(c.file(entry.Name, entry.Mode(), f), f.Close())
		if err != nil {
			return err
		}
	}
	return nil
}
