package controlplane

import (
	"testing"
	"time"
	_ "time/tzdata" // a machine may have none
)

// TestTimetable checks when a schedule's runs begin, also where clocks are changed.
func TestTimetable(t *testing.T) {
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		table timetable
		now   string
		want  []string
	}{
		{"a time that is skipped comes an hour later", timetable{Cron: "30 2 * * *"}, "2026-03-07T12:00:00-05:00", []string{"2026-03-08T03:30:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"a time that is repeated comes once", timetable{Cron: "30 1 * * *"}, "2026-10-31T12:00:00-04:00", []string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"not again in the repeated hour", timetable{Cron: "30 1 * * *"}, "2026-11-01T01:10:00-05:00", []string{"2026-11-02T01:30:00-05:00"}},
		{"every hour that passes", timetable{Cron: "0 * * * *"}, "2026-11-01T00:30:00-04:00", []string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"}},
		{"skipped hours are none", timetable{Cron: "*/30 * * * *"}, "2026-03-08T01:10:00-05:00", []string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00"}},
		{"a word", timetable{Cron: "@daily"}, "2026-11-01T12:00:00-05:00", []string{"2026-11-02T00:00:00-05:00"}},
		{"working days", timetable{Cron: "0 9 * * mon-fri"}, "2026-11-06T12:00:00-05:00", []string{"2026-11-09T09:00:00-05:00"}},
		{"at once, and again", timetable{Every: "24h"}, "2026-10-31T12:00:00-04:00", []string{"2026-10-31T12:00:00-04:00", "2026-11-01T11:00:00-05:00"}},
		{"a time of day that is to come", timetable{At: "22:00"}, "2026-10-31T12:00:00-04:00", []string{"2026-10-31T22:00:00-04:00", ""}},
		{"a time of day that was", timetable{At: "09:00"}, "2026-10-31T12:00:00-04:00", []string{"2026-11-01T09:00:00-05:00"}},
		{"a time of day that is skipped", timetable{At: "02:30"}, "2026-03-07T12:00:00-05:00", []string{"2026-03-08T03:30:00-04:00"}},
		{"a date", timetable{At: "2026-12-24 22:00"}, "2026-10-31T12:00:00-04:00", []string{"2026-12-24T22:00:00-05:00"}},
		{"of another place", timetable{At: "2026-12-24T22:00:00Z"}, "2026-10-31T12:00:00-04:00", []string{"2026-12-24T17:00:00-05:00"}},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		at, err := c.table.first(now.In(york))
		for i, want := range c.want {
			if i > 0 {
				at, err = c.table.next(at, at)
			}
			got := at.In(york).Format(time.RFC3339)
			if at.IsZero() {
				got = ""
			}
			if err != nil || got != want {
				t.Fatalf("%s: time %d is %q, %v, want %q", c.what, i+1, got, err, want)
			}
		}
	}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, york)
	for _, bad := range []timetable{
		{},
		{Every: "1h", Cron: "@daily"},
		{Every: "1s"},
		{Every: "x"},
		{Every: "-1h"},
		{Every: "90000h"},
		{Cron: "* * * *"},
		{Cron: "61 * * * *"},
		{Cron: "* * * * * * *"},
		{Cron: "0 0 30 2 *"},
		{Cron: "@never"},
		{At: "tomorrow"},
		{At: "2026-10-31 12:00"},
		{At: "25:00"},
	} {
		if at, err := bad.first(now); err == nil {
			t.Errorf("%+v begins at %v", bad, at)
		}
	}
	if n := (timetable{Every: "1h"}).missed(now, now.Add(150*time.Minute)); n != 3 {
		t.Errorf("%d times were missed, want 3", n)
	}
	if n := (timetable{Every: "1m"}).missed(now, now.AddDate(1, 0, 0)); n != 1000 {
		t.Errorf("%d times were counted", n)
	}
}
