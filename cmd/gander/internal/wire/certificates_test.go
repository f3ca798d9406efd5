package wire

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFindAuthorities(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the paths are Linux's")
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("authority")})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	both := bytes.Join([][]byte{[]byte("# a comment\n"), cert, key, cert}, nil)
	home, dir := t.TempDir(), t.TempDir()
	write := func(path string, text []byte) string {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write(filepath.Join(home, "corp.pem"), both)
	for _, tt := range []struct {
		name, path, why string
		text            []byte
	}{
		{"certificates only", good, "", append(bytes.Clone(cert), cert...)},
		{"a key alone", write(filepath.Join(home, "key.pem"), key), "no certificate", nil},
		{"in the project, it is there", write(filepath.Join(dir, "ca.pem"), both), "", nil},
		{"not there", filepath.Join(home, "gone"), "no such file", nil},
		{"a directory", home, "no regular file", nil},
		{"relative", "corp.pem", "not absolute", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := Authorities{Path: tt.path}
			err := a.read(dir, filepath.Join(home, "state"))
			if (err == nil) != (tt.why == "") || err != nil && !strings.Contains(err.Error(), tt.why) {
				t.Errorf("the error is %v, want %q", err, tt.why)
			}
			if !bytes.Equal(a.text, tt.text) {
				t.Errorf("read %q", a.text)
			}
		})
	}
	write(good, cert) // read before
	if a := (Authorities{Path: good}); a.read(dir, filepath.Join(home, "state")) != nil || !bytes.Equal(a.text, cert) {
		t.Errorf("of a file that has changed %q", a.text)
	}
	if err := os.Symlink(good, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	a := Authorities{Path: filepath.Join(dir, "link")}
	if err := a.read(dir, home); err == nil || a.text != nil {
		t.Errorf("a link in the project was followed: %q, %v", a.text, err)
	}
}
