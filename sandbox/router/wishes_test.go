package router

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"gander.dev/gander/acp"
)

// request sends the router a request of which the client has no call, and decodes the answer.
func (r *rig) request(t *testing.T, method string, params, answer any) error {
	t.Helper()
	raw, err := r.editor.Conn.Request(t.Context(), method, params)
	if err == nil && answer != nil {
		err = json.Unmarshal(raw, answer)
	}
	return err
}

func (r *rig) listed(t *testing.T, archived string) (ids []acp.SessionID) {
	t.Helper()
	resp, err := r.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{Archived: archived})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range resp.Sessions {
		ids = append(ids, s.SessionID)
	}
	slices.Sort(ids)
	return ids
}

func TestArchive(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.onTurn = untilCancelled })
	one, two := r.open(t).SessionID, r.open(t).SessionID
	both := []acp.SessionID{one, two}
	slices.Sort(both)
	running := r.prompt(t, one, "x")
	r.journal.wait(t, "prompt x in mode auto", 1)
	status := func(id acp.SessionID) string {
		var resp acp.SessionStatusResponse
		if err := r.request(t, acp.MethodSessionStatus, map[string]any{"sessionId": id}, &resp); err != nil {
			t.Fatal(err)
		}
		return resp.Status
	}
	if got := status(one); got != acp.SessionOpen {
		t.Errorf("a session at work is %q", got)
	}
	for range 2 { // again is no error
		if err := r.request(t, acp.MethodArchiveSession, map[string]any{"sessionId": one}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-running; got.stop != acp.StopCancelled {
		t.Errorf("the turn of an archived session ended with %+v", got)
	}
	if got := status(one); got != acp.SessionSaved {
		t.Errorf("an archived session is %q", got)
	}
	for filter, want := range map[string][]acp.SessionID{"": {two}, "exclude": {two}, "only": {one}, "include": both} {
		if got := r.listed(t, filter); !slices.Equal(got, want) {
			t.Errorf("archived=%q lists %q, want %q", filter, got, want)
		}
	}
	if _, err := r.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{Archived: "maybe"}); errorCode(err) != acp.CodeInvalidParams {
		t.Errorf("an unknown filter: %v", err)
	}
	if err := r.request(t, acp.MethodUnarchiveSession, map[string]any{"sessionId": one}, nil); err != nil {
		t.Fatal(err)
	}
	if got := r.listed(t, ""); !slices.Equal(got, both) {
		t.Errorf("taken out of the archive, the list is %q", got)
	}
	for _, method := range []string{acp.MethodArchiveSession, acp.MethodUnarchiveSession, acp.MethodSessionStatus} {
		if err := r.request(t, method, map[string]any{"sessionId": "nobody"}, nil); errorCode(err) != acp.CodeResourceNotFound {
			t.Errorf("%s of an unknown session: %v", method, err)
		}
	}
}

func TestSystemPrompt(t *testing.T) {
	r := newRig(t, nil)
	wish := func(mode string, content ...any) acp.Wishes {
		blocks := make([]acp.ContentBlock, len(content))
		for i, c := range content {
			blocks[i] = marshal(c)
		}
		return acp.Wishes{SystemPrompt: &acp.SystemPrompt{Mode: mode, Content: blocks}}
	}
	text := map[string]string{"type": "text", "text": "be brief"}
	dir := t.TempDir()
	resp, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: dir, Wishes: wish("append", text, text)})
	if err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, resp.SessionID, "x", acp.StopEndTurn)
	if got := r.agent.conv().params.SystemPrompt; got != "be brief\n\nbe brief" {
		t.Errorf("the agent has %q", got)
	}
	if _, err := r.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: resp.SessionID, CWD: dir, Wishes: wish("append", text)}); err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, resp.SessionID, "x", acp.StopEndTurn)
	if got := r.agent.conv().params.SystemPrompt; got != "be brief" {
		t.Errorf("loaded, the agent has %q", got)
	}
	before := len(r.listed(t, ""))
	for _, w := range []acp.Wishes{wish("override", text), wish("append"), wish("append", map[string]string{"type": "image", "data": "", "mimeType": "image/png"})} {
		if _, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: dir, Wishes: w}); errorCode(err) != acp.CodeInvalidParams {
			t.Errorf("%s: %v", marshal(w), err)
		}
	}
	if n := len(r.listed(t, "")); n != before {
		t.Errorf("%d sessions were made by refused requests", n-before)
	}
}

// A session begins with the values that its client gives, and options are told without one.
func TestOptionsBeforeASession(t *testing.T) {
	r := newRig(t, nil)
	dir := t.TempDir()
	var told acp.SessionOptionsResponse
	if err := r.request(t, acp.MethodSessionOptions, map[string]any{"cwd": dir}, &told); err != nil {
		t.Fatal(err)
	}
	if n := len(r.listed(t, "")); n != 0 || r.journal.count("create") != 0 {
		t.Errorf("asking for options made %d sessions and %d sandboxes", n, r.journal.count("create"))
	}
	resp := r.editor.NewSession(t, dir)
	if got, want := string(marshal(told.ConfigOptions)), string(marshal(resp.ConfigOptions)); got != want {
		t.Errorf("told are\n%s\na session has\n%s", got, want)
	}
	begin := func(options ...acp.InitialOption) (*acp.NewSessionResponse, error) {
		return r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: dir, Wishes: acp.Wishes{ConfigOptions: options}})
	}
	chosen, err := begin(acp.InitialOption{ConfigID: optionModel, Value: quote("large")}, acp.InitialOption{ConfigID: optionPermissions, Value: quote(PermissionsReads)})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{optionModel: "large", optionPermissions: PermissionsReads} {
		if o := optionByID(chosen.ConfigOptions, id); o == nil || currentValue(o) != want {
			t.Errorf("%s is %s, want %q", id, marshal(o), want)
		}
	}
	r.wantStop(t, chosen.SessionID, "x", acp.StopEndTurn)
	if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: chosen.SessionID}); err != nil {
		t.Fatal(err)
	}
	if err := r.request(t, acp.MethodSessionOptions, map[string]any{"cwd": dir, "sessionId": chosen.SessionID}, &told); err != nil {
		t.Fatal(err)
	}
	if o := optionByID(told.ConfigOptions, optionModel); currentValue(o) != "large" {
		t.Errorf("of the stored session %s is told", marshal(o))
	}
	before := len(r.listed(t, ""))
	for _, o := range []acp.InitialOption{{ConfigID: "none", Value: quote("x")}, {ConfigID: optionModel, Value: quote("none")}, {ConfigID: optionModel, Value: json.RawMessage("true")}} {
		if _, err := begin(o); errorCode(err) != acp.CodeInvalidParams {
			t.Errorf("%s: %v", marshal(o), err)
		}
	}
	if n := len(r.listed(t, "")); n != before {
		t.Errorf("%d sessions were made by refused requests", n-before)
	}
}

func TestAuthStatus(t *testing.T) {
	mendable, other := errors.New("no key"), errors.New("no program")
	for check, want := range map[error]string{nil: acp.AuthStateAuthenticated, mendable: acp.AuthStateUnauthenticated, other: acp.AuthStateUnknown} {
		r := newRig(t, func(r *rig) {
			r.agent.check = check
			r.opts.Setup.Mends = func(err error) bool { return errors.Is(err, mendable) }
		})
		var resp acp.AuthStatusResponse
		if err := r.request(t, acp.MethodAuthStatus, struct{}{}, &resp); err != nil || resp.State != want {
			t.Errorf("%v: %+v, %v; want %q", check, resp, err, want)
		}
	}
}
