package ports

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]Spec{
		"5173": {5173, 5173}, "8080:5173": {5173, 8080}, "": {}, "0": {}, "65536": {}, "x": {}, "1:": {}, ":1": {}, "1:2:3": {}, "-1": {}, "+1": {}, "0.0.0.0:1": {},
	} {
		if got, err := Parse(text); got != want || (err == nil) != (want != Spec{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestURL(t *testing.T) {
	if got := (Spec{1, 8080}).URL("Exec_1.a"); got != "http://exec-1-a.localhost:8080" {
		t.Error(got)
	}
}
