package probe

import (
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// A race that ended before its rounds were done is not blocked.
func TestEndedEarly(t *testing.T) {
	r := &run{bait: &bait{}, secret: secretPrefix + "x"}
	race, other := Case{ID: Races + "/any"}, Case{ID: Files + "/any"}
	for _, tt := range []struct {
		c       Case
		said    string
		err     error
		untried bool
	}{
		{race, "not through: not in 5 reads, " + allRounds, nil, false},
		{race, "not through: not in 5 reads, and there was no time for more", nil, true},
		{race, "", errors.New("killed"), true},
		{race, "panic: no", nil, true},
		{other, "not through: EACCES", nil, false},
	} {
		got := r.judge(tt.c, Facts{Mark: "through-" + rand.Text()}, []byte(tt.said), tt.err)
		if got.through || got.untried != tt.untried {
			t.Errorf("%s, %q, %v: %+v", tt.c.ID, tt.said, tt.err, got)
		}
	}
}

// What says that it has done all rounds has done as many on both sides.
func TestAllRounds(t *testing.T) {
	const rounds = 300
	disturbed, reads := 0, 0
	_, err := contest(Facts{Mark: "through", Rounds: rounds}, func(int) { time.Sleep(time.Millisecond); disturbed++ }, func() ([]byte, error) { reads++; return nil, os.ErrPermission })
	if err == nil || !strings.Contains(err.Error(), allRounds) || disturbed < rounds || reads < rounds {
		t.Errorf("%d reads, %d rounds: %v", reads, disturbed, err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile(stopName, nil, 0o600); err != nil { // the host was quick
		t.Fatal(err)
	}
	if _, err := raceHost(Facts{Rounds: rounds}, []string{"name"}); err == nil || strings.Contains(err.Error(), allRounds) {
		t.Errorf("after 20 reads: %v", err)
	}
}
