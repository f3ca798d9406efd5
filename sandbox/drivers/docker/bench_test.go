//go:build linux

package docker_test

import (
	"bytes"
	"io"
	"os/exec"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// The benchmarks come in pairs: a sandbox's way and docker's own way, in a
// container that runs already.

func benchBox(b *testing.B) sandbox.Sandbox {
	b.Helper()
	if fixture.skip != "" {
		b.Skip(fixture.skip)
	}
	sb, err := docker.New(options()).Create(b.Context(), sandbox.Spec{ID: "bench", WorkingDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sb.Close() })
	return sb
}

func start(b *testing.B, sb sandbox.Sandbox, args ...string) sandbox.Process {
	b.Helper()
	p, err := sb.Start(b.Context(), sandbox.Command{Args: args, Env: sandboxtest.Env()})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkStart(b *testing.B) {
	b.Run("sandbox", func(b *testing.B) {
		sb := benchBox(b)
		for b.Loop() {
			if _, err := start(b, sb, "/bin/true").Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("docker exec", func(b *testing.B) {
		id, a := attach(b, "cat")
		defer a.Close()
		for b.Loop() {
			if err := exec.Command("docker", "exec", id, "/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCat is throughput both ways at once.
func BenchmarkCat(b *testing.B) {
	data := bytes.Repeat([]byte("x"), 64<<20)
	b.Run("sandbox", func(b *testing.B) {
		sb := benchBox(b)
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			p := start(b, sb, "cat")
			go func() { _, _ = p.Stdin().Write(data); _ = p.Stdin().Close() }()
			if n, err := io.Copy(io.Discard, p.Stdout()); n != int64(len(data)) || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("docker attach", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			b.StopTimer()
			_, a := attach(b, "cat")
			b.StartTimer()
			go func() { _, _ = a.Conn.Write(data); _ = a.CloseWrite() }()
			if n, err := stdcopy.StdCopy(io.Discard, io.Discard, a.Reader); n != int64(len(data)) {
				b.Fatal(n, err)
			}
			a.Close()
		}
	})
}

// BenchmarkPing is one byte to cat and back.
func BenchmarkPing(b *testing.B) {
	b.Run("sandbox", func(b *testing.B) {
		p, one := start(b, benchBox(b), "cat"), []byte{1}
		for b.Loop() {
			_, _ = p.Stdin().Write(one)
			if _, err := io.ReadFull(p.Stdout(), one); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("docker attach", func(b *testing.B) {
		_, a := attach(b, "cat")
		defer a.Close()
		var framed [9]byte
		for b.Loop() {
			_, _ = a.Conn.Write(framed[:1])
			if _, err := io.ReadFull(a.Reader, framed[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCreate is a sandbox from nothing to nothing.
func BenchmarkCreate(b *testing.B) {
	for b.Loop() {
		_ = benchBox(b).Close()
	}
}

// attach starts a container that ends with the attached stream.
func attach(b *testing.B, args ...string) (string, client.ContainerAttachResult) {
	b.Helper()
	cli, err := client.New(client.WithHostFromEnv())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cli.Close() }()
	res, err := cli.ContainerCreate(b.Context(), client.ContainerCreateOptions{
		Config:     &api.Config{Image: testImage, Entrypoint: args, OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true},
		HostConfig: &api.HostConfig{AutoRemove: true, LogConfig: api.LogConfig{Type: "none"}, NetworkMode: "none"},
	})
	if err != nil {
		b.Fatal(err)
	}
	a, err := cli.ContainerAttach(b.Context(), res.ID, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := cli.ContainerStart(b.Context(), res.ID, client.ContainerStartOptions{}); err != nil {
		b.Fatal(err)
	}
	return res.ID, a
}
