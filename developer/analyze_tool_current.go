package developer

import (
	"context"
	"encoding/json"
	"errors"

	"gander.dev/gander/developer/analyze"
)

const currentAnalyzeDescription = "Analyze code structure in 3 modes: 1) Directory overview - file tree with LOC/function/class counts to max_depth. 2) File details - functions, classes, imports. 3) Symbol focus - call graphs across directory to max_depth (requires file or directory path, case-sensitive). Typical flow: directory → files → symbols. Functions called >3x show •N."

const currentAnalyzeSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "AnalyzeParams",
  "type": "object",
  "properties": {
    "path": {"description": "File or directory path to analyze", "type": "string"},
    "focus": {"description": "Symbol name to focus on (triggers call graph mode)", "type": ["string", "null"], "default": null},
    "max_depth": {"description": "Directory recursion depth limit (default 3, 0=unlimited). Also limits focus scan depth.", "type": "integer", "format": "uint32", "minimum": 0, "default": 3},
    "follow_depth": {"description": "Call graph traversal depth (default 2, 0=definitions only)", "type": "integer", "format": "uint32", "minimum": 0, "default": 2},
    "force": {"description": "Allow large outputs without size warning", "type": "boolean", "default": false}
  },
  "required": ["path"]
}`

// currentAnalyzeTool is goose 1.52's analyze: what goes wrong is a result.
func currentAnalyzeTool(a *analyze.Analyzer, s *Spaces) Tool {
	return Tool{
		Name:        "analyze",
		Title:       "Analyze",
		Description: currentAnalyzeDescription + lacking(a),
		InputSchema: json.RawMessage(currentAnalyzeSchema),
		Hints:       &Hints{ReadOnly: true, Idempotent: true},
		Call: func(ctx context.Context, call Call) (Result, error) {
			request, space, err := analyzeRequest(s, call)
			text := ""
			if err == nil {
				text, err = a.Current(ctx, space, request)
			}
			if ctx.Err() != nil {
				return Result{}, ctx.Err()
			}
			if err != nil {
				text = currentAnalyzeError(err)
			}
			return Result{Content: []Content{{Text: text, Priority: new(float64)}}, IsError: err != nil}, nil
		},
	}
}

// currentAnalyzeError words an error as goose 1.52 does.
func currentAnalyzeError(err error) string {
	if refused, ok := errors.AsType[*analyze.RefusedError](err); ok {
		return refused.Reason
	}
	if missing, ok := errors.AsType[*missingPathError](err); ok {
		return "Error: path not found: " + missing.path
	}
	return "Error: " + err.Error()
}
