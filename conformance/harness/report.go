package harness

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// State is how a check ended.
type State string

// The states. A run is good when there is neither [Fail] nor [UnexpectedPass].
const (
	Pass           State = "pass"
	Fail           State = "fail"
	NotApplicable  State = "n/a"
	ExpectedFail   State = "expected"   // it failed, and was expected to
	UnexpectedPass State = "unexpected" // it was expected to fail and did not
)

// A Check is one thing that was tried, as reports tell of it.
type Check struct {
	// ID never changes; the part before the dot is the area.
	ID string
	// Text says what passes, Word is the strongest RFC 2119 word behind it.
	Text, Word string
	// Requirements are numbers of what it shows.
	Requirements []int
}

// Area is the first part of the id.
func (c Check) Area() string {
	area, _, _ := strings.Cut(c.ID, ".")
	return area
}

// A Result is one check and how it ended.
type Result struct {
	Check
	State State
	// Problems are what went wrong, or, for what is not applicable, why.
	Problems []string
	// Reason is why a failure was expected.
	Reason string
	Took   time.Duration
}

// Bad says whether the result spoils the run.
func (r Result) Bad() bool { return r.State == Fail || r.State == UnexpectedPass }

// Expect applies a list of expected failures, by id, to a result.
func (r Result) Expect(failures map[string]string) Result {
	reason, ok := failures[r.ID]
	switch {
	case !ok:
	case r.State == Fail:
		r.State, r.Reason = ExpectedFail, reason
	case r.State == Pass:
		r.State, r.Reason = UnexpectedPass, reason
		r.Problems = append(r.Problems, "this was expected to fail: take it from the list of expected failures")
	}
	return r
}

// A Report is the outcome of a run.
type Report struct {
	// Protocol is what was spoken: mcp, acp.
	Protocol string
	Command  []string
	// About are further facts of the run; they are members of its JSON.
	About   map[string]string
	Results []Result
}

// Add appends a result.
func (r *Report) Add(res Result) { r.Results = append(r.Results, res) }

// Count is how many checks ended so.
func (r *Report) Count(s State) int {
	n := 0
	for _, res := range r.Results {
		if res.State == s {
			n++
		}
	}
	return n
}

// Good says whether every check passed, does not apply, or failed as expected.
func (r *Report) Good() bool { return r.Count(Fail)+r.Count(UnexpectedPass) == 0 }

// Summary is the run in a line.
func (r *Report) Summary() string {
	line := fmt.Sprintf("%d checks: %d passed, %d failed, %d not applicable", len(r.Results), r.Count(Pass), r.Count(Fail), r.Count(NotApplicable))
	if n := r.Count(ExpectedFail); n > 0 {
		line += fmt.Sprintf(", %d failed as expected", n)
	}
	if n := r.Count(UnexpectedPass); n > 0 {
		line += fmt.Sprintf(", %d passed against expectation", n)
	}
	return line
}

// WriteTable prints the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, res := range r.Results {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", res.State, res.ID, numbers(res.Requirements), res.Text)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, res := range r.Results {
		if res.State == Pass {
			continue
		}
		fmt.Fprintf(w, "\n%s %s\n", res.State, res.ID)
		if res.Reason != "" {
			fmt.Fprintf(w, "    expected: %s\n", res.Reason)
		}
		for _, p := range res.Problems {
			fmt.Fprintf(w, "    %s\n", p)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.Summary())
	return err
}

// numbers are requirements as people read them: R4 R7.
func numbers(all []int) string {
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = fmt.Sprintf("R%d", n)
	}
	return strings.Join(words, " ")
}

// row is a result as JSON has it.
type row struct {
	ID           string   `json:"id"`
	State        State    `json:"state"`
	Word         string   `json:"word"`
	Text         string   `json:"text"`
	Requirements []int    `json:"requirements"`
	Problems     []string `json:"problems,omitempty"`
	Reason       string   `json:"reason,omitempty"`
	Seconds      float64  `json:"seconds"`
}

// MarshalJSON implements json.Marshaler.
func (r *Report) MarshalJSON() ([]byte, error) {
	rows := make([]row, len(r.Results))
	for i, res := range r.Results {
		rows[i] = row{res.ID, res.State, res.Word, res.Text, res.Requirements, res.Problems, res.Reason, seconds(res.Took)}
	}
	all := map[string]any{"command": r.Command, "good": r.Good(), "summary": r.Summary(), "checks": rows}
	for name, fact := range r.About {
		all[name] = fact
	}
	return json.Marshal(all)
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// The parts of JUnit's format that readers agree on.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Time    float64    `xml:"time,attr"`
		Failure *junitText `xml:"failure,omitempty"`
		Skipped *junitText `xml:"skipped,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit prints the report in JUnit's XML. An expected failure is skipped there.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name: "gander conformance " + r.Protocol, Tests: len(r.Results), Failures: r.Count(Fail) + r.Count(UnexpectedPass),
		Skipped: r.Count(NotApplicable) + r.Count(ExpectedFail),
	}
	for _, res := range r.Results {
		c := junitCase{Class: r.Protocol + "." + res.Area(), Name: res.ID, Time: seconds(res.Took)}
		text := &junitText{Message: res.Text, Text: strings.Join(res.Problems, "\n")}
		switch {
		case res.Bad():
			c.Failure = text
		case res.State != Pass:
			text.Message = strings.TrimSpace(string(res.State) + " " + res.Reason)
			c.Skipped = text
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
