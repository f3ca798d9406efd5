package sessions_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

const goatID = "11111111-1111-4111-8111-111111111111"

// writeTree writes files below dir.
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

const goatTranscript = `{"type":"session","schemaVersion":1,"sessionId":"` + goatID + `","sessionKey":"agent:dev:main","agentId":"Dev","createdAt":"2026-02-07T10:00:00.000Z","workingPath":"/from/header"}
{"type":"compaction","summary":"before it was short","compactedMessages":4,"keptMessages":2,"timestamp":1795199788255}
{"type":"message","role":"user","content":"hello hunter22","timestamp":1795199788256}
not json

{"type":"tool","x":[1],"timestamp":1795199788257}
{"type":"message","role":"assistant","content":"hi","timestamp":1795199788258}
{"type":"message","role":"user","cont`

func importStore(t *testing.T) *sessions.Store {
	return openStore(t, filepath.Join(t.TempDir(), "sessions"), &sessions.Options{Redact: func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("hunter22"), []byte("[redacted]"))
	}})
}

func TestImportOpenGoat(t *testing.T) {
	for name, tt := range map[string]struct {
		index string // the content of sessions.json
		dir   string // what is given, in the home
	}{
		"home":       {`{"schemaVersion":1,"sessions":{"Agent:dev:main":{"sessionId":"` + goatID + `","updatedAt":1795199788254,"title":"A title"}}}`, "."},
		"bare map":   {`{"agent:dev:main":{"sessionId":"` + goatID + `","updatedAt":1,"title":"A title"}}`, "."},
		"agents":     {`{"agent:dev:main":{"sessionId":"` + goatID + `","updatedAt":1,"title":"A title"}}`, "agents"},
		"one agent":  {`{"agent:dev:main":{"sessionId":"` + goatID + `","updatedAt":1,"title":"A title"}}`, "agents/dev/sessions"},
		"other path": {`{"agent:dev:main":{"sessionId":"` + goatID + `","updatedAt":1,"title":"A title","transcriptFile":"/x/` + goatID + `.jsonl"}}`, "."},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			writeTree(t, home, map[string]string{"agents/dev/sessions/sessions.json": tt.index, "agents/dev/sessions/" + goatID + ".jsonl": goatTranscript})
			s := importStore(t)
			done, err := s.ImportOpenGoat(t.Context(), filepath.Join(home, tt.dir))
			if err != nil || len(done.Sessions) != 1 || len(done.Skipped) != 0 {
				t.Fatalf("%+v, %v", done, err)
			}
			if got := done.Sessions[0]; got.Messages != 2 || got.Key != "agent:dev:main" || got.Agent != "dev" || got.Note != "2 lines were no records" {
				t.Errorf("%+v", got)
			}
			info, err := s.Info(t.Context(), goatID)
			if err != nil || info.Title != "A title" || info.WorkingPath != "/from/header" || info.Origin != sessions.OriginImport || info.Turns != 1 {
				t.Errorf("%+v, %v", info, err)
			}
			h, err := s.History(t.Context(), goatID, 0)
			if err != nil || h.String() != "Summary of what came before: before it was short\n\nUser: hello [redacted]\nAssistant: hi" {
				t.Errorf("%q, %v", h, err)
			}
			var unknown int
			for r := range s.Entries(t.Context(), goatID) {
				if u, ok := r.Body.(sessions.Unknown); ok && u.Kind == "tool" {
					unknown++
				}
			}
			if unknown != 1 {
				t.Error("a record of another type is lost")
			}
			again, err := s.ImportOpenGoat(t.Context(), filepath.Join(home, tt.dir))
			if err != nil || len(again.Sessions) != 0 || len(again.Skipped) != 1 || !strings.Contains(again.Skipped[0].Why, "already") {
				t.Errorf("again: %+v, %v", again, err)
			}
			if found, err := s.Resolve(t.Context(), "main", "dev"); err != nil || found.ID != goatID {
				t.Errorf("by its name: %+v, %v", found, err)
			}
		})
	}
}

