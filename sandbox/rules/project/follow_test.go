//go:build unix

package project_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/sandbox/rules/project"
)

// Links are followed within the directory, by whatever name it has, and no further.
func TestFollow(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, spelled := filepath.Join(base, "project"), filepath.Join(base, "spelled")
	for _, d := range []string{"sub/deep", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dir, ".env"), filepath.Join(dir, "sub/x"), filepath.Join(base, "outside")} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"project/to-env": ".env", "project/chain": "other/up", "project/other/up": "../to-env", "project/dir": "sub/deep",
		"project/up-of-link": "dir/../x", "project/absolute": filepath.Join(dir, ".env"), "project/by-spelling": filepath.Join(spelled, ".env"),
		"project/around": "../project/.env", "project/out": "../outside", "project/etc": "/etc", "project/to-pipe": "pipe",
		"project/nothing": "none", "project/loop": "loop", "spelled": "project", "project/self": ".",
	} {
		if err := os.Symlink(target, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	for rel, want := range map[string]project.Reached{
		".":              {Path: "."},
		"sub/x":          {Path: "sub/x"},
		"none/x":         {Path: "none/x"},
		".env/x":         {Path: ".env/x"},
		"to-env":         {Path: ".env", Linked: true},
		"chain":          {Path: ".env", Linked: true},
		"up-of-link":     {Path: "sub/x", Linked: true},
		"dir/new":        {Path: "sub/deep/new", Linked: true},
		"absolute":       {Path: ".env", Linked: true},
		"around":         {Path: ".env", Linked: true},
		"nothing":        {Path: "none", Linked: true},
		"to-pipe":        {Path: "pipe", Linked: true},
		"self/self/.env": {Path: ".env", Linked: true},
		"out":            {Path: filepath.Join(base, "outside"), Linked: true, Outside: true},
		"etc/passwd":     {Path: "/etc/passwd", Linked: true, Outside: true},
	} {
		for _, as := range []string{dir, spelled} {
			got, err := project.Follow(as, rel)
			there := got.Info != nil
			got.Info = nil
			if err != nil || got != want {
				t.Errorf("%s: %+v %v, want %+v", rel, got, err, want)
			}
			_, err = os.Lstat(filepath.Join(dir, want.Path))
			if is := err == nil && !want.Outside && rel != "."; there != is {
				t.Errorf("%s: that it is there is %v, want %v", rel, there, is)
			}
		}
	}
	if got, err := project.Follow(spelled, "by-spelling"); err != nil || got.Path != ".env" || got.Outside {
		t.Errorf("a link to the project by the name that it was given leads to %+v %v", got, err)
	}
	if got, err := project.Follow(dir, "loop"); err == nil {
		t.Errorf("a loop leads to %+v", got)
	}
}

// What is to be shown is found through links, but through none that the sandbox can write.
func TestResolve(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"project/docs", "beside/sub"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"project/out": "../beside", "project/in": "docs", "to-docs": "project/docs", "to-beside": filepath.Join(base, "beside"),
		"to-out": "project/out", "spelled": "project", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ path, want, fails string }{
		{path: "beside/sub", want: "beside/sub"},
		{path: "to-beside/../to-beside/sub", want: "beside/sub"},
		{path: "project/docs", want: "project/docs"},
		{path: "to-docs", want: "project/docs"},
		{path: "spelled/docs", want: "project/docs"},
		{path: "project/out", fails: "the sandbox can write"},
		{path: "project/out/sub", fails: "the sandbox can write"},
		{path: "project/in", fails: "the sandbox can write"},
		{path: "to-out/sub", fails: "the sandbox can write"},
		{path: "spelled/out", fails: "the sandbox can write"},
		{path: "loop", fails: "too many links"},
		{path: "none/x", fails: "no such file"},
	} {
		got, err := project.Resolve(base+"/"+tt.path, []string{"", filepath.Join(base, "spelled"), filepath.Join(base, "none")})
		if tt.fails == "" && (err != nil || got != filepath.Join(base, tt.want)) || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%s is %q %v, want %q %s", tt.path, got, err, tt.want, tt.fails)
		}
	}
}
