// Package notify tells a person who is away that something waits for them, at an address of
// theirs: a webhook, or a topic of an ntfy server. It says names and states; words of an agent
// go along only where the person wants that, and none with content of a closed file.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"
)

// The formats of what is sent.
const (
	Webhook = "webhook" // a JSON object
	Ntfy    = "ntfy"    // a message of an ntfy server: the text, and headers
)

// A Note tells a person something.
type Note struct {
	// Kind is "run", "question" or "schedule", State what became of it, as "paused".
	Kind, State string
	// Agent and Project name who it is about; Project is the base name of its directory.
	Agent, Project string
	// Run, if it is of one, is its id.
	Run string
	// Words, the agent's or about it, go along only if Options.Words is set.
	Words string
	// Dir is the directory of which no closed content may be in Words. It is not sent.
	Dir string
	// Link leads to the page; without a token.
	Link string
}

// Options say where notes go. URL is required.
type Options struct {
	URL    string // http or https
	Format string // Webhook unless set
	// Token, if set, is sent as a bearer token.
	Token string
	// Words sends what agents say, too.
	Words bool
	// Look looks at the words before they are sent, which are left out after an error.
	Look func(ctx context.Context, dir, words string) error
	// Proxy says how the address is reached; nil is directly.
	Proxy func(*http.Request) (*url.URL, error)
	Log   *slog.Logger
}

// Bounds of what is sent. A receiver that is slow or dead delays only later notes.
const (
	queue    = 64
	tries    = 3
	timeout  = 10 * time.Second // for a try
	maxName  = 80               // characters
	maxWords = 500
	maxRead  = 16 << 10 // bytes of an answer

	window = 10 * time.Minute
	most   = 30 // notes within a window
)

// A Sender sends notes, one after the other. Make one with New.
type Sender struct {
	o     Options
	http  *http.Client
	pause time.Duration // before a second try; doubled before a third
	notes chan Note
	ctx   context.Context
	end   context.CancelFunc
	work  sync.WaitGroup

	mu   sync.Mutex // guards sent, when the last notes were taken
	sent []time.Time
}

// New starts a sender. End it with Close.
func New(o Options) (*Sender, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the address of notices must begin with http:// or https://")
	}
	s := &Sender{o: o, pause: 2 * time.Second, notes: make(chan Note, queue), http: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: o.Proxy, MaxResponseHeaderBytes: maxRead, DisableKeepAlives: true, ResponseHeaderTimeout: timeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // notes are for nobody else
	}}
	s.ctx, s.end = context.WithCancel(context.Background()) // Close ends it
	s.work.Go(s.run)
	return s, nil
}

// Close ends the sender; what was not sent is not sent any more.
func (s *Sender) Close() {
	s.end()
	s.work.Wait()
}

// Send takes a note and does not wait. Of too many some are dropped, which is logged.
func (s *Sender) Send(n Note) {
	s.mu.Lock()
	now := time.Now()
	for len(s.sent) > 0 && now.Sub(s.sent[0]) > window {
		s.sent = s.sent[1:]
	}
	full := len(s.sent) >= most
	if !full {
		s.sent = append(s.sent, now)
	}
	s.mu.Unlock()
	if !full {
		select {
		case s.notes <- n:
			return
		default:
		}
	}
	s.o.Log.Warn("a notice was not sent: there were too many", "kind", n.Kind, "state", n.State, "run", n.Run)
}

func (s *Sender) run() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case n := <-s.notes:
			if err := s.deliver(n); err != nil && s.ctx.Err() == nil {
				s.o.Log.Warn("a notice was not sent", "kind", n.Kind, "state", n.State, "run", n.Run, "err", err)
			}
		}
	}
}

// deliver tries a few times where another try may help.
func (s *Sender) deliver(n Note) error {
	n = s.fit(n)
	pause := s.pause
	for try := 1; ; try++ {
		again, err := s.post(n)
		if err == nil || !again || try == tries {
			return err
		}
		select {
		case <-s.ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// fit makes a note what may leave.
func (s *Sender) fit(n Note) Note {
	n.Agent, n.Project, n.State = printable(n.Agent, maxName), printable(n.Project, maxName), printable(n.State, maxName)
	if !s.o.Words {
		n.Words = ""
	}
	if n.Words != "" && s.o.Look != nil {
		if err := s.o.Look(s.ctx, n.Dir, n.Words); err != nil {
			s.o.Log.Warn("the words of a notice were left out", "kind", n.Kind, "run", n.Run, "err", err)
			n.Words = ""
		}
	}
	n.Words = printable(n.Words, maxWords)
	return n
}

// printable returns a text on one line, cut to so many characters.
func printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if runes := []rune(text); len(runes) > limit {
		text = string(runes[:limit-1]) + "…"
	}
	return strings.TrimSpace(text)
}

// title returns the names and the state of a note.
func (n Note) title() string {
	who := n.Agent
	if n.Project != "" {
		who += " in " + n.Project
	}
	return who + ": " + n.State
}

// post sends a note once; again says whether another try may help.
func (s *Sender) post(n Note) (again bool, err error) {
	body, header, err := s.encode(n)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the address of notices is none") // which may hold a secret
	}
	req.Header = header
	if s.o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.o.Token)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		if u, is := errors.AsType[*url.Error](err); is {
			err = u.Err // without the address
		}
		return true, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxRead)) // of no interest
	switch code := resp.StatusCode; {
	case code < 300:
		return false, nil
	case code < 400:
		return false, fmt.Errorf("the receiver sends elsewhere (%d), which is not followed: set the address that it names", code)
	default:
		return code >= 500 || code == http.StatusTooManyRequests, fmt.Errorf("the receiver answered %d", code)
	}
}

// encode returns a note as its receiver reads it.
func (s *Sender) encode(n Note) ([]byte, http.Header, error) {
	if s.o.Format == Ntfy {
		text := n.State
		if n.Words != "" {
			text += ": " + n.Words
		}
		h := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Title": {mime.QEncoding.Encode("utf-8", n.title())}}
		if n.Link != "" {
			h.Set("Click", n.Link)
		}
		return []byte(text), h, nil
	}
	body, err := json.Marshal(struct {
		Kind    string    `json:"kind"`
		State   string    `json:"state"`
		Title   string    `json:"title"`
		Agent   string    `json:"agent"`
		Project string    `json:"project,omitempty"`
		Run     string    `json:"runId,omitempty"`
		Words   string    `json:"words,omitempty"`
		Link    string    `json:"link,omitempty"`
		Time    time.Time `json:"time"`
	}{n.Kind, n.State, n.title(), n.Agent, n.Project, n.Run, n.Words, n.Link, time.Now().UTC()})
	return body, http.Header{"Content-Type": {"application/json"}}, err
}
