package controlplane

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"; pure Go, so that gander stays one static binary
)

// migrations bring a database from the version of their index to the next one.
// One that was released is never changed.
var migrations = []string{schema, torn, unnumbered, using, schedules}

// schema keeps the tables of the succeeded system in spirit: iterations, events,
// vitals, prompt history, mailbox, snapshots, and runs in the place of sessions. Times
// are milliseconds since 1970. An event is kept as its JSON, with what is searched for
// beside it. AUTOINCREMENT: an id, once seen by a client, never comes again.
const schema = `
CREATE TABLE runs (
	key INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	session TEXT NOT NULL,
	agent TEXT NOT NULL,
	driver TEXT NOT NULL,
	workspace TEXT NOT NULL,
	model TEXT NOT NULL,
	pace INTEGER NOT NULL,
	limits TEXT NOT NULL,
	token BLOB UNIQUE,
	old INTEGER NOT NULL DEFAULT 0,
	state TEXT NOT NULL,
	reason TEXT NOT NULL DEFAULT '',
	until INTEGER NOT NULL DEFAULT 0,
	desired TEXT NOT NULL,
	container TEXT NOT NULL DEFAULT '',
	created INTEGER NOT NULL,
	started INTEGER,
	stopped INTEGER,
	iteration INTEGER NOT NULL DEFAULT 0,
	last_seq INTEGER NOT NULL DEFAULT 0,
	last_outcome TEXT NOT NULL DEFAULT '',
	input INTEGER NOT NULL DEFAULT 0,
	output INTEGER NOT NULL DEFAULT 0,
	total INTEGER NOT NULL DEFAULT 0,
	cost REAL NOT NULL DEFAULT 0,
	cpu REAL, memory REAL, disk REAL,
	told INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX runs_workspace ON runs(workspace) WHERE stopped IS NULL AND driver != 'external';
CREATE INDEX runs_live ON runs(key) WHERE stopped IS NULL;

CREATE TABLE iterations (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	run INTEGER NOT NULL REFERENCES runs(key) ON DELETE CASCADE,
	number INTEGER NOT NULL,
	started INTEGER NOT NULL,
	ended INTEGER,
	summary TEXT NOT NULL DEFAULT '',
	llm_summary TEXT,
	llm_tries INTEGER NOT NULL DEFAULT 0,
	outcome TEXT NOT NULL DEFAULT '',
	actions INTEGER NOT NULL DEFAULT 0,
	errors INTEGER NOT NULL DEFAULT 0,
	input INTEGER NOT NULL DEFAULT 0,
	output INTEGER NOT NULL DEFAULT 0,
	total INTEGER NOT NULL DEFAULT 0,
	cost REAL NOT NULL DEFAULT 0,
	UNIQUE (run, number)
) STRICT;
CREATE INDEX iterations_open ON iterations(run) WHERE ended IS NULL;
CREATE INDEX iterations_unsummarised ON iterations(ended) WHERE llm_summary IS NULL;

CREATE TABLE events (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	run INTEGER NOT NULL REFERENCES runs(key) ON DELETE CASCADE,
	seq INTEGER NOT NULL,
	iteration INTEGER REFERENCES iterations(id) ON DELETE SET NULL,
	type TEXT NOT NULL,
	ts INTEGER NOT NULL,
	received INTEGER NOT NULL,
	body TEXT NOT NULL,
	UNIQUE (run, seq)
) STRICT;
CREATE INDEX events_iteration ON events(iteration);

CREATE TABLE vitals (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	run INTEGER NOT NULL REFERENCES runs(key) ON DELETE CASCADE,
	ts INTEGER NOT NULL,
	cpu REAL NOT NULL, memory REAL NOT NULL, disk REAL NOT NULL
) STRICT;
CREATE INDEX vitals_run ON vitals(run, id);

CREATE TABLE prompts (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	run INTEGER REFERENCES runs(key) ON DELETE CASCADE,
	content TEXT NOT NULL,
	updated INTEGER NOT NULL
) STRICT;
CREATE INDEX prompts_run ON prompts(run, id);

CREATE TABLE mailbox (
	run INTEGER PRIMARY KEY REFERENCES runs(key) ON DELETE CASCADE,
	agent_msg TEXT, human_msg TEXT,
	agent_updated INTEGER, human_updated INTEGER
) STRICT;

CREATE TABLE snapshots (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	run INTEGER REFERENCES runs(key) ON DELETE SET NULL,
	label TEXT NOT NULL,
	agent TEXT NOT NULL,
	filename TEXT NOT NULL UNIQUE,
	size INTEGER NOT NULL,
	sum TEXT NOT NULL,
	created INTEGER NOT NULL
) STRICT;

-- pruned: the highest id of an event that retention has removed.
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
`

