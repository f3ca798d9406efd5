package confine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/rules/policy"
)

// Request says which place is to be opened. Terms, Driver, StateDir, Spec and Way are required.
type Request struct {
	Terms  Terms
	Driver sandbox.Driver
	// StateDir is gander's home.
	StateDir string
	// Spec describes the sandbox, besides what Open adds: rules, limits, the
	// policy's mounts and the doors of the ways out. Its Home may be empty where Make is set.
	Spec sandbox.Spec
	// Denied hears what the rules refuse, as of sandbox.Rules; may be nil.
	Denied func(sandbox.Denial)
	// Way is for both ways out. Its Leaks, where there are any, are looked for.
	Way Way
	// NoModel leaves out the way to the model, and Hosted the sandbox and all other ways: for
	// an agent that runs in gander itself. Driver is not needed then.
	NoModel, Hosted bool
	// Doors returns further doors, when the ways out are open; may be nil.
	Doors func() []sandbox.Door
	// Make makes the sandbox, and returns what it was made of; nil is Place.Create in Spec.Home.
	Make func(context.Context, *Place) (sandbox.Sandbox, sandbox.Spec, error)
	// Named looks at no more of git than what its configuration names, where the policy
	// leaves what git keeps at words: see Examined.SayGit.
	Named bool
	// Log gets what goes wrong while a place is closed; may be nil.
	Log *slog.Logger
}

// A Place is one sandbox under a policy, with its ways out. Its fields are constant.
type Place struct {
	Policy   Policy
	Model    Model  // nil with Request.NoModel
	Egress   Egress // nil when there is none
	Sandbox  sandbox.Sandbox
	Spec     sandbox.Spec // that Sandbox was made of
	Examined *Examined

	request Request
	doors   []sandbox.Door
	road    sandbox.Road
}

// A PolicyError says why the policy of a project cannot be kept.
type PolicyError struct{ error }

// Unwrap returns the reason.
func (e *PolicyError) Unwrap() error { return e.error }

// A MakeError says why a driver made no sandbox.
type MakeError struct {
	Driver string
	Reason error
}

func (e *MakeError) Error() string {
	return fmt.Sprintf("making the %s sandbox: %v", e.Driver, e.Reason)
}

// Unwrap returns the reason.
func (e *MakeError) Unwrap() error { return e.Reason }

// Open opens a place, in this order: it reads the policy, begins to look for canaries,
// opens the ways out, makes the sandbox and examines it. ctx bounds that only. After an
// error nothing is left of it.
func Open(ctx context.Context, r Request) (*Place, error) {
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	p := &Place{request: r}
	err := p.open(ctx)
	if err == nil {
		return p, nil
	}
	if failed := p.Close(); failed != nil {
		r.Log.Error("closing the sandbox", "err", failed)
	}
	return nil, err
}

func (p *Place) open(ctx context.Context) (err error) {
	r := p.request
	if p.Policy, err = r.Terms.Policy(r.Spec.WorkingDir); err != nil {
		return &PolicyError{err}
	}
	if err := p.openWays(); err != nil {
		return err
	}
	if r.Hosted {
		p.Examined = &Examined{}
		return nil
	}
	if r.Make == nil {
		r.Make = func(ctx context.Context, p *Place) (sandbox.Sandbox, sandbox.Spec, error) {
			return p.Create(ctx, r.Spec.Home)
		}
	}
	if p.Sandbox, p.Spec, err = r.Make(ctx, p); err != nil {
		return err
	}
	e := Examination{Driver: r.Driver, Spec: p.Spec, StateDir: r.StateDir, Git: p.Policy.Git}
	look := e.Examine
	if r.Named && e.Git == policy.GitWarn {
		look = e.Protect
	}
	p.Examined, err = look(ctx, p.Sandbox)
	return err
}

// openWays opens what leads out, and doors for it.
func (p *Place) openWays() (err error) {
	r := p.request
	if leaks := r.Way.Leaks; leaks != nil {
		leaks.Look()
	}
	if !r.NoModel {
		if p.Model, err = r.Terms.OpenModel(r.Way, p.Policy.Policy); err != nil {
			return err
		}
		p.doors = append(p.doors, sandbox.Door{Name: ModelDoor, Dial: p.Model.Dial})
	}
	if r.Hosted {
		return nil
	}
	if p.Egress, err = r.Terms.OpenEgress(r.Way, p.Policy.Policy); err != nil {
		return err
	}
	if Proxied(p.Egress) {
		p.doors = append(p.doors, sandbox.Door{Name: EgressDoor, Dial: p.dialEgress})
	}
	if road, ok := p.Egress.(sandbox.Road); ok {
		p.road = waitingRoad{road, r.Way.Leaks}
	}
	if r.Doors != nil {
		p.doors = append(p.doors, r.Doors()...)
	}
	return nil
}

