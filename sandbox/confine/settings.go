package confine

import (
	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/policy"
)

// Settings tell what the person and a project want. They may change at any time.
type Settings interface {
	// Policy returns what the sandboxes of a project may do; of an empty one the person's.
	Policy(project string) (Policy, error)
	// Canaries returns what happens in a project when content of closed files leaves. A
	// policy that cannot be read is the strictest: no sandbox is made with it anyway.
	Canaries(project string) string
	// Rules returns what closes files in every sandbox, without the policy's writes.
	Rules() *sandbox.Rules
	// OpenGateway opens the gateway to an agent's endpoint with the rules in o.
	OpenGateway(agent string, o gateway.Options) (*gateway.Gateway, error)
}

// Terms give the policies that a [Place] is opened under, and open its ways out. [Ways]
// are those of the product.
type Terms interface {
	Policy(project string) (Policy, error)
	Canaries(project string) string
	Rules() *sandbox.Rules
	// OpenModel opens the way to the model under a policy.
	OpenModel(Way, policy.Policy) (Model, error)
	// OpenEgress opens the way to other hosts under a policy; nil means that there is none.
	OpenEgress(Way, policy.Policy) (Egress, error)
	// Spent says in words what a session's model calls have used.
	Spent(acp.SessionID) string
	// Cost returns what they have cost, where it is known.
	Cost(session acp.SessionID, project string) *acp.Cost
}