// Whatever is in the home, nothing outside of it is read, nothing is written but
// sessions of usable names, and the rest is taken.
func TestImportHostileHome(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.jsonl")
	writeTree(t, filepath.Dir(outside), map[string]string{"secret.jsonl": strings.ReplaceAll(goatTranscript, "hello", "SECRET")})
	home := t.TempDir()
	writeTree(t, home, map[string]string{
		"agents/dev/sessions/sessions.json":          `{"sessions":{"a":{"sessionId":"../../x"},"b":{"sessionId":"` + goatID + `","updatedAt":1e300,"workingPath":"../..","workspacePath":7},"c":[],"d":{"sessionId":"d","transcriptFile":"` + outside + `"}}}`,
		"agents/dev/sessions/" + goatID + ".jsonl":   goatTranscript,
		"agents/dev/sessions/-bad.jsonl":             goatTranscript,
		"agents/dev/sessions/empty.jsonl":            "",
		"agents/dev/sessions/binary.jsonl":           "\x00\xff\n{\"type\":\"session\",\"createdAt\":\"0001-01-01T00:00:00Z\",\"workingPath\":\"a\\u0000b\",\"sessionKey\":\"" + strings.Repeat("k", 1000) + "\"}\n",
		"agents/dev/sessions/long.jsonl":             `{"type":"message","role":"user","content":"` + strings.Repeat("x", 17<<20) + `"}` + "\n" + goatTranscript,
		"agents/bad/sessions/sessions.json":          `{`,
		"agents/other/sessions/directory.jsonl/file": "",
	})
	dev := filepath.Join(home, "agents", "dev", "sessions")
	for name, target := range map[string]string{"link.jsonl": outside, "up.jsonl": "../../../../" + filepath.Base(filepath.Dir(outside)) + "/secret.jsonl", "loop.jsonl": "loop.jsonl"} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(home, "agents", "linked")); err != nil {
		t.Fatal(err)
	}
	makePipe(t, filepath.Join(dev, "pipe.jsonl"))
	dir := filepath.Join(t.TempDir(), "sessions")
	s := openStore(t, dir, nil)
	done, err := s.ImportOpenGoat(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	took := map[acp.SessionID]bool{}
	for _, i := range done.Sessions {
		took[i.ID] = true
	}
	if len(took) != 4 || !took[goatID] || !took["empty"] || !took["binary"] || !took["long"] {
		t.Errorf("taken: %+v", done.Sessions)
	}
	why := map[string]string{}
	for _, sk := range done.Skipped {
		why[filepath.Base(sk.What)] = sk.Why
	}
	for _, name := range []string{"link.jsonl", "up.jsonl", "loop.jsonl", "directory.jsonl"} {
		if !strings.Contains(why[name], "not a regular file") {
			t.Errorf("%s: %q", name, why[name])
		}
	}
	if !strings.Contains(why["-bad.jsonl"], "not a session id") {
		t.Errorf("skipped: %v", why)
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte("SECRET")) {
			t.Errorf("%s has what is outside of the home", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if page, err := s.List(t.Context(), sessions.ListOptions{}); err != nil || len(page.Sessions) != 4 {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := s.ImportOpenGoat(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "no sessions of OpenGoat") {
		t.Errorf("an empty directory: %v", err)
	}
}

// Which agent answers a session, in which sandbox, and what is allowed there, is not for
// another program's file to say.
func TestImportSetsNothing(t *testing.T) {
	home := t.TempDir()
	writeTree(t, home, map[string]string{"sessions.json": `{}`, "s.jsonl": `{"type":"session","workingPath":"/project","origin":"loop","temporary":true,"additionalDirectories":["/etc"]}
{"type":"config","configId":"sandbox","value":"off"}
{"type":"config","configId":"permissions","value":"all"}
{"TYPE":"config","type":"x","Type":"config","configId":"tools","value":"developer"}
{"type":"agent","event":"started","agent":"other","agentSessionId":"a"}
{"type":"turn","turnId":"t","event":"end","agent":"other","agentSessionId":"a"}
{"type":"changes","paths":[{"path":"x"}],"snapshot":"../../s"}
{"type":"title","title":"x","by":"person"}
{"type":"message","role":"user","content":"hello"}
`})
	s := importStore(t)
	done, err := s.ImportOpenGoat(t.Context(), home)
	if err != nil || len(done.Sessions) != 1 || done.Sessions[0].Note != "7 records were not OpenGoat's" {
		t.Fatalf("%+v, %v", done, err)
	}
	info, err := s.Info(t.Context(), "s")
	if err != nil || len(info.Options) != 0 || len(info.AgentSessions) != 0 || info.Agent == "other" || info.Title != "hello" ||
		info.Temporary || info.Origin != sessions.OriginImport || info.AdditionalDirectories != nil {
		t.Errorf("%+v, %v", info, err)
	}
}

// Any two files make an import that ends, and sessions that load.
func FuzzImport(f *testing.F) {
	f.Add(`{"schemaVersion":1,"sessions":{"agent:dev:main":{"sessionId":"s","updatedAt":1,"title":"t"}}}`, goatTranscript)
	f.Add(`{"s":{"sessionId":"s"}}`, "")
	f.Add(`[]`, "\x00\n{}\n{\"type\":\"message\"}")
	f.Add(``, `{"type":"title","title":"\u0000"}`)
	f.Fuzz(func(t *testing.T, index, transcript string) {
		home := t.TempDir()
		writeTree(t, home, map[string]string{"sessions.json": index, "s.jsonl": transcript})
		s := openStore(t, filepath.Join(t.TempDir(), "sessions"), nil)
		done, err := s.ImportOpenGoat(t.Context(), home)
		if err != nil || len(done.Sessions) != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
		for _, err := range s.Replay(t.Context(), "s", 0) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Info(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if err := s.ExportMarkdown(t.Context(), "s", &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	})
}
