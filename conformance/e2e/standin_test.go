package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	acp "github.com/coder/acp-go-sdk"
)

// standIns take the places of programs that the tests cannot have: each takes the arguments and
// the variables that the program's documentation names, and calls its model as that does. A
// test's binary is one of them where it is started under the name.
var standIns = map[string]func(args []string) error{
	"copilot": copilot,
	"crush":   crush,
	"gemini":  gemini,
	"talker":  talker,
}

// standIn puts a stand-in below the world's directory, and returns its file.
func (w *world) standIn(name string) string {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	to := filepath.Join(w.mkdir("tools"), name)
	if os.Link(self, to) != nil {
		if err := copyFile(self, to); err != nil {
			w.t.Fatal(err)
		}
	}
	return to
}

// copilot stands in for GitHub's: its license keeps it out of tests.
func copilot(args []string) error {
	if !slices.Equal(args, []string{"--acp"}) || os.Getenv("COPILOT_OFFLINE") != "true" {
		return fmt.Errorf("copilot was started with %q, COPILOT_OFFLINE=%s", args, os.Getenv("COPILOT_OFFLINE"))
	}
	return serve(&talk{protocol: "chat", tool: "bash", base: os.Getenv("COPILOT_PROVIDER_BASE_URL"), key: os.Getenv("COPILOT_PROVIDER_API_KEY"), model: os.Getenv("COPILOT_MODEL")})
}

// crushRC runs crush's configuration, which is a script, and prints what its commands are given.
const crushRC = `option() { echo "option $1=$2"; }
provider() { shift 2; while [ $# -gt 0 ]; do echo "$1=$2"; shift 2; done; }
model() { echo "model $1=$2"; }
. "$XDG_CONFIG_HOME/crush/crushrc"`

// crush stands in for Charm's, which npm fetches from GitHub: it prints its answer to one prompt.
func crush(args []string) error {
	prompt, err := io.ReadAll(os.Stdin)
	out, failed := exec.Command("/bin/sh", "-ec", crushRC).CombinedOutput()
	if err := errors.Join(err, failed); err != nil || !slices.Equal(args, []string{"run", "--quiet"}) {
		return fmt.Errorf("crush was started with %q: %w: %s", args, err, out)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		set[name] = value
	}
	model, ours := strings.CutPrefix(set["model large"], "gander/")
	if !ours || set["--type"] != "openai-compat" || set["model small"] != set["model large"] || set["model add"] != set["model large"] || set["option metrics"] != "false" {
		return fmt.Errorf("crush is configured by %q", set)
	}
	k := &talk{protocol: "chat", tool: "bash", base: set["--base-url"], key: set["--api-key"], model: model}
	return k.turn(string(prompt), func(text string) { fmt.Println(text) }, func(_, command string) string { return execute("", command) })
}

// gemini stands in for Google's, which asks for its models by a protocol of its own.
func gemini(args []string) error {
	if !slices.Equal(args, []string{"--acp"}) {
		return fmt.Errorf("gemini was started with %q", args)
	}
	return serve(&talk{protocol: "gemini", base: os.Getenv("GOOGLE_GEMINI_BASE_URL"), key: os.Getenv("GEMINI_API_KEY"), model: os.Getenv("GEMINI_MODEL")})
}

// talker speaks the protocol that it is started with.
func talker(args []string) error {
	return serve(&talk{protocol: args[0], tool: "shell", base: os.Getenv("TALKER_URL"), key: os.Getenv("TALKER_KEY"), model: "scripted"})
}

// acpServer is an agent that speaks ACP; what it does not need is not there.
type acpServer struct {
	acp.Agent
	conn *acp.AgentSideConnection
	talk *talk
	dir  string
}

func serve(k *talk) error {
	s := &acpServer{talk: k}
	s.conn = acp.NewAgentSideConnection(s, os.Stdout, os.Stdin)
	<-s.conn.Done()
	return nil
}

func (s *acpServer) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{ProtocolVersion: acp.ProtocolVersionNumber}, nil
}

func (s *acpServer) NewSession(_ context.Context, p acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	s.dir = p.Cwd
	return acp.NewSessionResponse{SessionId: "stand-in"}, nil
}

func (s *acpServer) Cancel(context.Context, acp.CancelNotification) error { return nil }

