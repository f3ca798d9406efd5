//go:build unix

package canary

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const token = `sk-l1ve/"a+b"&<0123>4é5(6)789xyz`

func with(t testing.TB, tokens ...string) *Set {
	t.Helper()
	s := NewSet()
	for i, text := range tokens {
		if !s.Add(text, Source{".env", i + 1}) {
			t.Fatalf("%q was not taken", text)
		}
	}
	return s
}

func forms(t *testing.T, text string) map[string]string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{
		"plain": text, "JSON": string(quoted), "JSON with slashes": strings.ReplaceAll(string(quoted), "/", `\/`),
		"query": url.QueryEscape(text), "path": url.PathEscape(text), "hexadecimal": hex.EncodeToString([]byte(text)),
		"JSON of Python": `sk-l1ve/\"a+b\"&<0123>4\u00e95(6)789xyz`, "JSON of PHP": `sk-l1ve\/\"a+b\"&<0123>4\u00e95(6)789xyz`,
		"URL of Python": "sk-l1ve/%22a%2Bb%22%26%3C0123%3E4%C3%A95%286%29789xyz", "with lower digits": "sk-l1ve/%22a%2bb%22%26%3c0123%3e4%c3%a95%286%29789xyz",
		"URL of JavaScript": "sk-l1ve%2F%22a%2Bb%22%26%3C0123%3E4%C3%A95(6)789xyz", "whole URL of JavaScript": "sk-l1ve/%22a+b%22&%3C0123%3E4%C3%A95(6)789xyz",
		"JSON of other languages": strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted)),
	}
	for offset := range 7 {
		for more := range 4 {
			file := strings.Repeat("#", offset) + text + strings.Repeat("\n", more)
			out[fmt.Sprintf("base64 at %d before %d", offset, more)] = base64.StdEncoding.EncodeToString([]byte(file))
			out[fmt.Sprintf("base64 for URLs at %d before %d", offset, more)] = base64.RawURLEncoding.EncodeToString([]byte(file))
		}
	}
	return out
}

// Every spelling is found, however the stream is cut.
func TestFound(t *testing.T) {
	s := with(t, "another-token-000", token, "AKIAIOSFODNN7EXAMPLE")
	for name, text := range forms(t, token) {
		for _, around := range []string{"", "x", strings.Repeat("filler ", 300)} {
			stream := around + text + around
			if from, ok := s.Find([]byte(stream)); !ok || from != (Source{".env", 2}) {
				t.Errorf("%s, with %d bytes around: %v %v", name, len(around), from, ok)
			}
			for _, piece := range []int{1, 2, 5, 11, 12, 13, 17, 100} {
				c := s.Scanner()
				hits := 0
				for i := 0; i < len(stream); i += piece {
					if _, ok := c.Scan([]byte(stream[i:min(i+piece, len(stream))])); ok {
						hits++
					}
				}
				if hits == 0 {
					t.Errorf("%s, with %d bytes around, in pieces of %d: not found", name, len(around), piece)
				}
			}
		}
	}
}

func TestNotFound(t *testing.T) {
	s := with(t, token)
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(random.UintN(256))
	}
	for _, text := range []string{
		"", "sk", token[1:], token[:len(token)-1], strings.ToUpper(token), token[:14] + "x" + token[14:], strings.Repeat("0123456789", 1000), string(noise),
	} {
		if from, ok := s.Find([]byte(text)); ok {
			t.Errorf("%.40q holds %v", text, from)
		}
	}
	if _, ok := NewSet().Find([]byte(token)); ok {
		t.Error("an empty set finds something")
	}
	if NewSet().Add("elevenbytes", Source{}) {
		t.Error("a short token was taken")
	}
	long := strings.Repeat("0123456789abcdef", 40)
	if _, ok := with(t, long).Find([]byte("x" + long)); !ok {
		t.Error("a long token is not found")
	}
}

// A token that is longer than everything before it must not be looked for there.
func TestShortStream(t *testing.T) {
	s := with(t, "0123456789abcdefghij")
	if _, ok := s.Find([]byte("89abcdefghij")); ok {
		t.Error("its end alone was found")
	}
}

