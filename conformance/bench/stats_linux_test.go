package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// samples are the measurements of one side, in the unit of their row.
type samples []float64

func (s *samples) add(v float64) { *s = append(*s, v) }

// took adds the milliseconds since begun.
func (s *samples) took(begun time.Time) { s.add(milliseconds(time.Since(begun))) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s samples) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// minus pairs the measurements of the same rounds.
func (s samples) minus(other samples) samples {
	d := make(samples, len(s))
	for i := range s {
		d[i] = s[i] - other[i]
	}
	return d
}

// A unit prints a number of its kind.
type unit func(float64) string

func inMS(v float64) string { return fmt.Sprintf("%.1f ms", v) }
func inUS(v float64) string { return fmt.Sprintf("%.0f µs", v*1000) } // of milliseconds
func inMB(v float64) string { return fmt.Sprintf("%.1f MB", v/1e6) }  // of bytes
func perSecond(v float64) string {
	return fmt.Sprintf("%.1f k/s", v/1000)
}

// show is the median and the spread.
func (s samples) show(in unit) string {
	return fmt.Sprintf("%s (%s – %s)", in(s.median()), in(slices.Min(s)), in(slices.Max(s)))
}

// alternate measures the sides in turn, n times each; which one begins changes.
func alternate(n int, sides ...func()) {
	for i := range n {
		for j := range sides {
			sides[(i+j)%len(sides)]()
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		s    samples
		want float64
	}{{samples{3, 1, 2}, 2}, {samples{4, 1, 3, 2}, 2.5}, {samples{7}, 7}} {
		if got := tt.s.median(); got != tt.want {
			t.Errorf("median of %v = %v, want %v", tt.s, got, tt.want)
		}
	}
}

func TestAlternate(t *testing.T) {
	var order string
	alternate(3, func() { order += "a" }, func() { order += "b" })
	if order != "abbaab" {
		t.Errorf("order %q", order)
	}
}
