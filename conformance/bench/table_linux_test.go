package bench

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// A row is one pair and what became of its goal.
type row struct {
	what, ours, theirs, result, goal, verdict string
	n                                         int
}

type table []row

// A pair is what both sides of a row measured.
type pair struct {
	what         string
	ours, theirs samples
	in           unit
}

// ratio is what ours is of theirs in the middle one of the rounds: the sides of a round
// are measured one after the other, when the machine is as busy.
func (p pair) ratio() float64 {
	ratios := make(samples, len(p.ours))
	for i := range ratios {
		ratios[i] = p.ours[i] / p.theirs[i]
	}
	return ratios.median()
}

func (p pair) row() row {
	return row{what: p.what, ours: p.ours.show(p.in), theirs: p.theirs.show(p.in), n: len(p.ours)}
}

// atMost wants ours to be no more than factor times theirs.
func (t *table) atMost(factor float64, p pair) {
	r, ratio := p.row(), p.ours.median()/p.theirs.median()
	r.result, r.goal, r.verdict = times(ratio), fmt.Sprintf("≤ %g×", factor), verdict(ratio <= factor)
	*t = append(*t, r)
}

// atLeast wants ours to be no less than factor times theirs.
func (t *table) atLeast(factor float64, p pair) {
	r, ratio := p.row(), p.ours.median()/p.theirs.median()
	r.result, r.goal, r.verdict = times(ratio), fmt.Sprintf("≥ %g×", factor), verdict(ratio >= factor)
	*t = append(*t, r)
}

// within wants ours to be no more than theirs and limit.
func (t *table) within(limit float64, p pair) {
	r, more := p.row(), p.ours.median()-p.theirs.median()
	r.result, r.goal, r.verdict = fmt.Sprintf("%+.1f ms", more), fmt.Sprintf("≤ +%.3g ms", limit), verdict(more <= limit)
	*t = append(*t, r)
}

// tell shows a pair that has no goal.
func (t *table) tell(p pair) {
	r := p.row()
	r.result, r.goal = times(p.ours.median()/p.theirs.median()), "none"
	*t = append(*t, r)
}

// say shows what has no other side.
func (t *table) say(what string, ours samples, in unit) {
	*t = append(*t, row{what: what, ours: ours.show(in), goal: "none", n: len(ours)})
}

// absent is a row for what could not be measured here.
func (t *table) absent(what, why string) {
	*t = append(*t, row{what: what, goal: "none", verdict: why})
}

// times prints a ratio: two digits behind the point, or as many as show it.
func times(ratio float64) string {
	if ratio < 0.1 {
		return fmt.Sprintf("%.2g×", ratio)
	}
	return fmt.Sprintf("%.2f×", ratio)
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**MISSED**"
}

// print writes the table as Markdown: medians, with the smallest and the largest
// measurement behind.
func (t table) print(w io.Writer, machine string) error {
	var b strings.Builder
	b.WriteString("\n| what | gander | beside it | result | goal | | n |\n|---|---|---|---|---|---|---|\n")
	for _, r := range t {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %d |\n", r.what, r.ours, r.theirs, r.result, r.goal, r.verdict, r.n)
	}
	fmt.Fprintf(&b, "\n%s\n\n", machine)
	_, err := io.WriteString(w, b.String())
	return err
}

func TestVerdicts(t *testing.T) {
	var b table
	two, four := samples{2, 2, 2}, samples{4, 4, 4}
	b.atMost(2, pair{"", four, two, inMS})
	b.atMost(1.9, pair{"", four, two, inMS})
	b.atLeast(2, pair{"", four, two, inMS})
	b.atLeast(2.1, pair{"", four, two, inMS})
	b.within(2, pair{"", four, two, inMS})
	b.within(1.9, pair{"", four, two, inMS})
	for i, r := range b {
		if want := verdict(i%2 == 0); r.verdict != want {
			t.Errorf("%s, goal %s: %s, want %s", r.result, r.goal, r.verdict, want)
		}
	}
}

// A round in which the machine was busy counts as any other, for both sides were.
func TestRatio(t *testing.T) {
	p := pair{"", samples{2, 40, 2, 2, 9}, samples{1, 20, 1, 1, 1}, inMS}
	if got := p.ratio(); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
}