func (s *acpServer) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	var prompt strings.Builder
	for _, block := range p.Prompt {
		if block.Text != nil {
			prompt.WriteString(block.Text.Text)
		}
	}
	show := func(u acp.SessionUpdate) {
		_ = s.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: p.SessionId, Update: u})
	}
	err := s.talk.turn(prompt.String(), func(text string) { show(acp.UpdateAgentMessageText(text)) }, func(id, command string) string {
		call := acp.ToolCallId(id)
		show(acp.StartToolCall(call, command, acp.WithStartKind(acp.ToolKindExecute)))
		answer, err := s.conn.RequestPermission(ctx, acp.RequestPermissionRequest{
			SessionId: p.SessionId, ToolCall: acp.ToolCallUpdate{ToolCallId: call},
			Options: []acp.PermissionOption{{Kind: acp.PermissionOptionKindAllowOnce, Name: "Allow", OptionId: "allow"}},
		})
		if err != nil || answer.Outcome.Selected == nil || answer.Outcome.Selected.OptionId != "allow" {
			return fmt.Sprintf("this was not allowed: %v", err)
		}
		out := execute(s.dir, command)
		show(acp.UpdateToolCall(call, acp.WithUpdateStatus(acp.ToolCallStatusCompleted), acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock(out))})))
		return out
	})
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, err
}

// execute runs a command and returns what it printed.
func execute(dir, command string) string {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", out, err)
	}
	return string(out)
}

// talk is a conversation with a model, by one of the protocols.
type talk struct {
	protocol, base, key, model string
	tool                       string // runs commands
	said                       []any
}

type object = map[string]any

// turn asks until the model calls no tool any more.
func (k *talk) turn(prompt string, show func(text string), run func(id, command string) string) error {
	switch k.protocol {
	case "responses":
		k.said = append(k.said, object{"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": prompt}}})
	case "gemini":
		k.said = append(k.said, object{"role": "user", "parts": []object{{"text": prompt}}})
	default:
		k.said = append(k.said, object{"role": "user", "content": prompt})
	}
	for {
		reply, err := k.ask()
		if err != nil {
			return err
		}
		if reply.text != "" {
			show(reply.text)
		}
		if reply.id == "" {
			return nil
		}
		var args struct{ Command string }
		if err := json.Unmarshal(reply.args, &args); err != nil {
			return err
		}
		out := run(reply.id, args.Command)
		switch k.protocol {
		case "chat":
			k.said = append(k.said, object{"role": "tool", "tool_call_id": reply.id, "content": out})
		case "responses":
			k.said = append(k.said, object{"type": "function_call_output", "call_id": reply.id, "output": out})
		case "messages":
			k.said = append(k.said, object{"role": "user", "content": []object{{"type": "tool_result", "tool_use_id": reply.id, "content": out}}})
		}
	}
}

// modelReply holds the words of a model and the call of a tool that it wants; id is empty for none.
type modelReply struct {
	text, id string
	args     json.RawMessage
}

