package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/cmd/gander/internal/cli"
)

var updateMessages = flag.Bool("update-messages", false, "write what gander says into testdata/messages.txt")

const messagesFile = "testdata/messages.txt"

// messageTime bounds how long a command takes that says what is wrong.
const messageTime = time.Minute

// varying matches what differs from one machine or run to the next.
var varying = regexp.MustCompile(`\.(?:json|token|xml)\d{5,}|\bexec-[0-9a-f]{8}\b|127\.0\.0\.1:\d{4,}|\b[0-9a-f]{8}-[0-9a-f-]{27}\b`)

// escapes stand for characters that the table does not show.
var escapes = strings.NewReplacer(`\n`, "\n", `\u2028`, "\u2028", `\ufeff`, "\ufeff")

// TestMessages runs each command of the table, in a home and a project of its own, and compares
// its exit code and what it says with the table. The table is for reading: each message names
// the thing, the cause, and the next step.
//
//	config JSON    what the next commands' config.json says; - is none
//	file NAME TEXT a file in their project, with Go's \n and \u; NAME/ is a directory
//	link NAME TEXT a link in their project
//	env NAME TEXT  a variable of theirs
//	stdin broken   an input that cannot be read
//	disk full      a home in which nothing has room, of root
//	project gone   a working directory that is removed
//	$ ARGUMENTS    the command, with the words of a shell without quotes: _ is a space, '' nothing
//	N: TEXT        its exit code and its words on stderr, where HOME and PROJECT are its directories
func TestMessages(t *testing.T) {
	table, err := filepath.Abs(messagesFile)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	commands := 0
	blocks := strings.Split(strings.TrimRight(string(raw), "\n"), "\n\n")
	for i, block := range blocks {
		if i > 0 {
			out.WriteString("\n")
		}
		keep := false // the answers
		p := &person{config: "{}", files: map[string]string{}, links: map[string]string{}}
		for line := range strings.Lines(block) {
			line = strings.TrimRight(line, "\n")
			kind, rest, _ := strings.Cut(line, " ")
			switch kind {
			case "config":
				p.config = rest
			case "file":
				name, text, _ := strings.Cut(rest, " ")
				p.files[name] = escapes.Replace(text)
			case "link":
				name, text, _ := strings.Cut(rest, " ")
				p.links[name] = text
			case "env":
				p.environ = append(p.environ, strings.Replace(rest, " ", "=", 1))
			case "stdin", "disk", "project":
				p.lacks = append(p.lacks, kind)
			case "$":
				commands++
				if words := p.said(t, strings.Fields(rest)); words != "" {
					fmt.Fprintf(&out, "%s\n%s\n", line, words)
					continue
				}
				keep = true
			case "#":
			default:
				if !keep {
					continue // an answer in the table, which is written anew
				}
			}
			fmt.Fprintln(&out, line)
		}
	}
	if commands < 100 {
		t.Errorf("only %d commands: the table is not read as it should be", commands)
	}
	if *updateMessages {
		if err := os.WriteFile(table, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, got := strings.Split(strings.TrimRight(string(raw), "\n"), "\n"), strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("%s:%d: gander says\n%s\nand the table has\n%s\n(go test ./cmd/gander -run TestMessages -update-messages writes what it says; read it)", messagesFile, i+1, got[i], want[i])
		}
	}
	if len(want) != len(got) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// fillUp puts a file system with no room over a directory, with the files that were in it.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	below := dir + ".below"
	err := os.Rename(dir, below)
	err = errors.Join(err, os.Mkdir(dir, 0o700), unix.Mount("none", dir, "tmpfs", 0, "size=256k,nr_inodes=64,mode=700"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if out, err := exec.Command("cp", "-a", below+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i := 0; err == nil; i++ { // until there is no room for a byte, nor for a name
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint("full-", i)), make([]byte, 64<<10), 0o600)
		if errors.Is(err, unix.ENOSPC) {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprint("name-", i)), nil, 0o600)
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// person holds what somebody who runs commands has configured, and what is there.
type person struct {
	config  string
	files   map[string]string
	links   map[string]string
	environ []string
	lacks   []string // stdin, disk or project
}

// said runs a command and returns its exit code and its words on stderr, several lines as one;
// nothing where somebody who is not root cannot have what is there.
func (p *person) said(t *testing.T, args []string) string {
	t.Helper()
	if slices.Contains(p.lacks, "disk") && os.Geteuid() != 0 {
		return ""
	}
	base := t.TempDir()
	home, project := filepath.Join(base, "home"), filepath.Join(base, "project")
	places := strings.NewReplacer("HOME", home, "PROJECT", project)
	var err error
	for _, dir := range []string{home, project} {
		err = errors.Join(err, os.Mkdir(dir, 0o700))
	}
	if p.config != "-" {
		err = errors.Join(err, os.WriteFile(filepath.Join(home, "config.json"), []byte(places.Replace(p.config)+"\n"), 0o600))
	}
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		text, at := places.Replace(p.files[name]), filepath.Join(project, name)
		if strings.HasSuffix(name, "/") {
			err = errors.Join(err, os.Mkdir(at, 0o700))
		} else {
			err = errors.Join(err, os.WriteFile(at, []byte(text+"\n"), 0o700))
		}
	}
	for name, to := range p.links {
		err = errors.Join(err, os.Symlink(to, filepath.Join(project, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, arg := range args {
		args[i] = strings.TrimPrefix(places.Replace(strings.ReplaceAll(arg, "_", " ")), "''")
	}
	t.Chdir(project)
	var stdin io.Reader = strings.NewReader("")
	for _, lack := range p.lacks {
		switch lack {
		case "stdin":
			stdin = iotest.ErrReader(errors.New("broken pipe"))
		case "disk":
			fillUp(t, home)
		case "project":
			if err := os.Remove(project); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Chdir(base) }() // or the next command could not begin
		}
	}
	var stderr bytes.Buffer
	s := &cli.Signals{End: func() {}, Exit: func(int) {}}
	environ := []string{"HOME=" + base, "GANDER_HOME=" + home, "PATH=/usr/bin:/bin", "DOCKER_HOST=unix:///nowhere"}
	for _, variable := range p.environ {
		name, value, _ := strings.Cut(variable, "=")
		environ = append(environ, name+"="+places.Replace(value))
		if name == "TMPDIR" { // the operating system's
			defer os.Setenv(name, os.Getenv(name))
			t.Setenv(name, places.Replace(value))
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), messageTime)
	defer stop()
	code := runGander(ctx, args, cli.Stdio{In: stdin, Out: new(bytes.Buffer), Err: &stderr}, environ, s)
	if ctx.Err() != nil {
		t.Errorf("%q does not end by itself", args)
	}
	text := strings.NewReplacer(home, "HOME", project, "PROJECT", base, "BASE", "\n", " ⏎ ").Replace(strings.TrimSpace(stderr.String()))
	return fmt.Sprintf("%d: %s", code, varying.ReplaceAllString(text, "…"))
}
