package controlplane

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"
)

// A timetable says when runs of a schedule begin. One of its fields is set.
type timetable struct {
	// Every is the time between two starts, as "1h30m"; the first is at once.
	Every string `json:"every,omitempty"`
	// Cron is an expression of five fields, or a word such as @daily, in the local time.
	Cron string `json:"cron,omitempty"`
	// At is one moment: RFC 3339, or a local date and time, or a time of day.
	At string `json:"at,omitempty"`
}

const (
	minEvery = time.Minute
	maxEvery = 366 * 24 * time.Hour
	maxCron  = 200 // bytes
)

// first returns when the first run begins; the error says what is wrong with the table.
func (tt timetable) first(now time.Time) (time.Time, error) {
	given := 0
	for _, text := range []string{tt.Every, tt.Cron, tt.At} {
		if text != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return time.Time{}, fail(http.StatusBadRequest, "a schedule has one of every (as 1h), cron (as 30 2 * * *) and at (as 22:00)")
	case tt.At != "":
		return tt.moment(now)
	case tt.Every != "":
		_, err := tt.period()
		return now, err
	}
	next, err := tt.cron(now)
	if err == nil && next.IsZero() {
		err = fail(http.StatusUnprocessableEntity, "the cron expression %q never comes true", tt.Cron)
	}
	return next, err
}

// next returns the first time of the table behind now, where due is one of its times; zero when
// there is none.
func (tt timetable) next(due, now time.Time) (time.Time, error) {
	switch {
	case tt.Cron != "":
		return tt.cron(now)
	case tt.Every == "":
		return time.Time{}, nil
	}
	every, err := tt.period()
	if err != nil {
		return time.Time{}, err
	}
	if now.Before(due) {
		return due, nil
	}
	return due.Add((now.Sub(due)/every + 1) * every), nil
}

func (tt timetable) period() (time.Duration, error) {
	every, err := time.ParseDuration(tt.Every)
	switch {
	case err != nil:
		return 0, fail(http.StatusBadRequest, "every %q is no length of time; write it as 90m or 24h", tt.Every)
	case every < minEvery, every > maxEvery:
		return 0, fail(http.StatusUnprocessableEntity, "every %s is not within a minute and a year", tt.Every)
	}
	return every, nil
}

// moment returns the one time of a table.
func (tt timetable) moment(now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, tt.At)
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if err != nil {
			at, err = time.ParseInLocation(layout, tt.At, now.Location())
		}
	}
	if err != nil {
		clock, clockErr := time.Parse("15:04", tt.At)
		if clockErr != nil {
			return time.Time{}, fail(http.StatusBadRequest, "at %q is no time; write it as 22:00, 2026-12-24 22:00 or 2026-12-24T22:00:00Z", tt.At)
		}
		day := now
		if hour, minute, _ := now.Clock(); clock.Hour()*60+clock.Minute() <= hour*60+minute {
			day = now.AddDate(0, 0, 1)
		}
		return local(time.Date(day.Year(), day.Month(), day.Day(), clock.Hour(), clock.Minute(), 0, 0, time.UTC), now.Location()), nil
	}
	if at.Before(now) {
		return time.Time{}, fail(http.StatusUnprocessableEntity, "at %s is in the past", tt.At)
	}
	return at, nil
}

// cron returns the first time of an expression behind now. Where its hours are fixed, a time that
// the clocks skip in spring comes as much later as they skip, and one that they repeat in autumn
// comes once; where it is for every hour, the hours that pass count.
func (tt timetable) cron(now time.Time) (time.Time, error) {
	fields := strings.Fields(tt.Cron)
	word := len(fields) == 1 && strings.HasPrefix(fields[0], "@")
	if len(tt.Cron) > maxCron || len(fields) != 5 && !word {
		return time.Time{}, fail(http.StatusBadRequest, "cron %.200q has not five fields: minute, hour, day of month, month, day of week", tt.Cron)
	}
	expr, err := cronexpr.Parse(tt.Cron)
	if err != nil {
		return time.Time{}, fail(http.StatusBadRequest, "cron %q: %v", tt.Cron, err)
	}
	if tt.Cron == "@hourly" || !word && strings.HasPrefix(fields[1], "*") {
		return expr.Next(now), nil
	}
	for wall := expr.Next(wallClock(now)); !wall.IsZero(); wall = expr.Next(wall) {
		if at := local(wall, now.Location()); at.After(now) {
			return at, nil
		}
	}
	return time.Time{}, nil
}

// wallClock returns what clocks show at t as if they were those of UTC, which are never changed.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// local returns when the clocks of a place show what wall does, or have skipped it.
func local(wall time.Time, place *time.Location) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, place)
	if skipped := wall.Sub(wallClock(at)); skipped > 0 {
		at = at.Add(skipped)
	}
	return at
}

// missed counts the times of a table from due to now; it stops at a thousand.
func (tt timetable) missed(due, now time.Time) int {
	n := 0
	for !due.IsZero() && !due.After(now) && n < 1000 {
		n++
		next, err := tt.next(due, due)
		if err != nil {
			return n
		}
		due = next
	}
	return n
}

// String returns the table in words.
func (tt timetable) String() string {
	switch {
	case tt.Every != "":
		return "every " + tt.Every
	case tt.Cron != "":
		return "cron " + tt.Cron
	}
	return fmt.Sprintf("at %s", tt.At)
}
