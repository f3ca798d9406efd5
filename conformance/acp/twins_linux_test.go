package acp

import (
	"slices"
	"testing"
	"time"

	"gander.dev/gander/conformance/harness"
	"gander.dev/gander/conformance/twintest"
)

type twin struct{ id, defect, words string }

// Every check and an agent that is good but for what the check is about, with
// words of what the check has to say about it.
var twins = []twin{
	{"lifecycle.initialize", `rewrite:"version":"1.0"=>"version":""`, "no name and version"},
	{"lifecycle.versions", "echoes versions", "which it cannot speak"},
	{"lifecycle.minimal", "insists on capabilities", "clientCapabilities"},
	{"lifecycle.bad-version", "takes any version", "want an error"},
	{"lifecycle.authenticate", "authenticates anyone", "want an error"},
	{"lifecycle.logout", "refuses logout", "logout, which is advertised"},
	{"lifecycle.unadvertised", "answers anything", "is not advertised and answers"},
	{"transport.ids", "rounds ids", "is not answered"},
	{"transport.null-id", "dies of null ids", "the agent ended"},
	{"transport.unknown-method", "rewrite:-32601=>-32603", "want error -32601"},
	{"transport.notifications", "answers notifications", "a notification is answered"},
	{"transport.pieces", "dies of blank lines", "the agent ended"},
	{"transport.pipelined", "drops requests", "at once is not answered"},
	{"transport.slow-client", "drops when slow", "arrive"},
	{"hostile.garbage", "dies of garbage", "the agent ended"},
	{"hostile.parse-error", "ignores garbage", "no error -32700"},
	{"hostile.invalid", "answers invalid messages", "answered with a result"},
	{"hostile.batch", "dies of a batch", "after the batch"},
	{"hostile.params", "takes any params", "want an error"},
	{"hostile.responses", "answers responses", "an answer is answered"},
	{"hostile.huge", "dies of long lines", "after a request of 8 MiB"},
	{"hostile.deep", "dies of depth", "after nested arrays"},
	{"hostile.text", "asciifies", "日本語"},
	{"session.new", "gives ids twice", "is given twice"},
	{"session.relative", "takes relative directories", "want an error"},
	{"session.missing-dir", "takes missing directories", "nowhere"},
	{"session.cwd", "runs where it was started", "did not run there"},
	{"session.unknown", "makes unknown sessions up", "want an error"},
	{"session.parallel", "one turn at a time", "whose model is silent"},
	{"session.directories", "takes any directories", "relative"},
	{"session.mcp-stdio", "ignores servers", "no tool of the server"},
	{"session.mcp-broken", "insists on servers", "session/new is answered with error"},
	{"prompt.answer", "rewrite:Gleam-42=>Gleam-0", "Gleam-42"},
	{"prompt.streaming", "streams at the end", "the first words"},
	{"prompt.complete", "loses words", "arrive"},
	{"prompt.memory", "forgets", "Gleam-43"},
	{"prompt.thoughts", "thinks aloud", "pondering"},
	{"prompt.max-tokens", "rewrite:max_tokens=>end_turn", "want the stop reason max_tokens"},
	{"prompt.model-error", "is silent about errors", "without a word"},
	{"prompt.model-lost", "dies of broken streams", "the agent ended"},
	{"prompt.two", "ignores second prompts", "a prompt during a turn is not answered"},
	{"prompt.slash", "swallows slashes", "neither does it reach the model"},
	{"content.link", "drops links", "linked-notes.txt"},
	{"content.resource", "drops resources", "unsaved words"},
	{"content.image", "drops images", "data:image/"},
	{"content.several", "takes the first block", "in order"},
	{"content.invalid", "hangs on odd blocks", "a prompt of ["},
	{"tool.lifecycle", "never completes calls", "it ends 0 times"},
	{"tool.kind", `rewrite:"kind":"execute"=>"kind":"other"`, "want execute"},
	{"tool.output", "loses stderr", "to-stderr"},
	{"tool.live", "shows output at the end", "before the last"},
	{"tool.failure", "hides failures", "nothing shows the 3"},
	{"tool.unknown", "dies of unknown tools", "the agent ended"},
	{"tool.parallel", "reuses call ids", "shown as 1"},
	{"tool.diff", "shows no diffs", "no diff of"},
	{"permission.asks", "asks without the command", "does not show the command"},
	{"permission.waits", "runs before it asks", "before the request was answered"},
	{"permission.reject", "runs what is rejected", "ran after a rejection"},
	{"permission.cancelled", "takes cancelled for yes", "ran after the outcome cancelled"},
	{"permission.nonsense", "takes anything for yes", "ran after"},
	{"permission.cancel", "asks once", "without session/request_permission"},
	{"permission.silent", "waits for answers", "never answers"},
	{"option.valid", `rewrite:"currentValue":"m1"=>"currentValue":"gone"`, "is none of"},
	{"option.set", "sets nothing", "answers with"},
	{"option.refused", "takes any value", "want an error"},
	{"mode.valid", `rewrite:"currentModeId":"auto"=>"currentModeId":"none"`, "is none of"},
	{"mode.set", "refuses a mode", "session/set_mode plan"},
	{"mode.refused", "takes any mode", "want an error"},
	{"mode.option", "does not tell of modes", "after session/set_mode"},
	{"cancel.idle", "poisons the next prompt", "with nothing running"},
	{"cancel.waiting", "ignores cancels", "the prompt that was cancelled while the model was silent is not answered"},
	{"cancel.streaming", "answers cancels with errors", "answered with error"},
	{"cancel.behind", "registers late", "the prompt that was cancelled right behind it is not answered"},
	{"cancel.tool", "cancels no commands", "the prompt that was cancelled while a command ran is not answered"},
	{"cancel.processes", "kills nothing", "there is still"},
	{"cancel.stubborn", "kills the group only", "there is still"},
	{"cancel.repeated", "answers cancels twice", "a second answer"},
	{"cancel.queued", "cancels the first only", "behind the one that was cancelled"},
	{"cancel.next", "forgets cancelled prompts", "what the model got"},
	{"cancel.other", "cancels everything", "want the stop reason end_turn"},
	{"cancel.request", "ignores $/cancel_request", "the prompt whose request was cancelled is not answered"},
	{"cancel.request-unknown", "takes any $/cancel_request", "want the stop reason end_turn"},
	{"load.replay", "replays answers only", "the replay before the answer"},
	{"load.tools", "replays no tools", "replayed as 0"},
	{"load.goes-on", "forgets on load", "Gleam-1"},
	{"load.unknown", "loads anything", "want an error"},
	{"load.elsewhere", "moves sessions", "after a load"},
	{"load.killed", "saves at the end", "session/load is answered with error"},
	{"load.same", "replays twice", "the first load shows"},
	{"resume.goes-on", "replays on resume", "resume replays"},
	{"resume.unknown", "loads anything", "want an error"},
	{"list.shows", "lists its own only", "another process does not list"},
	{"list.filter", "ignores the filter", "has a session in"},
	{"list.pages", "takes any cursor", "want an error"},
	{"close.ends", "closes nothing", "the prompt of a session that was closed is not answered"},
	{"close.others", "closes everything", "want the stop reason end_turn"},
	{"close.processes", "leaves commands when closing", "there is still"},
	{"delete.gone", "deletes nothing", "is listed"},
	{"fork.knows", "forks empty", "Gleam-1"},
	{"archive.hides", "archives nothing", "is in the list of those that are not"},
	{"status.says", "calls everything saved", "is said to be"},
	{"options.ahead", "forgets an option", "session/options has the options"},
	{"subagent.lifecycle", "leaves children at work", "when its turn is answered"},
	{"suggestions.list", "suggests one thing", "are no list"},
	{"plan.operations", "removes other plans", "never told of"},
	{"compaction.ends", "compacts for ever", "does not end"},
	{"notice.says", "has nothing to notice", "a notice says nothing"},
	{"end.eof", "fails at EOF", "it ends with"},
	{"end.eof-running", "leaves commands at EOF", "there is still"},
	{"end.sigterm", "leaves commands at SIGTERM", "there is still"},
	{"end.sigkill", "nobody watches", "there is still"},
	{"end.broken-pipe", "leaves commands at EOF", "there is still"},
	{"bound.output", "keeps all output", "while the output came"},
	{"bound.line", "loses the end", "neither the last words"},
	{"bound.sessions", "leaks processes", "processes grew"},
	{"overall.stdout", "logs to stdout", "not a JSON object"},
	{"overall.answers", "answers twice", "a second answer"},
	{"overall.schema", `rewrite:"stopReason":"end_turn"=>"stopReason":"done"`, "want one of (end_turn"},
	{"overall.own-fields", "adds fields", "author is no field of the protocol"},
	{"overall.paths", `rewrite:"kind":"execute"=>"kind":"execute","locations":[{"path":"here"}]`, "which is not absolute"},
	{"overall.client-methods", "writes through the client", "does not offer fs.writeTextFile"},
	{"overall.unoffered", "tells what nobody offers", "does not offer session.notices"},
	{"overall.early", "updates before the answer", "before the client knows"},
	{"overall.late", "talks after the answer", "outside of any turn"},
	{"overall.tool-calls", "updates unannounced calls", "was not announced"},
	{"overall.tool-ends", "leaves calls open", "has no final status"},
	{"overall.size", "sends huge frames", "a frame of"},
}

