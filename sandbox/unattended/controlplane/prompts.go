package controlplane

import (
	"net/http"
	"strconv"
	"strings"
)

// getPrompt answers the prompt that holds. Its version is the ETag, so that asking often
// costs little, and a prompt that was never set ("0") is not one that cannot be had.
func (p *Plane) getPrompt(w http.ResponseWriter, r *http.Request) error {
	var key int64
	if c := callerOf(r); c.kind == sandbox || r.URL.Query().Get("run") != "" {
		run, err := p.chosen(r)
		if err != nil {
			return err
		}
		key = run.key
	}
	current, err := readPrompt(r.Context(), p.db.read, key)
	if err != nil {
		return err
	}
	version := strconv.FormatInt(current.id, 10)
	tag := `"` + version + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := map[string]any{"content": current.content, "updated_at": nil, "version": version, "own": current.own}
	if current.id != 0 {
		body["updated_at"] = oldTime(current.updated)
	}
	answer(w, http.StatusOK, body)
	return nil
}

func matches(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == tag {
			return true
		}
	}
	return false
}

func (p *Plane) putPrompt(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Content *string `json:"content"`
	}
	if err := readBody(w, r, &body, false); err != nil {
		return err
	}
	if body.Content == nil || strings.TrimSpace(*body.Content) == "" {
		return fail(http.StatusBadRequest, "content is required")
	}
	var run *Run
	if r.URL.Query().Get("run") != "" {
		var err error
		if run, err = p.chosen(r); err != nil {
			return err
		}
	}
	previous, err := p.setPrompt(r, run, *body.Content)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"previous": previous, "current": *body.Content})
	return nil
}

// setPrompt keeps a prompt, of one run or of all, and tells who is to know. previous is
// nil when there was none.
func (p *Plane) setPrompt(r *http.Request, run *Run, content string) (previous *string, err error) {
	var key int64
	var id string
	if run != nil {
		key, id = run.key, run.RunID
	}
	err = p.db.write(r.Context(), func(t *tx) error {
		before, err := readPrompt(t.ctx, t, key)
		if err != nil {
			return err
		}
		if before.id != 0 {
			previous = &before.content
		}
		now := p.now()
		version, err := insertPrompt(t, key, content, now)
		if err != nil {
			return err
		}
		t.then(func() {
			data := map[string]any{"content": content, "version": strconv.FormatInt(version, 10)}
			if id != "" {
				data["runId"] = id
			}
			p.hub.tell(id, "prompt", data, now)
		})
		return nil
	})
	if err == nil {
		p.o.Fleet.PromptChanged(id)
	}
	return previous, err
}

// promptHistory answers the versions of the prompt of a run, or of all runs, newest first.
func (p *Plane) promptHistory(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit", 50, 1, maxPage)
	if err != nil {
		return err
	}
	where, args := "p.run IS NULL", []any{limit}
	if r.URL.Query().Get("run") != "" {
		run, err := p.chosen(r)
		if err != nil {
			return err
		}
		where, args = "p.run = ?", []any{run.key, limit}
	}
	rows, err := p.db.read.QueryContext(r.Context(),
		"SELECT p.id, p.content, p.updated, r.id FROM prompts p LEFT JOIN runs r ON r.key = p.run WHERE "+where+" ORDER BY p.id DESC LIMIT ?", args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	type version struct {
		ID        int64   `json:"id"`
		Content   string  `json:"content"`
		UpdatedAt string  `json:"updated_at"`
		RunID     *string `json:"runId"`
	}
	history := []version{}
	for rows.Next() {
		var v version
		var updated int64
		if err := rows.Scan(&v.ID, &v.Content, &updated, &v.RunID); err != nil {
			return err
		}
		v.UpdatedAt = iso(updated)
		history = append(history, v)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"history": history})
	return nil
}
