package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
)

// A statusError is an error with the HTTP status it is answered with.
type statusError struct {
	status int
	text   string
	more   map[string]any // further members of the answer
}

func (e *statusError) Error() string { return e.text }

// fail makes an error that is answered with a status.
func fail(status int, format string, args ...any) error {
	return &statusError{status: status, text: fmt.Sprintf(format, args...)}
}

// answerError writes an error as JSON. What nobody foresaw is logged and said in general
// words only: it may hold paths and values of this machine.
func (p *Plane) answerError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil && statusOf(err) == nil {
		return // nobody is there to read it
	}
	se := statusOf(err)
	if se == nil {
		p.log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		se = &statusError{status: http.StatusInternalServerError, text: "something went wrong inside; the log of gander serve says what"}
	}
	body := map[string]any{"error": se.text}
	maps.Copy(body, se.more)
	answer(w, se.status, body)
}

// statusOf returns an error with its status; nil for one that nobody foresaw.
func statusOf(err error) *statusError {
	var se *statusError
	var gap *gapError
	switch {
	case errors.As(err, &se):
		return se
	case errors.As(err, &gap):
		return &statusError{status: http.StatusConflict, text: gap.Error(), more: map[string]any{"lastSeq": gap.lastSeq}}
	case errors.Is(err, ErrBadRequest):
		return &statusError{status: http.StatusBadRequest, text: err.Error()}
	case errors.Is(err, ErrNotRunning):
		return &statusError{status: http.StatusConflict, text: err.Error()}
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &statusError{status: http.StatusServiceUnavailable, text: err.Error()}
	}
	return nil
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil { // a value of ours that cannot be: a programmer's error
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer could not be encoded"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that has gone needs no answer
}

// readBody reads a JSON object into v; without a body v stays as it is when it may.
func readBody(w http.ResponseWriter, r *http.Request, v any, mayBeEmpty bool) error {
	if t := r.Header.Get("Content-Type"); t != "" {
		if kind, _, err := mime.ParseMediaType(t); err != nil || kind != "application/json" {
			return fail(http.StatusUnsupportedMediaType, "the body is %q and must be application/json", t)
		}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return fail(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes: send less at a time", maxBody)
	}
	if err != nil {
		return fail(http.StatusBadRequest, "the body ends early: %v", err)
	}
	if len(data) == 0 && mayBeEmpty {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fail(http.StatusBadRequest, "the body is not the JSON object that is expected: %v", err)
	}
	return nil
}

// number reads a whole number from the query; without it, it is def. Above max it is max.
func number(r *http.Request, name string, def, least, most int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return 0, fail(http.StatusBadRequest, "%s=%q must be a whole number, at least %d", name, text, least)
	}
	return min(n, most), nil
}

// page reads limit and offset.
func page(r *http.Request, def int64) (limit, offset int64, err error) {
	if limit, err = number(r, "limit", def, 1, maxPage); err != nil {
		return 0, 0, err
	}
	offset, err = number(r, "offset", 0, 0, 1<<40)
	return limit, offset, err
}
