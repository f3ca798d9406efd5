package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and a processor, in the words of the go command.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func (p platform) base() string { return "gander-" + p.os + "-" + p.arch }

func (p platform) program() string {
	if p.os == "windows" {
		return "gander.exe"
	}
	return "gander"
}

func parsePlatforms(list string) (platforms []platform, err error) {
	for one := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(one, "/")
		p := platform{system, arch}
		if !ok || registryOS[p.os] == "" || registryArch[p.arch] == "" {
			return nil, fmt.Errorf("%q is no platform that gander is released for, such as linux/amd64", one)
		}
		platforms = append(platforms, p)
	}
	return platforms, nil
}

// compiler is the C compiler that makes static programs of a platform, the better one where
// there are two; analyze needs it for other languages than Go. With "" the program is without.
func compiler(p platform) string {
	if p.os != "linux" || runtime.GOOS != "linux" || p.arch != runtime.GOARCH {
		return ""
	}
	for _, name := range []string{"musl-gcc", "gcc"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// build builds the program as make build does, and says whether C is in it.
func (r *release) build(ctx context.Context, p platform, to string) (cgo bool, err error) {
	to, err = filepath.Abs(to)
	if err != nil {
		return false, err
	}
	tags, flags := "", "-s -w -X main.version="+r.version // elsewhere the system resolves names and users
	if p.os == "linux" {
		tags = "netgo,osusergo,embedded"
		if err := r.goBuild(ctx, p, "", "-ldflags", "-s -w", "-o", "sandbox/drivers/local/program", "./cmd/supervisor"); err != nil {
			return false, err
		}
	}
	cc := compiler(p)
	if cc != "" {
		flags += ` -linkmode external -extldflags "-static -Wl,-z,stack-size=0x800000"`
	}
	return cc != "", r.goBuild(ctx, p, cc, "-tags", tags, "-ldflags", flags, "-o", to, "./cmd/gander")
}

// goBuild builds for a platform, with a C compiler or without.
func (r *release) goBuild(ctx context.Context, p platform, cc string, args ...string) error {
	env := []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch}
	if cc != "" {
		env = append(env, "CGO_ENABLED=1", "CC="+cc)
	}
	return r.goCommand(ctx, env, append([]string{"build", "-trimpath", "-buildvcs=false"}, args...)...)
}

func (r *release) goCommand(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, r.log, r.log
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") }), env...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// common are the files of every archive: licence, README, the configuration's schema and
// the manual.
func (r *release) common(ctx context.Context, work string) ([]file, error) {
	manual, err := filepath.Abs(filepath.Join(work, "man"))
	if err != nil {
		return nil, err
	}
	flags := "-X main.version=" + r.version
	if err := r.goCommand(ctx, []string{"CGO_ENABLED=0", "SOURCE_DATE_EPOCH=0"}, "run", "-tags", "manual", "-trimpath", "-buildvcs=false", "-ldflags", flags, "./cmd/gander", "man", manual); err != nil {
		return nil, err
	}
	var files []file
	add := func(name, path string) error {
		body, err := os.ReadFile(path)
		files = append(files, file{name: name, body: body, mode: 0o644})
		return err
	}
	for _, path := range []string{"LICENSE", "README.md", "cmd/gander/internal/config/config.schema.json"} {
		if err := add(filepath.Base(path), filepath.Join(r.root, path)); err != nil {
			return nil, err
		}
	}
	pages, err := filepath.Glob(filepath.Join(manual, "*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		if err := add("man/"+filepath.Base(page), page); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// notes say what a platform's program lacks.
func notes(p platform, cgo bool) string {
	var n strings.Builder
	fmt.Fprintf(&n, "gander for %s\n\n", p)
	if !cgo {
		n.WriteString("Made without C: the tool analyze of gander mcp knows Go only. make build on a machine\n" +
			"of this kind that has a C compiler gives a program that knows the other languages too.\n\n")
	}
	switch p.os {
	case "linux":
		n.WriteString("Sandboxes: local, where the kernel permits user namespaces, and docker.\n")
	case "darwin":
		n.WriteString("Sandboxes: docker, with a daemon on this Mac and images that have the agents (gander sandbox\n" +
			"build). There is no isolation without it: --sandbox local and off supervise only, and a process\n" +
			"that leaves its group may outlive a killed gander. The program is not signed or notarized.\n")
	case "windows":
		n.WriteString("Sandboxes: none. --sandbox local and off supervise only. For isolation run the Linux program\n" +
			"inside WSL. The program is not signed.\n")
	}
	n.WriteString("\nStart: gander doctor\n")
	return n.String()
}