func TestTokens(t *testing.T) {
	for line, want := range map[string]string{
		`API_KEY=abc123def456`: "abc123def456",
		`export AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG/bPx1"`: "wJalrXUtnFEMI/K7MDENG/bPx1",
		`"apiToken": "tok-5f2a9c81",`:                               "tok-5f2a9c81",
		`password: hunter2hunter2`:                                  "hunter2hunter2",
		`x = ghp_0123456789abcdefghijABCDEFGHIJ`:                    "ghp_0123456789abcdefghijABCDEFGHIJ",
		`MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ/x0+1`:   "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ/x0+1",
		`API_KEY=${OTHER_KEY_1234567}`:                              "",
		`KEY_FILE=/home/me/.config/key1.pem`:                        "",
		`PASSWORD=xxxxxxxxxxxxxxxxx1`:                               "",
		`DEBUG=true`:                                                "",
		`LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu`:                 "",
		`this is an ordinary sentence with many-hyphenated-words`:   "",
		`PASSWORD=short1`:                                           "",
	} {
		got := tokens(line)
		if (len(got) > 0) != (want != "") || want != "" && got[len(got)-1] != want {
			t.Errorf("%s has %q, want %q", line, got, want)
		}
	}
}

// Closed files are read, and nothing else: no link, no pipe, no other file.
func TestRead(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := func(n int) string { return fmt.Sprintf("tok%08d-%s", n, "q8w7e6r5t4z3") }
	put(".env", "A_KEY="+secret(1)+"\n")
	put("deep/er/.env.local", "\n\nB_KEY="+secret(2))
	put("closed/all", "C_KEY="+secret(3))
	put("open", "D_KEY="+secret(4))
	put(".env.bin", "E_KEY="+secret(5)+"\x00")
	put(".env.large", "F_KEY="+secret(6)+strings.Repeat("\n", maxFile))
	put(".gooseignore", ".env*\n/closed/\n")
	if err := os.WriteFile(filepath.Join(outside, "x"), []byte("G_KEY="+secret(7)), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{".env.link": filepath.Join(outside, "x"), ".env.dir": outside} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, ".env.pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewSet()
	report, err := s.Read(t.Context(), dir, "", "")
	if err != nil || report.Partial || report.Files != 4 {
		t.Errorf("%+v %v", report, err)
	}
	want := map[int]Source{1: {".env", 1}, 2: {"deep/er/.env.local", 3}, 3: {"closed/all", 1}}
	for n := range 8 {
		from, ok := s.Find([]byte("so it is " + secret(n)))
		if source, known := want[n]; ok != known || from != source {
			t.Errorf("token %d: %v %v", n, from, ok)
		}
	}
}

// What was a directory when it was listed may be a pipe by now.
func TestReadWaitsForNoPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		r := &reader{set: NewSet(), root: root, ctx: t.Context()}
		done <- r.dir("pipe", true)
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits for who writes to the pipe")
		w, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		<-done
	}
	if err := root.Close(); err != nil {
		t.Error(err)
	}
}

// A chain of directories without end has no directory open for each of them.
func TestReadHasAFewDirectoriesOpen(t *testing.T) {
	dir := t.TempDir()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxDepth {
		if err := at.Mkdir("d", 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := at.OpenRoot("d")
		if err := errors.Join(err, at.Close()); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := NewSet().Read(t.Context(), dir, "", "")
	if err != nil || !report.Partial {
		t.Errorf("%+v %v", report, err)
	}
}

func BenchmarkScan(b *testing.B) {
	s := NewSet()
	for i := range 200 {
		s.Add(fmt.Sprintf("tok%08d-%s", i, "q8w7e6r5t4z3"), Source{".env", i})
	}
	text := []byte(strings.Repeat(`{"role":"assistant","content":"The quick brown fox jumps over the lazy dog 0123456789."}`, 12000))
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, ok := s.Find(text); ok {
				b.Fatal("found")
			}
		}
	})
	b.Run("copy", func(b *testing.B) {
		to := make([]byte, len(text))
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			copy(to, text)
		}
	})
}
