package mcp

import (
	"slices"
	"testing"
	"time"

	"gander.dev/gander/conformance/twintest"
)

type twin struct{ id, profile, defect, words string }

// Every check and a server that is good but for what the check is about, with
// words of what the check has to say about it.
var twins = []twin{
	{"lifecycle.versions", Classic, "speaks one version only", "the answer to version 2024-11-05"},
	{"lifecycle.unknown-version", Classic, "echoes any version", "1999-01-01"},
	{"lifecycle.discover", Classic, "offers the newest protocol", "2026-07-28"},
	{"lifecycle.identity", Classic, "rewrite:fake-developer=>fake", "the server's name"},
	{"lifecycle.instructions", Classic, "rewrite:operating system=>os", "operating system"},
	{"lifecycle.capabilities", Classic, `rewrite:"logging":{},=>`, "logging is not declared, and logging/setLevel is answered"},
	{"lifecycle.resources", Classic, "declares resources", "resources are declared"},
	{"lifecycle.ping", Classic, "answers notifications", "bring"},
	{"lifecycle.again", Classic, "runs once", "ended"},
	{"transport.ids", Classic, "rounds ids", "9007199254740993"},
	{"transport.unknown-method", Classic, "rewrite:-32601=>-32603", "no/such"},
	{"transport.garbage", Classic, "dies of garbage", "the server ended"},
	{"transport.garbage", Classic, "blames garbage on a request", "garbage is answered with"},
	{"transport.invalid", Classic, "dies of invalid messages", "the server ended"},
	{"transport.batch", Classic, "dies of a batch", "after a batch"},
	{"transport.huge", Classic, "dies of long lines", "after a request of 8 MiB"},
	{"transport.deep", Classic, "dies of depth", "after nested arrays"},
	{"transport.pieces", Classic, "dies of blank lines", "the server ended"},
	{"transport.one-shot", Classic, "answers initialize late", "not answered first"},
	{"end.eof", Classic, "fails at EOF", "it ends with"},
	{"end.eof", Classic, "ignores EOF", "still runs"},
	{"end.eof-running", Classic, "leaves trees at the end", "left"},
	{"end.sigterm", Classic, "ignores SIGTERM", "still runs"},
	{"end.sigkill", Classic, "nobody watches", "left"},
	{"end.broken-pipe", Classic, "leaves trees at the end", "left"},
	{"tools.inventory", Classic, "has no screen", "screen_capture"},
	{"tools.inventory-current", Current, `rewrite:"name":"tree"=>"name":"trees"`, "no tool tree"},
	{"tools.names", Classic, "takes prefixed names", "developer__"},
	{"tools.schemas", Classic, `rewrite:"does analyze"=>""`, "no description"},
	{"tools.schemas", Classic, `rewrite:"type":"string"=>"type":"text"`, "has the types"},
	{"tools.parameters", Classic, `rewrite:"insert_line"=>"line"`, "insert_line"},
	{"tools.parameters-current", Current, `rewrite:"before"=>"old"`, "before"},
	{"tools.stable", Classic, "changes its mind", "the inventory after calls"},
	{"tools.unknown", Classic, "unknown tools are internal errors", "no_such_tool"},
	{"tools.arguments", Classic, "rewrite:-32602=>-32603", "want -32602"},
	{"prompts.list", Classic, `rewrite:"unit_test"=>"unit_tests"`, "no prompt unit_test"},
	{"prompts.get", Classic, "leaves placeholders", "Gleam-42"},
	{"prompts.refused", Classic, "rewrite:-32602=>-32000", "want error -32602"},
	{"metadata.working-dir", Classic, "ignores the working directory", "the working directory"},
	{"metadata.working-dir-files", Classic, "resolves against its own directory", "relative path"},
	{"metadata.no-working-dir", Classic, "works in the root", "the working directory"},
	{"metadata.missing-dir", Classic, "runs anywhere", "does not exist"},
	{"metadata.session-id", Classic, "keeps the session id", "after others"},
	{"metadata.unknown", Classic, "refuses unknown metadata", "unknown metadata"},
	{"metadata.invalid", Classic, "refuses ill-typed metadata", "with metadata"},
	{"metadata.invalid", Classic, "dies of invalid metadata", "the server ended"},
	{"shell.works", Classic, "hides output from people", "for the user"},
	{"shell.empty", Classic, "runs empty commands", "works, and should fail"},
	{"shell.empty", Classic, "counts its refusals", "the refusal of an empty command"},
	{"shell.merged", Classic, "loses stderr", "err1"},
	{"shell.exit-code", Classic, "hides exit codes", "3"},
	{"shell.outcome", Classic, "believes its output", "the exitCode of"},
	{"shell.outcome", Classic, `rewrite:"structuredContent":{"exitCode"=>"structuredContent":{"code"`, "no exitCode in structuredContent"},
	{"shell.not-found", Classic, "loses stderr", "no_such_program"},
	{"shell.quoting", Classic, "splits commands itself", "the output of"},
	{"shell.empty-output", Classic, "says that there is nothing", "(no output)"},
	{"shell.structured", Current, `rewrite:"exit_code"=>"code"`, "exit code"},
	{"shell.timeout", Classic, "ignores timeouts", "the call of shell is not answered"},
	{"shell.background", Classic, "waits for the background", "the call of shell is not answered"},
	{"shell.parallel", Classic, "answers one call at a time", "at the same time"},
	{"environment.stdin", Classic, "gives commands a stdin", "the call of shell is not answered"},
	{"environment.terminal", Classic, "gives commands a terminal", "terminal 0"},
	{"environment.variables", Classic, "sets no environment", "GIT_PAGER"},
	{"environment.editors", Classic, "leaves editors alone", "EDITOR"},
	{"environment.git-editor", Classic, "leaves editors alone", "git does not say"},
	{"environment.git-prompt", Classic, "lets git prompt", "[0]"},
	{"streaming.shape", Classic, `rewrite:"shell_tool"=>"shell"`, "want info and shell_tool"},
	{"streaming.declared", Classic, `rewrite:"logging":{},=>`, "logging is not declared"},
	{"streaming.incremental", Classic, "streams at the end", "while the command runs"},
	{"streaming.partial", Classic, "streams whole lines only", "a line without its end"},
	{"streaming.lossless", Classic, "loses lines", "do not have all of them"},
	{"streaming.slow-client", Classic, "breaks with slow clients", "the server ended"},
	{"streaming.progress", Classic, "sends progress to everyone", "without a token"},
	{"cancel.running", Classic, "cancelled commands work", "as if it had worked"},
	{"cancel.at-once", Classic, "registers late", "of 30 is not answered"},
	{"cancel.escapes", Classic, "kills the group only", "had left"},
	{"cancel.graceful", Classic, "kills at once", "on SIGTERM"},
	{"cancel.prompt", Classic, "waits a second", "the fastest"},
	{"cancel.flood", Classic, "ignores cancels", "a command that floods is not answered"},
	{"cancel.exact", Classic, `confuses 7 and "7"`, "4711"},
	{"cancel.lingering", Classic, "remembers cancels", "cancelled by user"},
	{"cancel.ill-formed", Classic, "takes ill-formed cancels for all", "cancelled by user"},
	{"output.verbatim", Classic, "trims lines", "the output for"},
	{"output.tail", Classic, "shows the head", "the output for"},
	{"output.saved", Classic, "removes its files", "no file"},
	{"output.lines", Classic, "miscounts lines", "400000 lines"},
	{"output.huge-line", Classic, "keeps huge lines", "bytes"},
	{"output.invalid-utf8", Classic, "drops invalid lines", "left"},
	{"output.cut", Classic, "cuts characters", "a character is cut"},
	{"output.memory", Classic, "keeps all output in memory", "of memory"},
	{"growth.calls", Classic, "leaks descriptors", "descriptors"},
	{"growth.cancels", Classic, "leaks descriptors", "descriptors"},
	{"growth.overhead", Classic, "is slow", "commands that do nothing"},
	{"growth.overhead", Classic, "ping is slow", "pings"},
	{"policy.shell", Classic, "guards no commands", "shows the ignored file"},
	{"policy.shell", Classic, "runs, then refuses", "ran"},
	{"policy.shell-syntax", Classic, "knows no syntax", "shows the ignored file"},
	{"policy.allowed", Classic, "refuses too much", "env"},
	{"policy.files", Classic, "guards no files", "shows the ignored file"},
	{"policy.listing", Classic, "lists everything", "lists secrets"},
	{"policy.diff", Classic, "does not look into diffs", "is applied"},
	{"policy.image", Classic, "guards no files", "works, and should fail"},
	{"policy.analyze", Classic, "guards no files", "works, and should fail"},
	{"policy.current", Current, "guards no files", "works, and should fail"},
	{"policy.links", Classic, "follows links", "shows the ignored file"},
	{"policy.traversal", Classic, "allows traversal", "works, and should fail"},
	{"policy.roots", Classic, "follows links out", "works outside"},
	{"policy.roots", Classic, "follows dots out", "../outside/out.txt"},
	{"policy.roots", Classic, "reads through links out", "view of link.txt"},
	{"policy.roots", Current, "follows links out", "works outside"},
	{"policy.children", Classic, "claims the kernel", "shows an ignored file"},
	{"policy.children", Current, "claims the kernel", "shows an ignored file"},
	{"policy.patterns", Classic, "knows no nested rules", "sub/own.txt"},
	{"policy.empty-file", Classic, "keeps the defaults", "disables the defaults"},
	{"policy.reload", Classic, "reads rules once", "a new rule names it"},
	{"policy.global", Classic, "knows no global rules", "the person's own rule"},
	{"policy.not-created", Classic, "writes rules unasked", "nobody asked for"},
	{"editor.view", Classic, "rewrite:### =># ", "the view is"},
	{"editor.view-range", Classic, "clips ranges", "the view of lines"},
	{"editor.view-errors", Classic, "rewrite:is beyond the end=>is past the end", "beyond"},
	{"editor.view-limits", Classic, "views any size", "420000 bytes"},
	{"editor.view-directory", Classic, "lists without end", "60 files"},
	{"editor.view-text", Classic, "views bytes", "no text"},
	{"editor.arguments", Classic, "ignores unknown commands", "destroy"},
	{"editor.write", Classic, "writes as given", "the file"},
	{"editor.str-replace", Classic, "never deletes", "after a deletion"},
	{"editor.str-replace-errors", Classic, "replaces the first of many", "there twice"},
	{"editor.insert", Classic, "inserts one line late", "after an insert"},
	{"editor.insert-errors", Classic, "inserts anywhere", "works, and should fail"},
	{"editor.undo", Classic, "keeps one undo", "undo_edit"},
	{"editor.line-endings", Classic, "writes LF", "CRLF"},
	{"editor.hard-links", Classic, "loses modes", "the other name of a file"},
	{"editor.mode", Classic, "loses modes", "mode"},
	{"diff.apply", Classic, "rewrite:Lines added=>Lines plus", "Lines added: 2"},
	{"diff.several-files", Classic, "rewrite:Files created: 1=>Files created: 0", "Files created: 1"},
	{"diff.atomic", Classic, "applies one file after the other", "the file before it"},
	{"diff.atomic", Classic, "drops hunks", "does not fit works"},
	{"diff.invalid", Classic, "takes any diff", "a large diff"},
	{"analyze.structure", Classic, "counts lines from zero", "main:26"},
	{"analyze.semantic", Classic, "counts lines from zero", "Server:10"},
	{"analyze.focus", Classic, "counts lines from zero", "main.go:22"},
	{"analyze.errors", Classic, "stumbles over broken files", "the server ended"},
	{"analyze.large", Classic, "shows any output", "LARGE OUTPUT WARNING"},
	{"analyze.depth", Classic, "knows no depth", "max_depth"},
	{"analyze.languages", Classic, "knows no Swift", "a.swift"},
	{"image.large", Classic, "scales nothing", "2048×512"},
	{"image.formats", Classic, "knows PNG only", "a."},
	{"image.errors", Classic, "takes any image", "11 MiB"},
	{"image.windows", Classic, "lists no windows", "list_windows"},
	{"image.screen", Classic, "captures anything", "screen"},
	{"current.shell", Current, "rewrite:(no output)=>", "(no output)"},
	{"current.write", Current, "normalises what it writes", "the file"},
	{"current.edit", Current, "edits the first of many", "there twice"},
	{"current.tree", Current, "shows what git ignores", "skip.txt"},
	{"current.read-image", Current, "crops nothing", "a part of an image"},
	{"current.analyze", Current, "counts lines from zero", "Server:10"},
	{"current.priority", Current, `rewrite:"priority":0=>"priority":1`, "priority 0"},
	{"telemetry.secrets", Classic, "events with output", "stderr holds"},
	{"telemetry.events", Classic, "events without durations", "has a duration"},
	{"overall.stdout", Classic, `rewrite:"jsonrpc":"2.0"=>"jsonrpc":"1.0"`, "jsonrpc 2.0"},
	{"overall.answers", Classic, "answers twice", "a second answer"},
}

