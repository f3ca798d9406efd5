package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ParseScript reads a script. Errors name the path of what is wrong
// ("rules[0].steps[2].tol: unknown field").
func ParseScript(data []byte) (*Script, error) {
	var s Script
	err := object("", data, fields{
		"rules":   list(func(p string, raw json.RawMessage) error { return appendParsed(&s.Rules, p, raw, parseRule) }),
		"default": func(p string, raw json.RawMessage) (err error) { s.Default, err = parseSteps(p, raw); return },
	})
	if err != nil {
		return nil, err
	}
	return &s, nil
}

func parseRule(path string, raw json.RawMessage) (Rule, error) {
	var r Rule
	var expr string
	err := object(path, raw, fields{
		"match":  value(&r.Match),
		"regexp": value(&expr),
		"steps":  func(p string, raw json.RawMessage) (err error) { r.Steps, err = parseSteps(p, raw); return },
	})
	if err != nil {
		return r, err
	}
	if (r.Match == "") == (expr == "") {
		return r, fmt.Errorf("%s: a rule has either match or regexp", path)
	}
	if expr != "" {
		if r.Regexp, err = regexp.Compile(expr); err != nil {
			return r, fmt.Errorf("%s: %w", join(path, "regexp"), err)
		}
	}
	return r, nil
}

func parseSteps(path string, raw json.RawMessage) ([]Step, error) {
	steps := []Step{}
	err := list(func(p string, raw json.RawMessage) error { return appendParsed(&steps, p, raw, parseStep) })(path, raw)
	return steps, err
}

func parseStep(path string, raw json.RawMessage) (Step, error) {
	var st Step
	var one Tool
	err := object(path, raw, fields{
		"text":      value(&st.Text),
		"tokens":    value(&st.Tokens),
		"reasoning": value(&st.Reasoning),
		"tool":      value(&one.Name),
		"args":      value(&one.Args),
		"raw":       value(&one.Raw),
		"tools":     list(func(p string, raw json.RawMessage) error { return appendParsed(&st.Tools, p, raw, parseTool) }),
		"delay":     duration(&st.Delay),
		"hang":      hang(&st.Hang),
		"drop":      value(&st.Drop),
		"error":     value(&st.Error),
		"after":     value(&st.After),
		"status":    value(&st.Status),
		"code":      value(&st.Code),
		"headers":   value(&st.Headers),
		"body":      value(&st.Body),
		"finish":    value(&st.Finish),
		"usage":     func(p string, raw json.RawMessage) (err error) { st.Usage, err = parseUsage(p, raw); return },
		"times":     value(&st.Times),
	})
	if err != nil {
		return st, err
	}
	if one.Name != "" {
		st.Tools = append([]Tool{one}, st.Tools...)
	}
	return st, st.check(path, one)
}

// check refuses fields that say nothing together.
func (st *Step) check(path string, one Tool) error {
	switch {
	case one.Name == "" && (one.Args != nil || one.Raw != nil):
		return fmt.Errorf("%s: args and raw need a tool", path)
	case st.Text != "" && st.Tokens > 0:
		return fmt.Errorf("%s: a step has either text or tokens", path)
	case st.Tokens < 0 || st.Times < 0 || st.After != nil && *st.After < 0:
		return fmt.Errorf("%s: tokens, times and after cannot be negative", path)
	case st.Status == 0 && (st.Body != nil || st.Headers != nil || st.Code != ""):
		return fmt.Errorf("%s: headers, body and code need a status", path)
	case st.Status != 0 && (st.Status < 200 || st.Status > 599):
		return fmt.Errorf("%s: status %d is not between 200 and 599", path, st.Status)
	}
	return nil
}

func parseTool(path string, raw json.RawMessage) (Tool, error) {
	var t Tool
	err := object(path, raw, fields{"tool": value(&t.Name), "args": value(&t.Args), "raw": value(&t.Raw)})
	if err == nil && t.Name == "" {
		err = fmt.Errorf("%s: the name of the tool is missing", path)
	}
	return t, err
}

func parseUsage(path string, raw json.RawMessage) (*Usage, error) {
	var u Usage
	err := object(path, raw, fields{
		"prompt_tokens":     value(&u.PromptTokens),
		"completion_tokens": value(&u.CompletionTokens),
		"total_tokens":      value(&u.TotalTokens),
	})
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return &u, err
}

func duration(to *time.Duration) parser {
	return func(path string, raw json.RawMessage) error {
		d, err := parseDuration(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		*to = d
		return nil
	}
}

func hang(to *Hang) parser {
	return func(path string, raw json.RawMessage) error {
		switch string(raw) {
		case `"forever"`:
			to.Forever = true
		case `"release"`:
			to.Release = true
		default:
			return duration(&to.For)(path, raw)
		}
		return nil
	}
}

// parseDuration takes milliseconds as a number or a Go duration as a string.
func parseDuration(raw json.RawMessage) (time.Duration, error) {
	var ms float64
	if json.Unmarshal(raw, &ms) == nil && ms >= 0 {
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%s is not a duration (milliseconds, or a string like \"1.5s\")", raw)
}

// The rest is a small strict decoder: every object has a table of its fields, so
// that an unknown one is reported with its path.

type parser func(path string, raw json.RawMessage) error

type fields map[string]parser

func object(path string, raw json.RawMessage, known fields) error {
	var got map[string]json.RawMessage
	if err := decode(raw, &got); err != nil {
		return at(path, err)
	}
	if got == nil {
		return at(path, errors.New("an object is expected, not null"))
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		parse, ok := known[name]
		if !ok {
			all := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
			return fmt.Errorf("%s: unknown field; known are %s", join(path, name), all)
		}
		if err := parse(join(path, name), got[name]); err != nil {
			return err
		}
	}
	return nil
}

func list(each parser) parser {
	return func(path string, raw json.RawMessage) error {
		var items []json.RawMessage
		if err := decode(raw, &items); err != nil {
			return at(path, err)
		}
		for i, item := range items {
			if err := each(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
		return nil
	}
}

func value[T any](to *T) parser {
	return func(path string, raw json.RawMessage) error { return at(path, decode(raw, to)) }
}

func appendParsed[T any](to *[]T, path string, raw json.RawMessage, parse func(string, json.RawMessage) (T, error)) error {
	v, err := parse(path, raw)
	if err == nil {
		*to = append(*to, v)
	}
	return err
}

// decode is json.Unmarshal with messages for people who write scripts.
func decode(raw []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(to); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s is not a %s", wrong.Value, wrong.Type)
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is something after the end")
	}
	return nil
}

func at(path string, err error) error {
	if err == nil || path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
