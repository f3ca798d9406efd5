package controlplane

import (
	"context"
	"errors"
	"net/http"

	"gander.dev/gander/sandbox/outbound/ports"
)

// errCompatPorts refuses to open ports where everybody on this machine is taken for the person.
var errCompatPorts = fail(http.StatusForbidden, "gander serve --compat takes everybody on this machine for you, so that it opens no ports: start it without --compat, or name the ports in sandbox.ports of gander's config.json")

// ports answers which ports of a run's sandbox are open on this machine, and which listen: none
// where no sandbox runs.
func (p *Plane) ports(w http.ResponseWriter, r *http.Request) error {
	return p.orderPorts(w, r, ports.Order{})
}

// changePorts opens a port, or closes one.
func (p *Plane) changePorts(w http.ResponseWriter, r *http.Request) error {
	if p.o.Compat {
		return errCompatPorts
	}
	var o ports.Order
	if err := readBody(w, r, &o, false); err != nil {
		return err
	}
	if (o.Open == "") == (o.Close == 0) {
		return fail(http.StatusUnprocessableEntity, `say which port: {"open": "5173"}, {"open": "8080:5173"} or {"close": 5173}`)
	}
	if o.Open != "" {
		if err := ports.Check(o.Open); err != nil {
			return fail(http.StatusUnprocessableEntity, "%v", err)
		}
	}
	return p.orderPorts(w, r, o)
}

func (p *Plane) orderPorts(w http.ResponseWriter, r *http.Request, o ports.Order) error {
	run, err := p.find(r.Context(), target{RunID: r.PathValue("id")})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), steerTimeout)
	defer cancel()
	v, err := p.o.Fleet.Ports(ctx, run.RunID, o)
	if errors.Is(err, ErrNotRunning) && o == (ports.Order{}) {
		v, err = ports.View{Open: []ports.Link{}, Listening: []int{}}, nil
	}
	if err == nil {
		answer(w, http.StatusOK, v)
	}
	return err
}
