package loop

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// StandaloneOptions are what a loop without a keeper needs besides ServeOptions.
type StandaloneOptions struct {
	ServeOptions
	// Start is what to run. RunID may be empty: it is that of the last time, or a new one.
	// Prompt is what holds as long as there is no Plane, or none was ever reached.
	Start Start
	// Dir is where the loop keeps its state and its events. The agent can write there: only
	// a keeper keeps it away.
	Dir string
	// Plane is the control plane; without a URL there is none.
	Plane telemetry.Target
	// Show takes each event, for a log; may be nil.
	Show func(telemetry.Event)
}

const (
	pollTime    = 3 * time.Second // between looks for a prompt and for messages
	partingTime = time.Second     // for the last events, when the loop ends
	answerLimit = 4 << 20         // bytes of an answer of the control plane
)

// Standalone runs a loop without a keeper, as in a container that was started by hand:
// it keeps its events and its state itself, sends the events, and asks the control
// plane for the prompt and for messages.
func Standalone(ctx context.Context, o StandaloneOptions) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	saved, err := Load(o.Dir)
	if err == nil && o.Start.RunID == "" {
		o.Start.RunID, err = ownRunID(o.Dir)
	}
	if err != nil {
		return err
	}
	spool, err := telemetry.OpenSpool(telemetry.SpoolOptions{Dir: filepath.Join(o.Dir, "spool", o.Start.RunID), RunID: o.Start.RunID, Log: o.Log})
	if err != nil {
		return err
	}
	o.Start.Saved = saved
	s := &standalone{o: o, spool: spool, client: telemetry.NewClient()}
	l, err := o.loop(o.Start, s.output)
	if err != nil {
		return errors.Join(err, spool.Close())
	}
	err = s.run(ctx, l)
	return errors.Join(err, spool.Close())
}

// ownRunID is the id of the run whose state a directory has.
func ownRunID(dir string) (string, error) {
	const name = "run"
	data, err := os.ReadFile(filepath.Join(dir, name))
	if id := strings.TrimSpace(string(data)); err == nil && id != "" && filepath.IsLocal(id) {
		return id, nil
	}
	id := strings.ToLower(rand.Text())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the directory of the loop's state: %w", err)
	}
	if err := writeFile(dir, name, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("keeping the run's id: %w", err)
	}
	return id, nil
}

type standalone struct {
	o      StandaloneOptions
	spool  *telemetry.Spool
	client *http.Client
	etag   string // of the prompt that is known
	known  Prompt
	mail   string // the mark of the last message
	away   bool   // the control plane, as was said
}

// output keeps what the loop says.
func (s *standalone) output(m Output) {
	if m.Event != nil {
		if _, err := s.spool.Append(*m.Event); err != nil {
			s.o.Log.Error("an event is lost", "err", err)
		}
		if s.o.Show != nil {
			s.o.Show(*m.Event)
		}
	}
	if m.Saved != nil {
		if err := Store(s.o.Dir, *m.Saved); err != nil {
			s.o.Log.Error("what must be known to go on is not kept", "err", err)
		}
	}
}

// run runs the loop, and beside it what talks to the control plane.
func (s *standalone) run(ctx context.Context, l *Loop) error {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	if s.o.Plane.URL != "" {
		up := telemetry.NewUploader(telemetry.UploaderOptions{
			Spool: s.spool, RunID: s.o.Start.RunID, Log: s.o.Log,
			Target: func() (telemetry.Target, error) { return s.o.Plane, nil },
		})
		wg.Go(func() { up.Run(beside) })
		wg.Go(func() { s.follow(beside, l) })
	}
	// Who ends the process ends the run, and the loop says so.
	calm := context.AfterFunc(ctx, func() { l.Do(Command{Type: CommandStop}) })
	err := l.Run(context.WithoutCancel(ctx))
	calm()
	if s.o.Plane.URL != "" {
		s.part()
	}
	stop()
	wg.Wait()
	return err
}

