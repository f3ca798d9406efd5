package sessions

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"

	"gander.dev/gander/acp"
)

// Entries reads the records of a session in the order they were appended, as
// far as they are written; it holds one at a time. The sequence ends after an
// error: ErrNotFound when there is no such session, the context's when ctx ends.
// A torn last line is left out.
func (s *Store) Entries(ctx context.Context, id acp.SessionID) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := s.each(ctx, id, func(r Record) bool { return yield(r, nil) }); err != nil {
			yield(Record{}, fmt.Errorf("reading session %s: %w", id, err))
		}
	}
}

// each calls f with each record until it returns false.
func (s *Store) each(ctx context.Context, id acp.SessionID, f func(Record) bool) error {
	if CheckID(id) != nil {
		return ErrNotFound // nothing was ever stored under it
	}
	err := eachIn(ctx, s.path(id), f)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotFound
	}
	return err
}

// ReadFile reads the records of a transcript that is in no store, as Entries does.
func ReadFile(ctx context.Context, path string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := eachIn(ctx, path, func(r Record) bool { return yield(r, nil) }); err != nil {
			yield(Record{}, fmt.Errorf("reading the transcript: %w", err))
		}
	}
}

// eachIn calls f with each record of a file until it returns false.
func eachIn(ctx context.Context, path string, f func(Record) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = scan(ctx, file, 0, func(line []byte, whole bool) bool {
		if !whole && !json.Valid(line) {
			return false // torn
		}
		return f(decodeRecord(line))
	})
	return err
}

// scan calls f with the lines of a file from an offset on that are not blank,
// until it returns false. whole is false of a last line without its newline. It
// returns the offset behind the last whole line.
func scan(ctx context.Context, file io.ReaderAt, offset int64, f func(line []byte, whole bool) bool) (int64, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(file, offset, math.MaxInt64-offset), 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return offset, err
		}
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return offset, err
		}
		whole := err == nil
		if whole {
			offset += int64(len(line))
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !f(line, whole) || !whole {
			return offset, nil
		}
	}
}
