//go:build !linux

package shell

import (
	"io"
	"sync"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// outputs are the supervisor's streams.
type outputs struct{ from [streams]io.ReadCloser }

func redirect(*sandbox.Command) (*outputs, error) { return &outputs{}, nil }

func (o *outputs) begun(p supervise.Process) {
	o.from = [streams]io.ReadCloser{io.NopCloser(p.Stdout()), io.NopCloser(p.Stderr())}
}

// readAll passes on what arrives, until both streams have ended.
func (o *outputs) readAll(buf []byte, take func(stream, []byte), end func(stream)) {
	var wg sync.WaitGroup
	wg.Go(func() { readStream(o.from[stdout], make([]byte, len(buf)), func(b []byte) { take(stdout, b) }) })
	readStream(o.from[stderr], buf, func(b []byte) { take(stderr, b) })
	wg.Wait()
	end(stdout)
	end(stderr)
}

func readStream(from io.Reader, buf []byte, take func([]byte)) {
	for {
		n, err := from.Read(buf)
		if n > 0 {
			take(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (o *outputs) stop() {
	for _, from := range o.from {
		_ = from.Close()
	}
}

func (o *outputs) close() {}
