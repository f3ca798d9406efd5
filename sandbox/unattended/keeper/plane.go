package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Serving says where the control plane of a home listens: the content of serve.json.
type Serving struct {
	// URL is how it is reached from this machine, without a slash at the end.
	URL string `json:"url"`
	// PID is its process.
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"startedAt"`
}

// ErrNoPlane means that no control plane has been started in a home.
var ErrNoPlane = errors.New("no control plane runs in this home; start it with: gander serve")

func servingFile(home string) string { return filepath.Join(home, "loop", "serve.json") }

// Announce says where the control plane of a home listens now.
func Announce(home string, s Serving) error {
	if err := os.MkdirAll(filepath.Dir(servingFile(home)), 0o700); err != nil {
		return fmt.Errorf("saying where the control plane listens: %w", err)
	}
	if err := writeJSON(servingFile(home), s); err != nil {
		return fmt.Errorf("saying where the control plane listens: %w", err)
	}
	return nil
}

// Served is where the control plane of a home listens, or listened last; the error
// is ErrNoPlane when there was none.
func Served(home string) (Serving, error) {
	var s Serving
	if err := readJSON(servingFile(home), &s); err != nil {
		return s, fmt.Errorf("reading where the control plane listens: %w", err)
	}
	if s.URL == "" {
		return s, ErrNoPlane
	}
	return s, nil
}

const (
	planeTime = 10 * time.Second // for one request
	maxAnswer = 1 << 20          // bytes
)

// plane is the control plane as a run's keeper reaches it. The address is read anew
// for every request: a control plane may come back elsewhere.
type plane struct {
	home, run, token string
	http             *http.Client
}

func newPlane(home, run, token string) *plane {
	never := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the token goes nowhere else
	return &plane{home: home, run: run, token: token, http: &http.Client{Timeout: planeTime, CheckRedirect: never, Transport: &http.Transport{
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}}}
}

// reply is an answer of the control plane.
type reply struct {
	status      int
	contentType string
	etag        string
	body        []byte
}

// errLong means that an answer is longer than any that is expected.
var errLong = errors.New("the control plane's answer is too long")

// send makes a request about this run, with its token. An error means that no
// answer came.
func (p *plane) send(ctx context.Context, method, path string, header http.Header, body []byte) (reply, error) {
	at, err := Served(p.home)
	if err != nil {
		return reply{}, err
	}
	target := at.URL + path + "?" + url.Values{"run": {p.run}}.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return reply{}, fmt.Errorf("asking the control plane: %w", err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := p.http.Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("asking the control plane: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = errLong
	}
	if err != nil {
		return reply{}, fmt.Errorf("reading what the control plane says: %w", err)
	}
	return reply{resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("ETag"), raw}, nil
}

// promptBody is GET /api/prompt.
type promptBody struct {
	Content   string  `json:"content"`
	UpdatedAt *string `json:"updated_at"`
}

// decodePrompt reads one.
func decodePrompt(raw []byte) (string, error) {
	var body promptBody
	err := json.Unmarshal(raw, &body)
	return body.Content, err
}