// part waits a moment until the last events are with the control plane.
func (s *standalone) part() {
	_ = s.spool.Sync() // it has said what is wrong
	end := time.Now().Add(partingTime)
	for s.spool.Acked() < s.spool.Last() && time.Now().Before(end) {
		time.Sleep(partingTime / 50)
	}
}

// follow asks for the prompt and for messages until ctx ends.
func (s *standalone) follow(ctx context.Context, l *Loop) {
	t := time.NewTicker(pollTime)
	defer t.Stop()
	for {
		err := s.prompt(ctx, l)
		if err == nil {
			err = s.mailbox(ctx, l)
		}
		if away := err != nil; away != s.away && ctx.Err() == nil {
			if s.away = away; away {
				s.o.Log.Warn("the control plane does not answer; the last known prompt holds, events wait", "err", err)
			} else {
				s.o.Log.Info("the control plane answers")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// prompt passes the prompt on when it is another one than before.
func (s *standalone) prompt(ctx context.Context, l *Loop) error {
	var p struct {
		Content string  `json:"content"`
		Updated *string `json:"updated_at"`
		Version string  `json:"version"`
	}
	etag, status, err := s.get(ctx, "/api/prompt", s.ofThisRun(), s.etag, &p)
	if status == http.StatusNotFound { // it does not know this run yet, or knows no runs
		etag, status, err = s.get(ctx, "/api/prompt", "", s.etag, &p)
	}
	if err != nil || status != http.StatusOK {
		return err
	}
	version := p.Version
	if version == "" && p.Updated != nil {
		version = *p.Updated
	}
	s.etag = etag
	if now := (Prompt{Content: p.Content, Version: version, Known: true}); now != s.known {
		s.known = now
		l.Do(Command{Type: CommandPrompt, Prompt: &now})
	}
	return nil
}

// mailbox passes on what the operator has written to this run since. What has no run is for
// another one, or was: one that control plane does not know yet has no mail.
func (s *standalone) mailbox(ctx context.Context, l *Loop) error {
	var m struct {
		Message *string `json:"human_msg"`
		Updated *string `json:"human_updated_at"`
	}
	_, _, err := s.get(ctx, "/api/mailbox", s.ofThisRun(), "", &m)
	if err != nil || m.Message == nil || m.Updated == nil {
		return err
	}
	sum := sha256.Sum256([]byte(*m.Message)) // two may be of the same second
	mark := *m.Updated + " " + hex.EncodeToString(sum[:8])
	if mark == s.lastMail() {
		return nil
	}
	l.Do(Command{Type: CommandMessage, Message: *m.Message})
	return s.keepMail(mark)
}

// mailFile is where the mark of the last message is kept.
const mailFile = "mailbox"

func (s *standalone) lastMail() string {
	if s.mail == "" {
		data, _ := os.ReadFile(filepath.Join(s.o.Dir, mailFile))
		s.mail = strings.TrimSpace(string(data))
	}
	return s.mail
}

func (s *standalone) keepMail(mark string) error {
	s.mail = mark
	return writeFile(s.o.Dir, mailFile, []byte(mark+"\n"))
}

func (s *standalone) ofThisRun() string { return "?run=" + url.QueryEscape(s.o.Start.RunID) }

// get asks the control plane. into is filled when the status is OK; that it has no such
// thing, or none that is newer than etag, is no error.
func (s *standalone) get(ctx context.Context, path, query, etag string, into any) (newTag string, status int, err error) {
	status, newTag, err = s.ask(ctx, path+query, etag, into)
	switch status {
	case http.StatusOK, http.StatusNotModified, http.StatusNotFound:
	default:
		if err == nil {
			err = fmt.Errorf("asking %s: HTTP status %d", path, status)
		}
	}
	return newTag, status, err
}

func (s *standalone) ask(ctx context.Context, path, etag string, into any) (status int, newTag string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.o.Plane.URL, "/")+path, nil)
	if err != nil {
		return 0, "", err
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	if s.o.Plane.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.o.Plane.Token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp.StatusCode, "", err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return 0, "", fmt.Errorf("what answers %s is not a control plane: %w", path, err)
	}
	return resp.StatusCode, resp.Header.Get("ETag"), nil
}
