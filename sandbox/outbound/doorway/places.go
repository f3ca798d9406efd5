package doorway

import (
	"bytes"
	"context"
	"io"
)

// Free is how much is held of a body without a place, in bytes.
const Free = 1 << 20

// Places bound how much is held at a time of what comes out of a sandbox: large bodies
// need one, and wait for it. They are safe for concurrent use.
type Places struct{ taken chan struct{} }

// NewPlaces returns places for n large bodies at a time.
func NewPlaces(n int) *Places { return &Places{taken: make(chan struct{}, n)} }

// Read reads all of r, which the caller bounds. Of more than Free bytes it takes a place
// first. done gives that back; it is to be called in the end, also after an error. An
// error is r's, or ctx's while it waits.
func (p *Places) Read(ctx context.Context, r io.Reader) (data []byte, done func(), err error) {
	done = func() {}
	data, err = io.ReadAll(io.LimitReader(r, Free))
	if err != nil || len(data) < Free {
		return data, done, err
	}
	if done, err = p.Take(ctx); err != nil {
		return nil, done, err
	}
	data, err = io.ReadAll(io.MultiReader(bytes.NewReader(data), r))
	return data, done, err
}

// Take takes a place for something large. done gives it back, once; it is never nil. The
// error is ctx's.
func (p *Places) Take(ctx context.Context) (done func(), err error) {
	select {
	case p.taken <- struct{}{}:
		return func() { <-p.taken }, nil
	case <-ctx.Done():
		return func() {}, ctx.Err()
	}
}