// dialEgress lets nothing out before it is known what the closed files hold.
func (p *Place) dialEgress(ctx context.Context) (net.Conn, error) {
	if leaks := p.request.Way.Leaks; leaks != nil {
		if err := leaks.Wait(ctx); err != nil {
			return nil, err
		}
	}
	return p.Egress.Dial(ctx)
}

// waitingRoad is a road on which nothing leaves before it is known what the closed files hold.
type waitingRoad struct {
	sandbox.Road
	leaks *Leaks
}

func (w waitingRoad) DialHost(ctx context.Context, host string, port int) (net.Conn, error) {
	if w.leaks != nil {
		if err := w.leaks.Wait(ctx); err != nil {
			return nil, err
		}
	}
	return w.Road.DialHost(ctx, host, port)
}

// Fit returns what the sandbox is made of with a home, beside which is the place for
// git's object stores.
func (p *Place) Fit(home string) (sandbox.Spec, error) {
	r := p.request
	spec := r.Spec
	spec.Home, spec.HomeFiles = home, maps.Clone(p.Policy.HomeFiles)
	if spec.HomeFiles == nil {
		spec.HomeFiles = map[string][]byte{}
	}
	maps.Copy(spec.HomeFiles, p.Policy.Settings.Files)
	links := maps.Clone(p.Policy.HomeLinks)
	if links == nil {
		links = map[string]string{}
	}
	maps.Copy(links, spec.HomeLinks)
	spec.HomeLinks = links
	spec.Files = p.Policy.Files
	if !spec.ReadOnly { // a session that only reads leaves nothing for others
		spec.Caches = p.Policy.Caches
	}
	spec.Mounts = slices.Concat(spec.Mounts, p.Policy.mounts(spec.ReadOnly))
	spec.Doors = slices.Concat(p.doors, spec.Doors)
	spec.Road = p.road
	spec.Limits = p.Policy.Bounds()
	if rules := r.Terms.Rules(); rules != nil {
		own := *rules
		p.Policy.GiveRules(&own)
		own.Denied = r.Denied
		spec.Rules = &own
	}
	return spec, GiveGitStore(&spec, p.Policy.Git, GitStore(home))
}

// Create makes a sandbox that Fit fits, for Request.Make.
func (p *Place) Create(ctx context.Context, home string) (sandbox.Sandbox, sandbox.Spec, error) {
	spec, err := p.Fit(home)
	if err != nil {
		return nil, spec, err
	}
	d := p.request.Driver
	sb, err := d.Create(ctx, spec)
	if err != nil { // Close removes what git has had
		return nil, spec, &MakeError{d.Name(), err}
	}
	return sb, spec, nil
}

// Check is called before anything of an agent's runs, each time: it does for what has come
// to git from outside what the policy says, waits until it is known what the closed files
// hold, and returns what is new for the person to know. After an error nothing may run.
func (p *Place) Check(ctx context.Context) (said []string, err error) {
	said, err = p.Examined.Again(ctx)
	if leaks := p.request.Way.Leaks; err == nil && leaks != nil {
		err = leaks.Wait(ctx)
	}
	return said, err
}

// Close ends the sandbox, removes what git has had in it and closes the ways out. The
// sandbox goes first: what is in it cannot hold up the rest then. The error is the sandbox's.
func (p *Place) Close() (err error) {
	if p.Sandbox != nil {
		err = p.Sandbox.Close()
	}
	if rules := p.Spec.Rules; rules != nil && rules.GitStore != "" {
		if err := registry.RemoveDir(rules.GitStore); err != nil {
			p.request.Log.Warn("removing git's objects for the sandbox", "err", err)
		}
	}
	if p.Model != nil {
		_ = p.Model.Close()
	}
	if p.Egress != nil {
		_ = p.Egress.Close()
	}
	return err
}
