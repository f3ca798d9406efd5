package controlplane

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/telemetry"
)

// Options are what a control plane is made of. Dir, Fleet, Listen and Token are required.
type Options struct {
	// Dir is the directory of the loops, absolute: the database, workspaces and
	// snapshots are kept below it. It is made when it is not there.
	Dir string
	// Fleet runs the loops.
	Fleet Fleet
	// Log gets what happens; nil discards it. No token is ever written to it.
	Log *slog.Logger

	// Listen is the address that is listened on ("127.0.0.1:3000"). Requests must name
	// it, or localhost with its port, in their Host header, and in Origin if they have
	// one; so a web page of elsewhere cannot steer a loop, whatever its name resolves to.
	Listen string
	// AllowHosts are further values of Host, with their port where it is not the usual one.
	AllowHosts []string
	// Token is what a person shows. At least 16 characters.
	Token string
	// Compat lets requests from loopback that show no token use the routes of the
	// succeeded system as if a person sent them, so that its clients keep working.
	Compat bool
	// Page is the dashboard; nil says in words that there is none.
	Page fs.FS

	// Private are directories that no workspace may be, contain or be in, such as the
	// one with gander's own state; Dir/workspaces excepted.
	Private []string

	// Sandboxes are the drivers that a start may name.
	Sandboxes []string

	// Summarize makes one short sentence of the lines of an iteration; nil turns
	// summaries off. SummaryTimeout bounds a call; zero means a minute.
	Summarize      func(ctx context.Context, lines []string) (string, error)
	SummaryTimeout time.Duration

	// Notify tells the person who is away that a run waits, pauses, ends or fails, and what is
	// out of the ordinary with a schedule; it must not wait. Nil tells nobody. PageURL is where
	// the links in it lead, without a token.
	Notify  func(notify.Note)
	PageURL string

	// Transcripts gets the events of every run that was started here; nil: nobody does.
	Transcripts Transcripts

	// KeepEvents is how long events are kept after they came, zero means 90 days;
	// KeepBytes how large the database may grow before the oldest go earlier, zero
	// means 4 GiB. Negative values mean for ever. What iterations were stays as long as
	// their run.
	KeepEvents time.Duration
	KeepBytes  int64
	// SnapshotBytes bounds the files of one snapshot, before compression; zero means 8 GiB.
	SnapshotBytes int64

	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Transcripts keep what happened in a run elsewhere.
type Transcripts interface {
	// OnEvents gets the events of a run in their order, for one run one call at a time.
	// After a crash, and after an error, the same events come again: Event.Seq says
	// which are known. The events are shared: they must not be changed.
	OnEvents(ctx context.Context, run Run, events []telemetry.Event) error
}

// Bounds of what the control plane takes and holds.
const (
	maxBody         = 1 << 20 // bytes of a request
	maxBatch        = 500     // events of a request
	maxFile         = 1 << 20 // bytes of a file that are shown
	maxFiles        = 10_000  // entries of a directory that are listed
	maxPage         = 1000    // rows of an answer
	heartbeat       = 15 * time.Second
	writeTimeout    = 10 * time.Second
	clientMessages  = 8192                  // that wait for a live client before it is dropped
	clientBytes     = 8 << 20               // of them
	gather          = 40 * time.Millisecond // between two batches to one live client
	defaultKeep     = 90 * 24 * time.Hour
	defaultBytes    = 4 << 30
	defaultSnapshot = 8 << 30
)

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SummaryTimeout <= 0 {
		o.SummaryTimeout = time.Minute
	}
	if o.KeepEvents == 0 {
		o.KeepEvents = defaultKeep
	}
	if o.KeepBytes == 0 {
		o.KeepBytes = defaultBytes
	}
	if o.SnapshotBytes <= 0 {
		o.SnapshotBytes = defaultSnapshot
	}
	return o
}
