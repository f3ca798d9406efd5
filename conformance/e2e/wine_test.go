package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// needWine builds gander for Windows and a prefix of wine's in which it runs, and
// returns where both are.
func needWine(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"wine", "x86_64-w64-mingw32-gcc", "go"} {
		_, err := exec.LookPath(program)
		need(t, err == nil && runtime.GOARCH == "amd64", program+" (make deps)")
	}
	dir := workspace(t)
	forWindows(t, dir, "gander.exe", "gander.dev/gander/cmd/gander", append([]string{"build"}, oldRemoval(t, dir)...)...)
	keepWineserver(t, dir)
	wine(t, dir, "wineboot", "--init")
	addRandomness(t, dir)
	return dir
}

// forWindows makes a program in dir with a command of go.
func forWindows(t *testing.T, dir, program, pkg string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append(command, "-o", filepath.Join(dir, program), pkg)...)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if words, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("making %s: %v: %s", program, err, words)
	}
}

// oldRemoval are flags of a build whose program removes files as for Windows before
// 2018: the way of later ones, without which Go removes no tree of files, is not in
// wine, which says so in words that Go does not know.
func oldRemoval(t *testing.T, dir string) []string {
	t.Helper()
	source, overlay := filepath.Join(dir, "removal.go"), filepath.Join(dir, "overlay.json")
	err := os.WriteFile(source, []byte(`package main

import _ "unsafe"

//go:linkname oldRemoval internal/syscall/windows.TestDeleteatFallback
var oldRemoval bool

func init() { oldRemoval = true }
`), 0o600)
	if err == nil {
		err = os.WriteFile(overlay, []byte(encode(t, map[string]any{"Replace": map[string]string{fromRoot(t, "cmd/gander/removal_windows.go"): source}})), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{"-overlay", overlay, "-ldflags=-checklinkname=0"}
}

// keepWineserver starts the server of wine's prefix and keeps it to the end of the
// test: Debian's ends with the last program it knows, and takes with it one that is
// being made just then, which waits for ever.
func keepWineserver(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(wineEnv(dir)["WINEPREFIX"], 0o700); err != nil {
		t.Fatal(err)
	}
	wine(t, dir, "wineserver", "--persistent") // which returns when it serves
	t.Cleanup(func() { wine(t, dir, "wineserver", "--kill") })
}

// addRandomness gives wine the one library that it lacks and Go needs.
func addRandomness(t *testing.T, dir string) {
	t.Helper()
	source := filepath.Join(dir, "prng.c")
	err := os.WriteFile(source, []byte(`#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, (ULONG)n); }
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "prefix", "drive_c", "windows", "system32", "bcryptprimitives.dll")
	cmd := exec.CommandContext(t.Context(), "x86_64-w64-mingw32-gcc", "-shared", "-o", out, source, "-ladvapi32")
	if words, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, words)
	}
}

func wineEnv(dir string) map[string]string {
	return map[string]string{"WINEPREFIX": filepath.Join(dir, "prefix"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
}

func wine(t *testing.T, dir string, command ...string) {
	t.Helper()
	ctx, done := context.WithTimeout(context.WithoutCancel(t.Context()), 3*patience) // it also runs when a test is over
	defer done()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(list(wineEnv(dir)), "PATH="+os.Getenv("PATH"), "HOME="+dir)
	words, err := os.CreateTemp(dir, "words-") // a pipe would be kept by wine's services
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = words.Close() }()
	cmd.Stdout, cmd.Stderr = words, words
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(words.Name())
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, said)
	}
}

// windowsPath is a file as programs under wine name it.
func windowsPath(file string) string { return "Z:" + strings.ReplaceAll(file, "/", `\`) }