// torn is Run.Torn.
const torn = `ALTER TABLE runs ADD COLUMN torn TEXT NOT NULL DEFAULT '';`

// unnumbered is for runs whose loop sends events without a seq.
const unnumbered = `
ALTER TABLE runs ADD COLUMN added INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN last_batch BLOB;
`

// using is Run.Using.
const using = `ALTER TABLE runs ADD COLUMN using_now TEXT NOT NULL DEFAULT '{}';`

// schedules are runs that begin at times. Next is null when there is no time any more; fired is the
// last time that was due, and begun is set until what came of it is in run and said.
const schedules = `
CREATE TABLE schedules (
	id TEXT PRIMARY KEY,
	timetable TEXT NOT NULL,
	start TEXT NOT NULL,
	created INTEGER NOT NULL,
	next INTEGER,
	fired INTEGER,
	begun INTEGER NOT NULL DEFAULT 0,
	run TEXT NOT NULL DEFAULT '',
	said TEXT NOT NULL DEFAULT ''
) STRICT;
`

// querier is what reading needs: the readers' pool, or the transaction that writes.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A database is one writer and several readers of a file.
type database struct {
	*writer
	read *sql.DB
}

// openDatabase opens the file, which it makes if need be, and brings it up to date.
func openDatabase(ctx context.Context, file string) (*database, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the database: %w", err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) // SQLite gives the files beside it the same mode
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	f.Close()
	write, err := sql.Open("sqlite", dsn(file,
		"auto_vacuum(incremental)", "journal_mode(WAL)", "foreign_keys(1)", "busy_timeout(10000)",
		// What is acknowledged is gone from the sender's spool: it must survive a power cut.
		"synchronous(FULL)"))
	if err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", file, err)
	}
	write.SetMaxOpenConns(1)
	if err := migrate(ctx, write); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", file, err), write.Close())
	}
	read, err := sql.Open("sqlite", dsn(file, "query_only(1)", "busy_timeout(10000)"))
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(8)
	read.SetMaxIdleConns(8)
	w, err := newWriter(ctx, write)
	if err != nil {
		return nil, errors.Join(err, write.Close(), read.Close())
	}
	return &database{writer: w, read: read}, nil
}

func dsn(file string, pragmas ...string) string {
	q := url.Values{"_pragma": pragmas}
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // of a drive of Windows, which would be taken for a host
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

func migrate(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("reading its version: %w", err)
	}
	if version > len(migrations) {
		return fmt.Errorf("its version is %d and this program knows %d: a newer gander made it; use that one, or move the file away", version, len(migrations))
	}
	for ; version < len(migrations); version++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, migrations[version]); err != nil {
			return errors.Join(fmt.Errorf("bringing it to version %d: %w", version+1, err), tx.Rollback())
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version+1)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// close waits for what is being written.
func (d *database) close() error {
	d.writer.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// Readers see the file alone afterwards; a failure leaves the log, which is as good.
	_, _ = d.writer.db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return errors.Join(d.read.Close(), d.writer.db.Close())
}
