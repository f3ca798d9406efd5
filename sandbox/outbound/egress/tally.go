package egress

import (
	"cmp"
	"fmt"
	"slices"
)

// A Tally is a decision, and how often it has been taken in the session so far.
type Tally struct {
	Decision
	Times int
}

// String is a sentence.
func (t Tally) String() string {
	what, again := "A connection", ""
	if t.Host != "" {
		what += " to " + t.Address()
	}
	if t.Times > 1 {
		again = fmt.Sprintf(" (%d times by now)", t.Times)
	}
	if t.Allowed {
		return fmt.Sprintf("%s was allowed by %s%s.", what, t.By, again)
	}
	return fmt.Sprintf("%s was refused: %s%s.", what, t.Reason, again)
}

const (
	maxDecisions = 1000 // different ones of a session that are told of, allowed and refused each
	oftener      = 10   // times as often as when it was told of a decision is told of again
)

// others stands for the decisions that are only counted.
func others(allowed bool) Decision {
	if allowed {
		return Decision{Allowed: true, By: fmt.Sprintf("rules or answers; it is none of the first %d different ones, which are told of", maxDecisions)}
	}
	return Decision{Reason: fmt.Sprintf("it is none of the first %d different ones, which are told of", maxDecisions)}
}

// tallied is how often a decision was taken, and how often when that was last told.
type tallied struct{ times, told int }

// count takes a decision down and reports whether it is to be told of: when it is new,
// and each time that it has been taken ten times as often. A program that is refused a
// million times fills nothing with that.
func (b *Book) count(d Decision) (Tally, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.tallies[d]
	if n == nil && b.different[d.Allowed] >= maxDecisions {
		d = others(d.Allowed)
		n = b.tallies[d]
	}
	if n == nil {
		n = &tallied{}
		b.tallies[d] = n
		b.different[d.Allowed]++
	}
	n.times++
	if n.times < oftener*n.told {
		return Tally{}, false
	}
	n.told = n.times
	return Tally{d, n.times}, true
}

// untold are the decisions that were taken oftener than has been told.
func (b *Book) untold() (all []Tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, n := range b.tallies {
		if n.times > n.told {
			n.told = n.times
			all = append(all, Tally{d, n.times})
		}
	}
	slices.SortFunc(all, func(x, y Tally) int { return cmp.Compare(x.String(), y.String()) })
	return all
}
