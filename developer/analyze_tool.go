package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"gander.dev/gander/developer/analyze"
	"gander.dev/gander/developer/files"
)

const analyzeDescription = "Analyze code structure in 3 modes: 1) Directory overview - file tree with LOC/function/class counts to max_depth. 2) File details - functions, classes, imports. 3) Symbol focus - call graphs across directory to max_depth (requires directory path, case-sensitive). Typical flow: directory → files → symbols. Functions called >3x show •N."

const analyzeSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "AnalyzeParams",
  "type": "object",
  "properties": {
    "path": {"description": "File or directory, best as an absolute path such as /repo/file.py or /repo.", "type": "string"},
    "focus": {"description": "Symbol whose definitions, callers and callees are wanted; best with a directory as path.", "type": ["string", "null"]},
    "follow_depth": {"description": "Call graph depth. 0=where defined, 1=direct callers/callees, 2+=transitive chains", "type": "integer", "format": "uint32", "minimum": 0, "default": 2},
    "max_depth": {"description": "Directory recursion limit. 0=unlimited", "type": "integer", "format": "uint32", "minimum": 0, "default": 3},
    "ast_recursion_limit": {"description": "Taken for compatibility; no depth of code is too deep.", "type": ["integer", "null"], "format": "uint", "minimum": 0},
    "force": {"description": "Allow large outputs without warning (default: false)", "type": "boolean", "default": false}
  },
  "required": ["path"]
}`

// analyzeTool is classic goose's analyze.
func analyzeTool(a *analyze.Analyzer, s *Spaces) Tool {
	return Tool{
		Name:        "analyze",
		Description: analyzeDescription + lacking(a),
		InputSchema: json.RawMessage(analyzeSchema),
		Call: func(ctx context.Context, call Call) (Result, error) {
			request, space, err := analyzeRequest(s, call)
			if err != nil {
				return Result{}, classicAnalyzeError(err)
			}
			text, large, err := a.Classic(ctx, space, request)
			if err != nil {
				return Result{}, classicAnalyzeError(err)
			}
			if large {
				return Result{Content: []Content{{Text: text}}}, nil
			}
			return Result{Content: []Content{
				{Text: text, Audience: []string{"assistant"}},
				{Text: text, Audience: []string{"user"}, Priority: new(float64)},
			}}, nil
		},
	}
}

// lacking tells the model which languages this build cannot parse.
func lacking(a *analyze.Analyzer) string {
	if missing := a.Missing(); len(missing) > 0 {
		return fmt.Sprintf(" This build parses Go only: it was made without cgo, which %v need.", missing)
	}
	return ""
}

// errAnalyzeArguments is wrapped by errors about the arguments themselves.
var errAnalyzeArguments = errors.New("failed to deserialize parameters")

// A missingPathError says that there is nothing at a path.
type missingPathError struct{ path string }

func (e *missingPathError) Error() string { return fmt.Sprintf("Path '%s' does not exist", e.path) }

// analyzeRequest reads the arguments, which are the same in both profiles, and
// looks at the path.
func analyzeRequest(s *Spaces, call Call) (r analyze.Request, space *files.Space, err error) {
	members, err := argumentMembers(call.Arguments)
	if err != nil {
		return r, nil, fmt.Errorf("%w: %w", errAnalyzeArguments, err)
	}
	var path, focus *string
	var follow, depth *uint32
	var force *bool
	err = errors.Join(argument(members, "path", &path), argument(members, "focus", &focus),
		argument(members, "follow_depth", &follow), argument(members, "max_depth", &depth), argument(members, "force", &force))
	if err == nil && path == nil {
		err = errors.New("missing field `path`")
	}
	if err != nil {
		return r, nil, fmt.Errorf("%w: %w", errAnalyzeArguments, err)
	}
	if space, err = s.For(call.WorkingDir); err != nil {
		return r, nil, err
	}
	if err := space.Check(*path); err != nil {
		return r, nil, err
	}
	r = analyze.Request{
		Path: space.Abs(*path), Focus: valueOr(focus, ""), Force: valueOr(force, false),
		FollowDepth: min(valueOr(follow, 2), math.MaxInt32), MaxDepth: min(valueOr(depth, 3), math.MaxInt32),
	}
	info, err := space.Stat(r.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil, &missingPathError{r.Path}
	case err != nil:
		return r, nil, err
	}
	r.Dir = info.IsDir()
	return r, space, nil
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// classicAnalyzeError gives an error the code that classic goose had for it:
// restricted paths are the arguments' fault here, other than in the editor.
func classicAnalyzeError(err error) error {
	_, restricted := errors.AsType[*files.RestrictedError](err)
	_, outside := errors.AsType[*files.OutsideError](err)
	_, missing := errors.AsType[*missingPathError](err)
	if restricted || outside || missing || errors.Is(err, errAnalyzeArguments) {
		return &Error{InvalidParams, err.Error()}
	}
	return err
}
