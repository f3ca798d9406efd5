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
	mayWrite(path string) bool
	touched(paths []string) ([]bool, error)
	repositories() sandbox.Repositories
	protectNamed() (sandbox.Repositories, error)
	closeGit() (rules uint64)
	openGit(openGitParams) error
	gitChanged() bool
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

type mayWriteParams struct {
	Path string `json:"path"`
}

type mayWriteResult struct {
	May bool `json:"may"`
}

type touchedParams struct {
	Paths []string `json:"paths"`
}

type touchedResult struct {
	Touched []bool `json:"touched"`
}

// errTouchedTooMuch answers who asks about changes of more files than are noted.
var errTouchedTooMuch = errors.New("more files were changed inside than are noted")

// closeGitResult has the version of the rules by which openGit may open again.
type closeGitResult struct {
	Rules uint64 `json:"rules"`
}

type openGitParams struct {
	Rules uint64 `json:"rules"`
	// Stores are files below Rules.GitStore by the object stores that they are for, which
	// are relative to the project.
	Stores map[string]string `json:"stores,omitempty"`
}

type gitChangedResult struct {
	Changed bool `json:"changed"`
}

// errRulesChanged answers who has judged by other rules than those of now.
var errRulesChanged = errors.New("the rules for files have changed meanwhile")

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

func (c *client) mayWrite(p mayWriteParams) (mayWriteResult, error) {
	return withKeeper(c, func(k keeper) (mayWriteResult, error) { return mayWriteResult{k.mayWrite(p.Path)}, nil })
}

func (c *client) touched(p touchedParams) (touchedResult, error) {
	return withKeeper(c, func(k keeper) (r touchedResult, err error) {
		r.Touched, err = k.touched(p.Paths)
		return r, err
	})
}

func (c *client) protectNamed(struct{}) (sandbox.Repositories, error) {
	return withKeeper(c, func(k keeper) (sandbox.Repositories, error) { return k.protectNamed() })
}

func (c *client) repositories(struct{}) (sandbox.Repositories, error) {
	return withKeeper(c, func(k keeper) (sandbox.Repositories, error) { return k.repositories(), nil })
}

func (c *client) closeGit(struct{}) (closeGitResult, error) {
	return withKeeper(c, func(k keeper) (closeGitResult, error) { return closeGitResult{k.closeGit()}, nil })
}

func (c *client) openGit(p openGitParams) (struct{}, error) {
	return withKeeper(c, func(k keeper) (struct{}, error) { return struct{}{}, k.openGit(p) })
}

func (c *client) gitChanged(struct{}) (gitChangedResult, error) {
	return withKeeper(c, func(k keeper) (gitChangedResult, error) { return gitChangedResult{k.gitChanged()}, nil })
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

// MayWrite asks whether a file may be written, as sandbox.RuleKeeper says.
func (h *Host) MayWrite(ctx context.Context, path string) (bool, error) {
	var r mayWriteResult
	if err := h.ctl.call(ctx, "mayWrite", mayWriteParams{path}, &r); err != nil {
		return false, fmt.Errorf("asking whether a file may be written: %w", err)
	}
	return r.May, nil
}

// Touched asks which files something inside may have changed, as sandbox.Toucher says.
func (h *Host) Touched(ctx context.Context, paths []string) ([]bool, error) {
	var r touchedResult
	if err := h.ctl.call(ctx, "touched", touchedParams{paths}, &r); err != nil {
		return nil, fmt.Errorf("asking what was changed inside: %w", err)
	}
	if len(r.Touched) != len(paths) {
		return nil, fmt.Errorf("asking what was changed inside: %d answers to %d questions", len(r.Touched), len(paths))
	}
	return r.Touched, nil
}

// ProtectNamed protects what git's configuration names, as sandbox.RuleKeeper says.
func (h *Host) ProtectNamed(ctx context.Context) (found sandbox.Repositories, err error) {
	if err = h.ctl.call(ctx, "protectNamed", struct{}{}, &found); err != nil {
		err = fmt.Errorf("protecting what git's configuration names and links lead to: %w", err)
	}
	return found, err
}

// Repositories looks for git's repositories, as sandbox.RuleKeeper says.
func (h *Host) Repositories(ctx context.Context) (found sandbox.Repositories, err error) {
	if err = h.ctl.call(ctx, "repositories", struct{}{}, &found); err != nil {
		err = fmt.Errorf("looking for git repositories: %w", err)
	}
	return found, err
}

// CloseGit closes git's objects, as sandbox.RuleKeeper says.
func (h *Host) CloseGit(ctx context.Context) (rules uint64, err error) {
	var r closeGitResult
	if err := h.ctl.call(ctx, "closeGit", struct{}{}, &r); err != nil {
		return 0, fmt.Errorf("closing git's objects: %w", err)
	}
	return r.Rules, nil
}

// OpenGit opens git's objects again, as sandbox.RuleKeeper says.
func (h *Host) OpenGit(ctx context.Context, rules uint64, stores map[string]string) error {
	if err := h.ctl.call(ctx, "openGit", openGitParams{rules, stores}, nil); err != nil {
		return fmt.Errorf("opening git's objects: %w", err)
	}
	return nil
}

// GitChanged asks about git's objects, as sandbox.RuleKeeper says.
func (h *Host) GitChanged(ctx context.Context) (bool, error) {
	var r gitChangedResult
	if err := h.ctl.call(ctx, "gitChanged", struct{}{}, &r); err != nil {
		return false, fmt.Errorf("asking about git's objects: %w", err)
	}
	return r.Changed, nil
}
