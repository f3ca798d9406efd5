package router

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sessions"
)

// The values of the option "ports".
const (
	PortsNamed     = "named"
	PortsListening = "listening"
)

// portsOption returns the config option.
func portsOption(current string) acp.ConfigOption {
	values := []acp.ConfigOptionValue{
		{Value: PortsNamed, Name: "Named ones", Description: "Ports that sandbox.ports names, and those that you open with /ports."},
		{Value: PortsListening, Name: "All that listen", Description: "Also each port at which a server inside begins to listen, if it is free on this machine."},
	}
	raw, _ := json.Marshal(values) // strings always marshal
	return acp.ConfigOption{
		ID: optionPorts, Name: "Ports", Type: "select", CurrentValue: quote(current), Options: raw,
		Description: "Which ports of servers in the sandbox are open on this machine, for all of its users.",
	}
}

// setPorts changes the option. What is open stays so.
func (s *session) setPorts(value string) {
	s.mu.Lock()
	s.portsOpen = value
	s.mu.Unlock()
	s.record("", sessions.ConfigChange{ConfigID: optionPorts, Value: quote(value)})
	s.publish()
}

// openPorts opens what the person has named, and begins to look for servers inside.
func (b *backend) openPorts() {
	b.s.mu.Lock()
	wanted := slices.Clone(b.s.ports)
	b.s.mu.Unlock()
	b.ports = ports.NewSet(b.sb, string(b.s.id), b.s.log)
	for _, spec := range wanted {
		b.openPort(spec)
	}
	b.ports.Watch(b.foundPort)
}

// openPort opens a port, and tells the person where it is, or why not.
func (b *backend) openPort(spec ports.Spec) {
	url, err := b.ports.Open(spec)
	if err != nil {
		b.s.notice("warning", fmt.Sprintf("Port %d of the sandbox is not open: %v.", spec.Port, err))
		return
	}
	b.s.notice("info", "Open: "+ports.Say(spec.Port, url)+".")
}

// foundPort tells the person of a server inside, or opens its port if that is chosen.
func (b *backend) foundPort(port int) {
	b.s.mu.Lock()
	all := b.s.portsOpen == PortsListening
	named := slices.ContainsFunc(b.s.ports, func(s ports.Spec) bool { return s.Port == port })
	b.s.mu.Unlock()
	switch {
	case named: // it is open
	case all:
		b.openPort(ports.Spec{Port: port, At: port})
	default:
		b.s.notice("info", fmt.Sprintf("Port %d listens inside. To open it on this machine: /ports open %d", port, port))
	}
}

// commandPorts shows, opens and closes ports of the sandbox.
func commandPorts(ctx context.Context, call commandCall) (string, error) {
	s := call.s
	s.mu.Lock()
	b := s.backend
	s.mu.Unlock()
	if !b.running() {
		b = nil
	}
	verb, text, _ := strings.Cut(call.args, " ")
	if verb == "" {
		return describePorts(ctx, b)
	}
	spec, err := ports.Parse(strings.TrimSpace(text))
	switch {
	case verb != "open" && verb != "close":
		return "", fmt.Errorf("%q is neither open nor close: write /ports, /ports open 5173 or /ports close 5173", verb)
	case err != nil:
		return "", err
	case verb == "open":
		return s.openPort(b, spec)
	}
	s.mu.Lock()
	n := len(s.ports)
	s.ports = slices.DeleteFunc(s.ports, func(o ports.Spec) bool { return o.Port == spec.Port })
	was := len(s.ports) < n
	s.mu.Unlock()
	if (b != nil && b.ports.Close(spec.Port)) || was {
		return fmt.Sprintf("Port %d is closed.", spec.Port), nil
	}
	return fmt.Sprintf("Port %d was not open.", spec.Port), nil
}

// openPort opens a port for as long as the session is open, also in a sandbox that takes the
// place of this one. There may be no backend yet.
func (s *session) openPort(b *backend, spec ports.Spec) (said string, err error) {
	said = fmt.Sprintf("Port %d will be open on this machine when the sandbox runs, which the next prompt starts.", spec.Port)
	if b != nil {
		url, err := b.ports.Open(spec)
		if err != nil {
			return "", err
		}
		said = "Open: " + ports.Say(spec.Port, url) + ", until the session or /ports close " + fmt.Sprint(spec.Port) + " closes it."
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.ports, spec) {
		s.ports = append(s.ports, spec)
	}
	return said, nil
}

// describePorts says what is open and what listens.
func describePorts(ctx context.Context, b *backend) (string, error) {
	if b == nil {
		return "The sandbox is not running yet; the next prompt starts it. /ports open 5173 names a port to open then.", nil
	}
	v, err := b.ports.View(ctx)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, o := range v.Open {
		note := ""
		if !o.Heard {
			note = "; nothing listens there now"
		}
		fmt.Fprintf(&out, "- open: %s%s\n", ports.Say(o.Port, o.URL), note)
	}
	for _, port := range v.Listening {
		fmt.Fprintf(&out, "- port %d listens inside; `/ports open %d` opens it on this machine\n", port, port)
	}
	if out.Len() == 0 {
		return "Nothing listens inside, and no port is open.", nil
	}
	return out.String(), nil
}