// ask asks for the next message.
func (k *talk) ask() (modelReply, error) {
	schema := object{"type": "object", "properties": object{"command": object{"type": "string"}}}
	function := object{"name": k.tool, "description": "runs a command", "parameters": schema}
	switch k.protocol {
	case "chat":
		raw, err := k.post("/chat/completions", object{"model": k.model, "messages": k.said, "tools": []object{{"type": "function", "function": function}}})
		var got struct {
			Choices []struct{ Message json.RawMessage }
		}
		if err := errors.Join(err, json.Unmarshal(raw, &got)); err != nil {
			return modelReply{}, err
		}
		k.said = append(k.said, got.Choices[0].Message)
		var m struct {
			Content   string
			ToolCalls []struct {
				ID       string
				Function struct{ Arguments string }
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(got.Choices[0].Message, &m); err != nil || len(m.ToolCalls) == 0 {
			return modelReply{text: m.Content}, err
		}
		return modelReply{m.Content, m.ToolCalls[0].ID, json.RawMessage(m.ToolCalls[0].Function.Arguments)}, nil
	case "responses":
		function["type"] = "function"
		raw, err := k.post("/responses", object{"model": k.model, "input": k.said, "tools": []object{function}, "stream": true})
		if err != nil {
			return modelReply{}, err
		}
		return k.takeResponse(raw)
	case "messages":
		raw, err := k.post("/messages", object{"model": k.model, "max_tokens": 1000, "messages": k.said, "tools": []object{{"name": k.tool, "input_schema": schema}}})
		var got struct{ Content json.RawMessage }
		if err := errors.Join(err, json.Unmarshal(raw, &got)); err != nil {
			return modelReply{}, err
		}
		k.said = append(k.said, object{"role": "assistant", "content": got.Content})
		var parts []struct {
			Text, ID string
			Input    json.RawMessage
		}
		err = json.Unmarshal(got.Content, &parts)
		var reply modelReply
		for _, c := range parts {
			reply.text += c.Text
			if c.ID != "" {
				reply.id, reply.args = c.ID, c.Input
			}
		}
		return reply, err
	}
	_, err := k.post("/v1beta/models/"+k.model+":streamGenerateContent?alt=sse", object{"contents": k.said, "tools": []object{{"functionDeclarations": []object{function}}}})
	return modelReply{}, err
}

// takeResponse reads the items of a streamed response.
func (k *talk) takeResponse(raw []byte) (reply modelReply, err error) {
	for line := range bytes.Lines(raw) {
		data, is := bytes.CutPrefix(line, []byte("data: "))
		var event struct {
			Type string
			Item json.RawMessage
		}
		if !is || json.Unmarshal(data, &event) != nil || event.Type != "response.output_item.done" {
			continue
		}
		var item struct {
			Content   []struct{ Text string }
			CallID    string `json:"call_id"`
			Arguments string
		}
		if err := json.Unmarshal(event.Item, &item); err != nil {
			return reply, err
		}
		k.said = append(k.said, event.Item)
		for _, c := range item.Content {
			reply.text += c.Text
		}
		if item.CallID != "" {
			reply.id, reply.args = item.CallID, json.RawMessage(item.Arguments)
		}
	}
	return reply, nil
}

// post sends a request, with the key where the protocol has it.
func (k *talk) post(path string, body object) ([]byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, k.base+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	switch k.protocol {
	case "messages":
		req.Header.Set("X-Api-Key", k.key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	case "gemini":
		req.Header.Set("X-Goog-Api-Key", k.key)
	default:
		req.Header.Set("Authorization", "Bearer "+k.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return answer, err
}

// TestStandIns has programs that the tests cannot have stood in for: a newcomer adds each, and it
// does a whole turn with a call of a tool. The one that cannot be added says why, also where it
// is configured by hand.
func TestStandIns(t *testing.T) {
	for _, name := range []string{"copilot", "crush"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNewcomer(t)
			env := n.adds(t, name, "", filepath.Dir(n.w.standIn(name)))
			answer := n.does(t, env, "run", "--agent", name, "--approve", "all", "--format", "quiet", script(t, step{"tool": "bash", "args": map[string]any{"command": look}}, says("It is done.")))
			if answer != "It is done.\n" {
				t.Errorf("it answered %q", answer)
			}
			if seen := n.w.read(filepath.Join(n.project, "seen")); strings.Contains(seen, canary) || !strings.Contains(seen, "PATH=") {
				t.Errorf("inside it saw\n%s", seen)
			}
			n.nothingLeft(t, env)
		})
	}
	t.Run("gemini", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		env := n.endpoint(t, "", "")
		loud := func(args ...string) (string, int) {
			return n.run(t, env, append([]string{"/bin/sh", "-c", `exec "$0" "$@" 2>&1`, n.gander}, args...)...)
		}
		if out, code := loud("agent", "add", "gemini"); code != 2 || !strings.HasPrefix(out, "gander: gemini cannot be added: with a key it speaks Gemini's protocol, which the gateway does not carry") || strings.Count(out, "\n") != 1 {
			t.Errorf("adding it ended with %d: %s", code, out)
		}
		n.w.write(n.w.mkdir("home/.gander"), "config.json", fmt.Sprintf(`{"providers": {"lab": {"baseUrl": %q, "apiKeyEnv": "LAB_KEY", "model": "scripted"}}, "model": {"provider": "lab"},
			"agents": {"gemini": {"command": [%q, "--acp"], "env": {"GOOGLE_GEMINI_BASE_URL": "{modelUrl}", "GEMINI_API_KEY": "{key}", "GEMINI_MODEL": "{model}"}}}}`, n.w.host, n.w.standIn("gemini")))
		const want = `gander: The gateway refused a request: the path "/v1beta/models/scripted:streamGenerateContent" is refused: this sandbox reaches only the model: POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, and GET /v1/models.`
		if out, code := loud("run", "--agent", "gemini", "hello"); code != 5 || !slices.Contains(strings.Split(out, "\n"), want) {
			t.Errorf("its turn ended with %d: %s", code, out)
		}
		n.nothingLeft(t, env)
	})
}
