package skills_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/team/skills"
)

const good = "---\nname: tidy\ndescription: Puts imports in order.\nlicense: MIT\n---\nRun scripts/tidy.sh.\n"

// write makes files, by their names below a new folder.
func write(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func ids(all []skills.Skill) (ids []string) {
	for _, s := range all {
		ids = append(ids, s.Source+"/"+s.ID)
	}
	return ids
}

func TestFind(t *testing.T) {
	own := write(t, map[string]string{"tidy/SKILL.md": good, ".hidden/SKILL.md": good, "README.md": "no skill"})
	all := write(t, map[string]string{
		"tidy/SKILL.md": good, "colon/SKILL.md": "---\nname: colon\ndescription: Use it: always\n---\n",
		"none/README.md": "", "silent/SKILL.md": "---\nname: silent\n---\n", "Bad_Name/SKILL.md": good,
		"other/SKILL.md": "---\nname: ../x\ndescription: d\n---\n", "plain/SKILL.md": "no front matter",
		"bomb/SKILL.md": "---\na: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nallowed-tools: [*e,*e,*e,*e,*e,*e,*e,*e]\n---\n",
	})
	f := skills.Find([]skills.Root{{Dir: own, Source: "own"}, {Dir: all, Source: "all"}, {Dir: filepath.Join(all, "nowhere"), Source: "x"}})
	if got, want := ids(f.Skills), []string{"all/colon", "own/tidy"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got, want := ids(f.Shadowed), []string{"all/tidy"}; !slices.Equal(got, want) {
		t.Errorf("shadowed are %q, want %q", got, want)
	}
	if f.Skills[0].Description != "Use it: always" || f.Skills[1].License != "MIT" {
		t.Errorf("read %+v", f.Skills)
	}
	for _, want := range []string{"none: there is no SKILL.md", "silent: its SKILL.md has no description", "Bad_Name: the folder's name", "other: the name", "plain: its SKILL.md does not begin", "bomb: "} {
		if !slices.ContainsFunc(f.Problems, func(p skills.Problem) bool { return strings.Contains(p.String(), string(filepath.Separator)+want) }) {
			t.Errorf("nobody says %q: %v", want, f.Problems)
		}
	}
}

// A sandbox that can write a skill, or a link to it, would choose what others are told.
func TestWritableIsLeftOut(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links are for administrators there")
	}
	project, home := write(t, map[string]string{"tidy/SKILL.md": good}), write(t, map[string]string{"kept/SKILL.md": good})
	skillsDir := t.TempDir()
	for name, target := range map[string]string{"tidy": filepath.Join(project, "tidy"), "kept": filepath.Join(home, "kept")} {
		if err := os.Symlink(target, filepath.Join(skillsDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f := skills.Find([]skills.Root{{Dir: skillsDir, Source: "user"}}, project)
	if got, want := ids(f.Skills), []string{"user/kept"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if len(f.Problems) != 1 || !strings.Contains(f.Problems[0].Reason, "sandboxes can write") {
		t.Errorf("problems: %v", f.Problems)
	}
}

// tgz packs entries.
func tgz(t *testing.T, entries ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		text := ""
		if h.Typeflag == tar.TypeReg {
			text = good
		}
		h.Mode, h.Size = 0o755, int64(len(text))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tidy-1.0.tgz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestInstall(t *testing.T) {
	store := skills.Store{Dir: filepath.Join(t.TempDir(), "skills")}
	from := write(t, map[string]string{"SKILL.md": good, "scripts/tidy.sh": "#!/bin/sh\n", ".git/config": "[core]"})
	s, err := store.Install(from, "")
	if err != nil || s.ID != "tidy" {
		t.Fatalf("installed %+v, %v", s, err)
	}
	info, err := os.Stat(filepath.Join(store.Dir, "tidy", "scripts", "tidy.sh"))
	if err != nil || runtime.GOOS != "windows" && info.Mode()&0o100 == 0 {
		t.Errorf("its script: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(store.Dir, "tidy", ".git")); err == nil && from != "" {
		t.Error("a repository came along")
	}
	if o, ok := store.Origin("tidy"); !ok || o.Source != from || len(o.SHA256) != 64 {
		t.Errorf("its origin is %+v", o)
	}
	if changed, err := store.Changed("tidy"); changed || err != nil {
		t.Errorf("changed at once: %v, %v", changed, err)
	}
	if err := os.WriteFile(filepath.Join(store.Dir, "tidy", "more.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := store.Changed("tidy"); !changed || err != nil {
		t.Errorf("a further file is no change: %v", err)
	}
	if _, err := store.Install(from, ""); err == nil || !strings.Contains(err.Error(), "there is a skill tidy") {
		t.Errorf("a second one: %v", err)
	}
	if s, err := store.Install(filepath.Join(from, "SKILL.md"), "neat"); err != nil || s.Name != "neat" {
		t.Errorf("a file alone, under another id: %+v, %v", s, err)
	}
	packed := tgz(t, tar.Header{Name: "tidy-1.0/", Typeflag: tar.TypeDir}, tar.Header{Name: "tidy-1.0/SKILL.md", Typeflag: tar.TypeReg})
	if s, err := store.Install(packed, "packed"); err != nil || s.ID != "packed" {
		t.Errorf("an archive: %+v, %v", s, err)
	}
	if err := store.Remove("tidy"); err != nil {
		t.Error(err)
	}
	if _, ok := store.Origin("tidy"); ok {
		t.Error("the origin of what was removed is there")
	}
	if err := store.Remove("../skills"); err == nil {
		t.Error("a name that leads out was removed")
	}
}

func TestInstallRefuses(t *testing.T) {
	many := map[string]string{"SKILL.md": good}
	for i := range 501 {
		many["f/"+strings.Repeat("x", i%200+1)+string(rune('a'+i/200))] = ""
	}
	linked := write(t, map[string]string{"SKILL.md": good})
	if runtime.GOOS != "windows" {
		if err := os.Symlink("/etc/passwd", filepath.Join(linked, "notes")); err != nil {
			t.Fatal(err)
		}
	} else if err := os.WriteFile(filepath.Join(linked, "SKILL.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	skill := tar.Header{Name: "SKILL.md", Typeflag: tar.TypeReg}
	for name, from := range map[string]string{
		"a link":                linked,
		"too many files":        write(t, many),
		"too much":              write(t, map[string]string{"SKILL.md": good, "data": strings.Repeat("x", 9<<20)}),
		"too deep":              write(t, map[string]string{"SKILL.md": good, "a/b/c/d/e/f/g/h": ""}),
		"two skills":            write(t, map[string]string{"a/SKILL.md": good, "b/SKILL.md": good}),
		"no skill":              write(t, map[string]string{"README.md": ""}),
		"nothing":               filepath.Join(t.TempDir(), "nothing"),
		"a name that leads out": tgz(t, skill, tar.Header{Name: "../../out", Typeflag: tar.TypeReg}),
		"an absolute name":      tgz(t, skill, tar.Header{Name: "/tmp/out", Typeflag: tar.TypeReg}),
		"a link in an archive":  tgz(t, skill, tar.Header{Name: "x", Linkname: "/etc", Typeflag: tar.TypeSymlink}),
		"a device":              tgz(t, skill, tar.Header{Name: "null", Typeflag: tar.TypeChar}),
		"a file twice":          tgz(t, skill, skill),
		"another kind of file":  filepath.Join(write(t, map[string]string{"x.exe": ""}), "x.exe"),
	} {
		store := skills.Store{Dir: filepath.Join(t.TempDir(), "skills")}
		if s, err := store.Install(from, ""); err == nil {
			t.Errorf("%s: installed %+v", name, s)
		}
		if left, err := os.ReadDir(store.Dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind %v, %v", name, left, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{good, "---\n---\n", "---\ndescription: a: b\n---", "\ufeff---\r\nname: x\r\ndescription: |\r\n  a\r\n---\r\n", "---\nallowed-tools: [a, b]\ndescription: d\n---\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := skills.Parse(text)
		if err == nil && (s.Description == "" || strings.ContainsAny(s.Description+s.Name, "\n\x1b")) {
			t.Errorf("read %+v", s)
		}
	})
}
