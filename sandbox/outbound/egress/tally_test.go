package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ledger keeps what is told of decisions.
type ledger struct {
	mu  sync.Mutex
	all []Tally
}

func (l *ledger) note(t Tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, t)
}

// take returns what was told since the last take.
func (l *ledger) take() []Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// Every decision is told of, with what decided: a new one at once, the same ones with
// their number, when that has become ten times as large and in the end, also through
// another door of the session.
func TestDecisionsAreTold(t *testing.T) {
	s := hello(t)
	w := &world{names: map[string][]netip.Addr{"a.example": {public}}, servers: map[netip.AddrPort]string{netip.AddrPortFrom(public, 80): addressOf(s)}}
	var told ledger
	o := Options{Rules: rules(t, "*.example"), Book: NewBook(nil), Observe: told.note}
	first := opened(t, w, o)
	visit := func(d *Door, times int, address string) {
		c := through(t, d, nil)
		for range times {
			if _, _, err := get(t, c, address); err != nil {
				t.Fatal(err)
			}
		}
	}
	visit(first, 25, "http://a.example/")
	visit(first, 3, "http://b.invalid:81/")
	allowed := Decision{Host: "a.example", Port: 80, Allowed: true, By: "*.example"}
	refused := Decision{Host: "b.invalid", Port: 81, Reason: "no rule of policy.network allows it"}
	if got, want := told.take(), []Tally{{allowed, 1}, {allowed, 10}, {refused, 1}}; !slices.Equal(got, want) {
		t.Errorf("told\n%+v, want\n%+v", got, want)
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := told.take(), []Tally{{allowed, 25}, {refused, 3}}; !slices.Equal(got, want) {
		t.Errorf("in the end\n%+v, want\n%+v", got, want)
	}
	visit(opened(t, w, o), 1, "http://a.example/")
	if got := told.take(); len(got) != 0 {
		t.Errorf("through another door: %+v", got)
	}
	for tally, want := range map[Tally]string{
		{allowed, 25}:        "A connection to a.example:80 was allowed by *.example (25 times by now).",
		{refused, 1}:         "A connection to b.invalid:81 was refused: no rule of policy.network allows it.",
		{others(false), 200}: "A connection was refused: it is none of the first 1000 different ones, which are told of (200 times by now).",
	} {
		if tally.String() != want {
			t.Errorf("%+v says %q", tally, tally)
		}
	}
}

// However many decisions a program provokes, what is told stays small, says that there
// were more, and refusals do not take the room of what is allowed.
func TestDecisionsAreBounded(t *testing.T) {
	b := NewBook(nil)
	var told []Tally
	for i := range 50 * maxDecisions {
		if tally, ok := b.count(Decision{Host: fmt.Sprintf("h%d.example", i), Port: 1, Reason: "x"}); ok {
			told = append(told, tally)
		}
	}
	if n := len(told); n <= maxDecisions || n > maxDecisions+10 {
		t.Errorf("told of %d decisions", n)
	}
	if last := told[len(told)-1]; last.Decision != others(false) || last.Times != 10_000 {
		t.Errorf("the last one told of is %+v", last)
	}
	rest := b.untold()
	if len(rest) != 1 || rest[0] != (Tally{others(false), 49 * maxDecisions}) || !strings.Contains(rest[0].String(), "none of the first 1000") {
		t.Errorf("in the end: %+v", rest)
	}
	if tally, ok := b.count(Decision{Host: "a.example", Port: 1, Allowed: true, By: "y"}); !ok || tally.Host != "a.example" {
		t.Errorf("what is allowed then: %+v", tally)
	}
}
