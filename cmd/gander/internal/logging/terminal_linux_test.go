package logging_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gander.dev/gander/cmd/gander/internal/logging"
)

// What an agent names things does nothing to a terminal.
func TestTerminalEscapes(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	log, _ := newLogger(t, logging.Options{Writer: terminal})
	for name, record := range map[string]func(hostile string){
		"message": func(s string) { log.Warn(s) },
		"text":    func(s string) { log.Warn("refused", "path", s) },
		"error":   func(s string) { log.Warn("refused", "err", errors.New(s)) },
		"list":    func(s string) { log.Warn("refused", "paths", []string{s}) },
		"group":   func(s string) { log.WithGroup("g").Warn("refused", "path", s) },
		"with":    func(s string) { log.With("path", s).Warn("refused") },
	} {
		record("a name\x1b]0;title\a\x1b[2J" + `\x1b[2J`)
		buf := make([]byte, 4096)
		n, err := master.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		ours := regexp.MustCompile("\x1b\\[[0-9;]*m")
		if got := ours.ReplaceAllString(string(buf[:n]), ""); strings.Contains(got, "\x1b") || !strings.Contains(got, "a name") || !ours.Match(buf[:n]) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
