package supervise

import (
	"context"
	"errors"
	"fmt"

	"gander.dev/gander/sandbox"
)

// keeper keeps Setup.Rules. Its methods are safe for concurrent use.
type keeper interface {
	closed() sandbox.ClosedFiles
	judge(paths []string) []bool
	closeGit() error
	ownRules(text string, there bool)
}

// errNoRules answers who asks about rules that nobody keeps.
var errNoRules = errors.New("no rules for files are kept in this sandbox")

type judgeParams struct {
	Paths []string `json:"paths"`
}

type judgeResult struct {
	Closed []bool `json:"closed"`
}

type ownRulesParams struct {
	Text  string `json:"text"`
	There bool   `json:"there"`
}

// withKeeper calls f with who keeps the rules.
func withKeeper[R any](c *client, f func(keeper) (R, error)) (r R, err error) {
	k := c.platform.keeper()
	if k == nil {
		return r, errNoRules
	}
	return f(k)
}

func (c *client) closed(struct{}) (sandbox.ClosedFiles, error) {
	return withKeeper(c, func(k keeper) (sandbox.ClosedFiles, error) { return k.closed(), nil })
}

func (c *client) judge(p judgeParams) (judgeResult, error) {
	return withKeeper(c, func(k keeper) (judgeResult, error) { return judgeResult{k.judge(p.Paths)}, nil })
}

func (c *client) closeGit(struct{}) (struct{}, error) {
	return withKeeper(c, func(k keeper) (struct{}, error) { return struct{}{}, k.closeGit() })
}

func (c *client) ownRules(p ownRulesParams) (struct{}, error) {
	return withKeeper(c, func(k keeper) (struct{}, error) {
		k.ownRules(p.Text, p.There)
		return struct{}{}, nil
	})
}

// Closed says what the rules close, as sandbox.RuleKeeper says.
func (h *Host) Closed(ctx context.Context) (files sandbox.ClosedFiles, err error) {
	if err = h.ctl.call(ctx, "closed", struct{}{}, &files); err != nil {
		err = fmt.Errorf("looking for closed files: %w", err)
	}
	return files, err
}

// Judge says which files the rules close, as sandbox.RuleKeeper says.
func (h *Host) Judge(ctx context.Context, paths []string) ([]bool, error) {
	var r judgeResult
	if err := h.ctl.call(ctx, "judge", judgeParams{paths}, &r); err != nil {
		return nil, fmt.Errorf("asking which files are closed: %w", err)
	}
	if len(r.Closed) != len(paths) {
		return nil, fmt.Errorf("asking which files are closed: %d answers to %d questions", len(r.Closed), len(paths))
	}
	return r.Closed, nil
}

// CloseGit closes git's objects, as sandbox.RuleKeeper says.
func (h *Host) CloseGit(ctx context.Context) error {
	if err := h.ctl.call(ctx, "closeGit", struct{}{}, nil); err != nil {
		return fmt.Errorf("closing git's objects: %w", err)
	}
	return nil
}
