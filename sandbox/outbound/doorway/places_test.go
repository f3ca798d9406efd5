package doorway_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gander.dev/gander/sandbox/outbound/doorway"
)

// Of bodies that are large as many are held as there are places, of the others the
// beginning; who has waited long enough goes without.
func TestPlaces(t *testing.T) {
	const places, bodies, size = 2, 6, 3 << 20
	synctest.Test(t, func(t *testing.T) {
		p := doorway.NewPlaces(places)
		waiting, giveUp := context.WithCancel(t.Context())
		release := make(chan struct{})
		var held atomic.Int64
		var whole, small, gone atomic.Int32
		read := func(ctx context.Context, size int, count *atomic.Int32) {
			body := io.TeeReader(strings.NewReader(strings.Repeat("x", size)), counter{&held})
			data, done, err := p.Read(ctx, body)
			defer done()
			switch {
			case errors.Is(err, context.Canceled):
				gone.Add(1)
			case err == nil && len(data) == size:
				count.Add(1)
				<-release
			default:
				t.Errorf("%d bytes, %v", len(data), err)
			}
		}
		for range places {
			go read(t.Context(), size, &whole)
		}
		synctest.Wait()
		for range bodies - places - 1 {
			go read(t.Context(), size, &whole)
		}
		go read(waiting, size, &whole)
		go read(t.Context(), 1000, &small)
		synctest.Wait()
		if most := int64(places*size + (bodies-places)*doorway.Free + 1000); held.Load() > most {
			t.Errorf("%d bytes are held, want %d at most", held.Load(), most)
		}
		giveUp()
		synctest.Wait()
		if whole.Load() != places || small.Load() != 1 || gone.Load() != 1 {
			t.Errorf("%d large and %d small bodies were read, %d given up", whole.Load(), small.Load(), gone.Load())
		}
		close(release)
		synctest.Wait()
		if whole.Load() != bodies-1 {
			t.Errorf("in the end %d large bodies were read", whole.Load())
		}
	})
}

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
