package harness

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
)

// sample is a report with a check in each state.
func sample() *Report {
	r := &Report{Protocol: "mcp", Command: []string{"server"}, About: map[string]string{"platform": "linux"}}
	for i, state := range []State{Pass, Fail, NotApplicable, ExpectedFail, UnexpectedPass} {
		c := Check{ID: fmt.Sprintf("area.check%d", i), Text: "it works", Word: "MUST", Requirements: []int{5, 6, 62}}
		r.Add(Result{Check: c, State: state, Problems: []string{"what <went> wrong"}, Reason: "known"})
	}
	return r
}

func TestReportCounts(t *testing.T) {
	r := sample()
	want := "5 checks: 1 passed, 1 failed, 1 not applicable, 1 failed as expected, 1 passed against expectation"
	if got := r.Summary(); got != want || r.Good() {
		t.Errorf("%q, good %v; want %q, not good", got, r.Good(), want)
	}
	r.Results = []Result{{State: Pass}, {State: NotApplicable}, {State: ExpectedFail}}
	if !r.Good() {
		t.Errorf("%q is not good", r.Summary())
	}
}

func TestReportFormats(t *testing.T) {
	r := sample()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Good     bool
		Platform string
		Checks   []row
	}
	if err := json.Unmarshal(text, &back); err != nil || back.Good || back.Platform != "linux" || len(back.Checks) != 5 || back.Checks[1].State != Fail || back.Checks[1].Word != "MUST" {
		t.Errorf("JSON: %v: %s", err, text)
	}
	var b strings.Builder
	if err := r.WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	var suite junitSuite
	if err := xml.Unmarshal([]byte(b.String()), &suite); err != nil || suite.Name != "gander conformance mcp" || suite.Tests != 5 || suite.Failures != 2 || suite.Skipped != 2 || suite.Cases[1].Failure.Text != "what <went> wrong" {
		t.Errorf("JUnit: %v: %s", err, b.String())
	}
	b.Reset()
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"area.check0", "R5 R6 R62", "n/a ", "    what <went> wrong", "    expected: known", r.Summary()} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table does not contain %q:\n%s", want, b.String())
		}
	}
}

func TestParseFrame(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                              "",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`: "",
		`{"jsonrpc":"2.0","method":"notifications/message"}`:                "",
		`starting up`:              "not a JSON object",
		`[]`:                       "not a JSON object",
		`{"id":1,"result":{}}`:     "without jsonrpc 2.0",
		`{"jsonrpc":"2.0","id":1}`: "exactly one",
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`: "exactly one",
		`{"jsonrpc":"2.0","result":{}}`:                                         "without an id",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}`:           "not an integer",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`:                           "without a message",
		`{"jsonrpc":"2.0","id":1,"error":"broken"}`:                             "not an object of code and message",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}":                    "not UTF-8",
	} {
		_, err := ParseFrame([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
