// Package model is a stand-in for a language model: a scripted HTTP server that
// speaks OpenAI's chat completions and Responses and Anthropic's Messages well enough
// for real agents (streaming or not, tool calls, reasoning, usage) and misbehaves on
// request (delays, hangs, error statuses, dropped connections, broken arguments).
//
// Give [New] a script, call [Server.Start], point the agent at the returned
// address, and look at [Server.Requests] afterwards.
//
// # Scripts
//
// A script is a JSON file: rules, tried on the newest user message, and a
// default.
//
//	{
//	  "rules": [
//	    {"match": "list the files", "steps": [
//	      {"text": "Let me look.", "tool": "shell", "args": {"command": "ls"}},
//	      {"text": "There is:\n{{last_tool_result}}"}
//	    ]},
//	    {"regexp": "(?i)^fix", "steps": [{"status": 500, "times": 2}, {"text": "Fixed."}]}
//	  ],
//	  "default": [{"text": "Hello."}]
//	}
//
// Each request is answered with one step. A step with tool calls is followed,
// when the results come back, by the next one; a step without ends the turn.
// After the last step the answer is "Done.". The first rule that matches wins,
// but the lines of a message are tried one by one, the last first (and then the
// whole): agents merge a cancelled prompt and its successor into one message.
//
// A script may also come inside a prompt, as @@[step, step, ...]@@. It then goes
// before the rules. A later prompt without a script that no rule matches goes on
// where the newest embedded script stopped.
//
// # Steps
//
//	text       the answer, streamed word by word
//	tokens     instead of text: this many words "t0 t1 t2 ..."
//	reasoning  thoughts, streamed before the text as reasoning_content
//	tool       a tool call, with args (any JSON) or raw (the argument text as it is, e.g. cut off);
//	           of several names, as in "shell|bash", the first that the agent offers
//	tools      several in parallel: [{"tool": ..., "args": ...}, ...]
//	delay      before each word and thought: milliseconds, or "1.5s"
//	hang       stop answering: milliseconds, "2s", "forever" (until the client goes
//	           away) or "release" (until Server.Release)
//	drop       true: cut the connection
//	error      an object sent as an error in the middle of the stream
//	after      hang, drop and error happen after this many words (0: after the
//	           headers); without it hang and drop happen before the headers,
//	           error after all words
//	status     an HTTP status instead of an answer, with headers and body (a string
//	           is sent as it is); "context_length_exceeded" may be given as code
//	code       the error code in the default body of status
//	finish     the finish_reason, e.g. "length"
//	usage      {"prompt_tokens", "completion_tokens", "total_tokens"} to report
//	times      skip this step after it answered this many requests
//
// In text, reasoning and the strings of args, {{last_tool_result}} is the text of
// the newest tool result, {{cwd}} the working directory the agent mentioned and
// {{model}} the requested model. Unknown fields are errors that name their path.
//
// # State
//
// The position in a script is read from the conversation: the ids of our tool
// calls carry the number of their step. So sessions run side by side, agents may
// repeat a request, and a restarted agent goes on where it was. Only times needs
// memory; it counts per conversation. Requests that agents make on the side
// (naming a session, summing it up, judging a tool) get a fixed answer and leave
// the script alone.
//
// The package imports nothing of the project. It is meant for tests and demos on
// loopback; all of a Server's methods are safe for concurrent use.
package model