// These are failed by agents that do not do something. That is waited for no longer than
// it takes a good agent.
var hanging = []string{
	"transport.ids", "transport.pipelined", "session.parallel", "prompt.streaming", "prompt.two", "content.invalid", "permission.silent", "mode.option", "cancel.waiting", "cancel.behind", "cancel.tool",
	"cancel.processes", "cancel.stubborn", "cancel.queued", "cancel.request", "close.ends", "close.processes", "end.eof-running", "end.sigterm", "end.sigkill", "end.broken-pipe",
}

// A check that nobody can fail proves nothing: each has an agent that fails it,
// for the reason the check is about.
func TestBrokenAgentsAreCaught(t *testing.T) {
	var all []twintest.Twin
	for _, tt := range twins {
		short := time.Duration(0)
		if slices.Contains(hanging, tt.id) {
			short = time.Second
		}
		all = append(all, twintest.Twin{
			Name: tt.id + "/" + tt.defect, Words: tt.words, Patience: short,
			Check: func(t *testing.T, patience time.Duration) harness.Result {
				return checkFake(t, tt.defect, patience, tt.id).Results[0]
			},
		})
	}
	twintest.Catch(t, all)
}

func TestEveryCheckHasABrokenTwin(t *testing.T) {
	for _, c := range Checks() {
		if !slices.ContainsFunc(twins, func(tw twin) bool { return tw.id == c.ID }) {
			t.Errorf("%s has no broken agent that fails it: give it one, or delete it", c.ID)
		}
	}
}