// These are failed by servers that do not do something. That is waited for no longer than
// it takes a good server.
var hanging = map[string]time.Duration{
	"transport.ids": time.Second, "end.eof": time.Second, "end.eof-running": time.Second, "end.sigterm": time.Second, "end.sigkill": time.Second,
	"end.broken-pipe": time.Second, "shell.timeout": 3 * time.Second, "shell.background": time.Second, "shell.parallel": time.Second,
	"environment.stdin": time.Second, "streaming.incremental": time.Second, "streaming.partial": time.Second, "cancel.at-once": time.Second,
	"cancel.flood": time.Second, "cancel.exact": time.Second, "cancel.escapes": time.Second,
}

// A check that nobody can fail proves nothing: each has a server that fails it,
// for the reason the check is about.
func TestBrokenServersAreCaught(t *testing.T) {
	var all []twintest.Twin
	for _, tt := range twins {
		all = append(all, twintest.Twin{
			Name: tt.id + "/" + tt.defect, Words: tt.words, Patience: hanging[tt.id],
			Check: func(t *testing.T, patience time.Duration) Result {
				return checkFake(t, tt.profile, tt.defect, patience, tt.id).Results[0]
			},
		})
	}
	twintest.Catch(t, all)
}

func TestEveryCheckHasABrokenTwin(t *testing.T) {
	for _, c := range Checks() {
		if !slices.ContainsFunc(twins, func(tw twin) bool { return tw.id == c.ID }) {
			t.Errorf("%s has no broken server that fails it: give it one, or delete it", c.ID)
		}
	}
}
