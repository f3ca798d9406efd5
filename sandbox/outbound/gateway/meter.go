package gateway

import (
	"fmt"
	"strings"
	"sync"
)

// A Price is what a model's tokens cost, for a million of them, in one currency
// for all prices.
type Price struct {
	Input, Output float64
	// CachedInput is the price of input that the endpoint had cached; 0 means Input.
	CachedInput float64
}

// A Budget limits what a session may use. Zero values do not limit.
type Budget struct {
	// MaxTokens counts input and output together.
	MaxTokens int64
	// MaxCost is in the currency of the prices; models without a price are refused.
	MaxCost float64
}

// Within is the budget that keeps this one and another.
func (b Budget) Within(o Budget) Budget {
	if b.MaxTokens <= 0 || o.MaxTokens > 0 && o.MaxTokens < b.MaxTokens {
		b.MaxTokens = o.MaxTokens
	}
	if b.MaxCost <= 0 || o.MaxCost > 0 && o.MaxCost < b.MaxCost {
		b.MaxCost = o.MaxCost
	}
	return b
}

func (b Budget) limited() bool { return b.MaxTokens > 0 || b.MaxCost > 0 }

// Spent is what the calls of a session have used so far.
type Spent struct {
	Calls int `json:"calls"`
	// Input includes Cached. Both and Output are tokens.
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	Cached int64 `json:"cached"`
	// Cost is what the calls of models with a price cost; Unpriced counts the others.
	Cost     float64 `json:"cost"`
	Unpriced int     `json:"unpriced"`
	// Estimated counts the calls of which the endpoint did not say what they used, or not
	// before the agent hung up: four bytes of input count as a token then, and so does each
	// event of a stream, or four bytes of another answer. A call that the agent gave up before
	// any of the answer came counts as 1000 tokens of output.
	Estimated int `json:"estimated"`
}

// String is the sum in words.
func (s Spent) String() string {
	if s.Calls == 0 {
		return "no calls"
	}
	text := fmt.Sprintf("%d calls, %d tokens in and %d out", s.Calls, s.Input, s.Output)
	if s.Unpriced < s.Calls {
		text += fmt.Sprintf(", cost %.4g", s.Cost)
	}
	if s.Unpriced > 0 && s.Unpriced < s.Calls {
		text += fmt.Sprintf(" without %d calls that have no price", s.Unpriced)
	}
	if s.Estimated > 0 {
		text += fmt.Sprintf("; %d calls are estimated", s.Estimated)
	}
	return text
}

// Tokens are all of them.
func (s Spent) Tokens() int64 { return s.Input + s.Output }

// budgetCalls is how many calls of a session with a budget run at a time: what
// they use is known when they end, so many at once could use much more than allowed.
const budgetCalls = 4

// A Meter adds up what a session uses. It outlives the gateways of a session, so
// that an agent that ends and starts again has used what it has used.
type Meter struct {
	slots chan struct{}

	// mu guards spent.
	mu    sync.Mutex
	spent Spent
}

// NewMeter returns a meter at zero. It is safe for concurrent use.
func NewMeter() *Meter { return ResumeMeter(Spent{}) }

// ResumeMeter returns a meter that goes on from what was spent before.
func ResumeMeter(s Spent) *Meter {
	return &Meter{slots: make(chan struct{}, budgetCalls), spent: s}
}

// Spent is the sum so far.
func (m *Meter) Spent() Spent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// add counts a call, which had a price or not, and returns the new sum.
func (m *Meter) add(u Usage, price Price, priced bool) Spent {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.spent
	s.Calls++
	s.Input += int64(u.Input)
	s.Output += int64(u.Output)
	s.Cached += int64(u.Cached)
	if u.Estimated {
		s.Estimated++
	}
	if priced {
		s.Cost += price.of(u)
	} else {
		s.Unpriced++
	}
	return *s
}

func (p Price) of(u Usage) float64 {
	cached := p.CachedInput
	if cached == 0 {
		cached = p.Input
	}
	const million = 1e6
	return (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*cached + float64(u.Output)*p.Output) / million
}

// exceeded says which limit of a budget has been reached; empty when none has.
func (b Budget) exceeded(s Spent) string {
	about := ""
	if s.Estimated > 0 {
		about = fmt.Sprintf(", of which %d calls are estimated", s.Estimated)
	}
	switch {
	case b.MaxTokens > 0 && s.Tokens() >= b.MaxTokens:
		return fmt.Sprintf("this session has used %d tokens%s, and its limit is %d (policy.model.maxTokens)", s.Tokens(), about, b.MaxTokens)
	case b.MaxCost > 0 && s.Cost >= b.MaxCost:
		return fmt.Sprintf("this session has cost %.4g%s, and its limit is %.4g (policy.model.maxCost)", s.Cost, about, b.MaxCost)
	}
	return ""
}

// MatchModel reports whether a model is one of those that a list names. A name
// that ends in "*" stands for all that begin so; an empty list names all.
func MatchModel(allowed []string, model string) bool {
	for _, pattern := range allowed {
		prefix, open := strings.CutSuffix(pattern, "*")
		if pattern == model || open && strings.HasPrefix(model, prefix) {
			return true
		}
	}
	return len(allowed) == 0
}

// price finds a model's price: under its name, else under the longest pattern
// that fits.
func (g *Gateway) price(model string) (Price, bool) {
	if p, ok := g.opts.Prices[model]; ok {
		return p, true
	}
	best, found := "", false
	for pattern := range g.opts.Prices {
		if MatchModel([]string{pattern}, model) && (!found || len(pattern) > len(best)) {
			best, found = pattern, true
		}
	}
	return g.opts.Prices[best], found
}
