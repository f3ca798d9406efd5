package controlplane

import (
	"context"
	"database/sql"
	"fmt"
	"runtime/debug"
	"sync"
)

// errClosed answers what comes when the control plane ends.
var errClosed = fmt.Errorf("the control plane is ending: %w", ErrUnavailable)

// groupLimit is how many requests share a commit at most.
const groupLimit = 128

// A writer does all changes, one after the other, in one goroutine: what waits while a
// commit is on its way to the disk shares the next one. Every change is whole or
// undone, alone.
type writer struct {
	db   *sql.DB
	conn *sql.Conn
	jobs chan *job
	quit chan struct{}
	once sync.Once
	done sync.WaitGroup

	// prepared statements by their text, used by the goroutine only
	prepared map[string]*sql.Stmt
}

type job struct {
	do     func(*tx) error
	tx     *tx
	result chan error
}

// A tx is what one change may do. It is valid during the change only.
type tx struct {
	w     *writer
	ctx   context.Context
	after []func()
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, conn: conn, jobs: make(chan *job, groupLimit), quit: make(chan struct{}), prepared: map[string]*sql.Stmt{}}
	w.done.Go(w.run)
	return w, nil
}

// write makes one change and returns when it is on the disk. What do registers with
// [tx.then] has run by then, in the order of the changes. ctx ends the waiting for a
// turn, never a change that has begun.
func (w *writer) write(ctx context.Context, do func(*tx) error) error {
	j := &job{do: do, result: make(chan error, 1)}
	select {
	case <-w.quit:
		return errClosed
	default:
	}
	select {
	case w.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return errClosed
	}
	select {
	case err := <-j.result:
		return err
	case <-w.quit:
	}
	w.done.Wait() // it answers what it has taken
	select {
	case err := <-j.result:
		return err
	default:
		return errClosed
	}
}

func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	w.done.Wait()
}

func (w *writer) run() {
	defer func() {
		for _, s := range w.prepared {
			_ = s.Close() // the file is closed next
		}
		_ = w.conn.Close()
	}()
	for {
		select {
		case <-w.quit:
			return
		case j := <-w.jobs:
			w.group(w.waiting(j))
		}
	}
}

// waiting is first and what waits besides, without waiting for more.
func (w *writer) waiting(first *job) []*job {
	group := []*job{first}
	for len(group) < groupLimit {
		select {
		case j := <-w.jobs:
			group = append(group, j)
		default:
			return group
		}
	}
	return group
}

// group makes several changes in one transaction of the database.
func (w *writer) group(jobs []*job) {
	ctx := context.Background() // a change that has begun is finished
	results := make([]error, len(jobs))
	err := w.exec(ctx, "BEGIN IMMEDIATE")
	for i, j := range jobs {
		if err != nil {
			break
		}
		j.tx = &tx{w: w, ctx: ctx}
		results[i], err = w.one(ctx, j)
	}
	if err == nil {
		err = w.exec(ctx, "COMMIT")
	}
	if err != nil {
		err = fmt.Errorf("writing to the database: %w", err)
		// After a failed BEGIN, or when SQLite has done so itself, there is nothing to roll back.
		_ = w.exec(ctx, "ROLLBACK")
	}
	for i, j := range jobs {
		if err == nil && results[i] == nil {
			for _, f := range j.tx.after {
				f()
			}
		}
		if results[i] == nil {
			results[i] = err
		}
		j.result <- results[i]
	}
}

// one makes one change: failed is its own error, after which nothing of it is left, and
// broken one of the database, after which nothing can be said of the whole group.
func (w *writer) one(ctx context.Context, j *job) (failed, broken error) {
	if err := w.exec(ctx, "SAVEPOINT change"); err != nil {
		return nil, err
	}
	if err := run(j); err != nil {
		if undo := w.exec(ctx, "ROLLBACK TO change"); undo != nil {
			return err, undo
		}
		return err, w.exec(ctx, "RELEASE change")
	}
	return nil, w.exec(ctx, "RELEASE change")
}

// run calls the change; a panic in it is an error of that request alone.
func run(j *job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return j.do(j.tx)
}

func (w *writer) exec(ctx context.Context, query string) error {
	_, err := w.conn.ExecContext(ctx, query)
	return err
}

func (w *writer) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := w.prepared[query]; s != nil {
		return s, nil
	}
	s, err := w.conn.PrepareContext(ctx, query)
	if err == nil {
		w.prepared[query] = s
	}
	return s, err
}

// then has f called when the change is on the disk. It must not wait for anything.
func (t *tx) then(f func()) { t.after = append(t.after, f) }

// exec changes rows; the text of the query is one of few, since each is kept prepared.
func (t *tx) exec(query string, args ...any) (sql.Result, error) {
	s, err := t.w.stmt(t.ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(t.ctx, args...)
}

// QueryContext makes a tx a querier.
func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.w.conn.QueryContext(ctx, query, args...)
}

// QueryRowContext makes a tx a querier.
func (t *tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return t.w.conn.QueryRowContext(ctx, query, args...)
}
