package gateway

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// longWait bounds the wait that an endpoint may ask of an agent. When it asks for more, or says that a quota is used up, agents would be silent for as long, or
// try again in vain; they get an error at which they stop.
const longWait = time.Minute

// limit holds an endpoint's words with 429 or 503 about when it answers again.
type limit struct {
	wait  time.Duration // zero: it did not say
	until time.Time
	reset string // the headers about it, as they are
	final bool   // agents are not to try again
}

// limitOf reads an answer's headers and the beginning of its body.
func limitOf(res *http.Response, said []byte, now time.Time) limit {
	var l limit
	switch after := strings.TrimSpace(res.Header.Get("Retry-After")); {
	case after == "":
	default:
		if s, err := strconv.ParseFloat(after, 64); err == nil && s >= 0 && s < 1e9 {
			l.wait = time.Duration(s * float64(time.Second))
		} else if at, err := http.ParseTime(after); err == nil {
			l.wait = max(0, at.Sub(now))
		}
	}
	if ms, err := strconv.ParseFloat(res.Header.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < 1e12 {
		l.wait = time.Duration(ms * float64(time.Millisecond))
	}
	l.until = now.Add(l.wait)
	var resets []string
	for _, name := range []string{"X-Ratelimit-Reset", "X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens", "Ratelimit-Reset"} {
		if value := res.Header.Get(name); value != "" {
			resets = append(resets, strings.ToLower(name)+": "+short(value))
		}
	}
	l.reset = strings.Join(resets, ", ")
	l.final = l.wait > longWait || res.StatusCode == http.StatusTooManyRequests && usedUp.Match(said)
	return l
}

// usedUp finds the words of endpoints for a quota that is used up: waiting a moment does not help.
var usedUp = regexp.MustCompile(`(?i)insufficient_quota|exceeded your current quota|billing|out of credits|daily (quota|limit)|quota exceeded`)

// words say when the endpoint answers again, and what the agent does.
func (l limit) words(retries bool) string {
	var parts []string
	if l.wait > 0 {
		parts = append(parts, fmt.Sprintf("it asks to wait %v, until %s", l.wait.Round(time.Second), l.until.Local().Format("15:04:05")))
	}
	if l.reset != "" {
		parts = append(parts, "it says "+l.reset)
	}
	text := strings.Join(parts, ", ")
	if text != "" {
		text = "; " + text
	}
	switch {
	case l.final:
		return text + "; the agent does not try again: send the prompt again then, or choose another model"
	case !retries:
		return text
	case l.wait > 0:
		return text + "; the agent waits" + WillRetry
	}
	return text + WillRetry
}

// A limited stands for an answer about a limit that the agent is not to wait for.
type limited struct{ status int }

func (l *limited) Error() string { return "the endpoint has limited " + strconv.Itoa(l.status) }

// limitedText is for the agent. The person is told more; opencode would take the number of
// the status, or words for a limit, for a reason to try again.
const limitedText = "the model takes no calls for longer than an agent waits; the person has been told why and until when"

// peekLimit reads what an endpoint says with a refusal for now, and gives the body back.
func (c *call) peekLimit(res *http.Response, b *observedBody) error {
	data := make([]byte, tailSize)
	n, err := io.ReadFull(b, data)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil // who reads on gets it, too
	}
	b.bytes, b.tail, b.err = 0, nil, nil
	c.limit = limitOf(res, data[:n], time.Now())
	if c.limit.final {
		b.tail = data[:n]
		return &limited{res.StatusCode}
	}
	b.r = io.MultiReader(strings.NewReader(string(data[:n])), b.r)
	return nil
}

// overflow finds the words of endpoints for a conversation that is too long.
var overflow = regexp.MustCompile(`(?i)context[_ ]length|context window|maximum context|too many tokens|prompt is too long|input is too long|exceeds? the (available )?context`)

// compacted adds the way out to an endpoint's words for a conversation that is too long.
func compacted(said string) string {
	if overflow.MatchString(said) {
		return said + "; the conversation is too long for the model: /compact has the agent go on with a summary"
	}
	return said
}
