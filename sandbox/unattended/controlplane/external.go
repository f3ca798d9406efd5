package controlplane

import (
	"net/http"

	"gander.dev/gander/sandbox/telemetry"
)

// reported returns the external run of a request; what may be done to those only is refused
// for others.
func (p *Plane) reported(r *http.Request) (*Run, error) {
	run, err := p.find(r.Context(), target{RunID: r.PathValue("id")})
	if err == nil && run.Driver != External {
		err = fail(http.StatusConflict, "run %s was started here: stop it; what was recorded of it goes by the retention", run.RunID)
	}
	return run, err
}

// dismissRun counts an external run as ended, whatever its loop does: nobody here can end it.
func (p *Plane) dismissRun(w http.ResponseWriter, r *http.Request) error {
	run, err := p.reported(r)
	if err != nil {
		return err
	}
	defer p.steering.lock(run.RunID)()
	err = p.change(r.Context(), run.RunID, func(t *tx, r *Run) error {
		r.Desired = DesiredStopped
		if !r.live() {
			return nil
		}
		return p.endRun(t, r, telemetry.Stopped, "it was dismissed; its loop, which was started elsewhere, may go on")
	})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]string{"runId": run.RunID, "status": "dismissed"})
	return nil
}

// deleteRun removes an external run with everything that was recorded of it. Should its loop
// go on telling of it, it is another run.
func (p *Plane) deleteRun(w http.ResponseWriter, r *http.Request) error {
	run, err := p.reported(r)
	if err != nil {
		return err
	}
	defer p.steering.lock(run.RunID)()
	err = p.db.write(r.Context(), func(t *tx) error {
		_, err := t.exec("DELETE FROM runs WHERE key=?", run.key)
		t.then(func() { p.hub.tell(run.RunID, "run_deleted", map[string]string{"runId": run.RunID}, p.now()) })
		return err
	})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]string{"runId": run.RunID, "status": "deleted"})
	return nil
}
