package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"gander.dev/gander/developer"
)

// dispatcher is mcp-go behind our transport. It gets requests with ids and
// parameters of ours: it would round large numbers, take 1 and "1" for one id, and
// decode a call's arguments several times.
type dispatcher struct {
	server *server
	rpc    *mcpserver.MCPServer
	ctx    context.Context // carries the session
	last   atomic.Int64    // id
	// The result of tools/list, for clients that know no structured results, and others.
	tools, toolsWithOutcomes json.RawMessage
}

func newDispatcher(s *server) *dispatcher {
	d := &dispatcher{server: s, tools: toolList(s.tools.Tools(), false), toolsWithOutcomes: toolList(s.tools.Tools(), true)}
	hooks := new(mcpserver.Hooks)
	hooks.AddAfterInitialize(d.initialized)
	d.rpc = mcpserver.NewMCPServer(s.opts.Name, s.opts.Version,
		mcpserver.WithToolCapabilities(false),
		mcpserver.WithPromptCapabilities(false),
		mcpserver.WithLogging(),
		mcpserver.WithHooks(hooks),
	)
	for _, tool := range s.tools.Tools() {
		d.rpc.AddTool(mcp.NewToolWithRawSchema(tool.Name, tool.Description, tool.InputSchema), invoke)
	}
	for _, p := range s.tools.Prompts() {
		d.rpc.AddPrompt(promptOf(p), d.getPrompt)
	}
	d.ctx = d.rpc.WithContext(context.Background(), &session{client: s.client})
	return d
}

// initialized completes the result of initialize for the client that has
// introduced itself.
func (d *dispatcher) initialized(_ context.Context, _ any, request *mcp.InitializeRequest, result *mcp.InitializeResult) {
	c := d.server.client
	c.introduced(request.Params.ClientInfo.Name, result.ProtocolVersion)
	r := developer.Reader{WorkingDir: d.server.opts.WorkingDir, HintFiles: c.hintFiles(d.server.opts.HintFiles)}
	if c.isGoose() {
		r.WorkingDir = "{{WORKING_DIR}}" // which goose fills in with the session's
	}
	result.Instructions = d.server.tools.Instructions(r)
}

// answer answers a request that takes no time.
func (d *dispatcher) answer(m message) []byte {
	params := m.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	if refused := d.check(m.method, params); refused != nil {
		return replyError(m.ID, refused)
	}
	result, refused := d.handle(d.ctx, m.method, params)
	if refused != nil {
		return replyError(m.ID, refused)
	}
	return reply(m.ID, "result", result)
}

// check knows the methods and refuses parameters that cannot be right.
func (d *dispatcher) check(method string, params json.RawMessage) *rpcError {
	switch mcp.MCPMethod(method) {
	case mcp.MethodInitialize:
		return checkInitialize(params)
	case mcp.MethodPromptsGet:
		return checkGetPrompt(params, d.server.tools)
	case mcp.MethodToolsList, mcp.MethodPromptsList:
		return checkCursor(params)
	case mcp.MethodSetLogLevel:
		return checkSetLevel(params)
	case mcp.MethodPing:
		return nil
	}
	return methodNotFound(method)
}

// handle has mcp-go answer a request.
func (d *dispatcher) handle(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *rpcError) {
	outcome := &failure{}
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, d.last.Add(1), method, params)
	switch r := d.rpc.HandleMessage(context.WithValue(ctx, failureKey{}, outcome), line).(type) {
	case mcp.JSONRPCResponse:
		if method == string(mcp.MethodToolsList) {
			if d.server.client.structures() {
				return d.toolsWithOutcomes, nil
			}
			return d.tools, nil // mcp-go's own has empty annotations
		}
		return encode(r.Result), nil
	case mcp.JSONRPCError:
		if outcome.err != nil {
			return nil, errorOf(outcome.err)
		}
		return nil, refusal(r.Error)
	}
	return nil, &rpcError{Code: developer.InternalError, Message: "the request got no answer"}
}

// refusal is mcp-go's error with the code that JSON-RPC has for it: parameters
// that cannot be decoded make it say that the request is invalid.
func refusal(e mcp.JSONRPCErrorDetails) *rpcError {
	if e.Code == codeInvalidRequest {
		return invalidParams("Invalid params: %s", clip(e.Message))
	}
	return &rpcError{Code: e.Code, Message: e.Message, Data: e.Data}
}

// call finds and runs a call's tool. It does not go through HandleMessage, which
// would decode the message four times more and take as long as all the rest.
func (d *dispatcher) call(c *call) {
	tool := d.rpc.GetTool(c.tool)
	if tool == nil {
		c.invoke(c.ctx) // which says what there is
		return
	}
	var request mcp.CallToolRequest
	request.Params.Name = c.tool
	if _, err := tool.Handler(context.WithValue(c.ctx, callKey{}, c), request); err != nil && c.outcome.err == nil {
		c.outcome.err = err
	}
}

type callKey struct{}

// invoke is every tool's handler: the outcome goes past mcp-go.
func invoke(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, errors.New("tools are called by tools/call only")
	}
	c.invoke(ctx)
	return &mcp.CallToolResult{}, nil
}

type failureKey struct{}

// failure is where a handler leaves an error with a code of its own.
type failure struct{ err error }

func promptOf(p developer.Prompt) mcp.Prompt {
	w := mcp.Prompt{Name: p.Name, Description: p.Description}
	for _, a := range p.Arguments {
		w.Arguments = append(w.Arguments, mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	return w
}

func (d *dispatcher) getPrompt(ctx context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	text, err := d.server.tools.Prompt(request.Params.Name, request.Params.Arguments)
	if err != nil {
		if f, ok := ctx.Value(failureKey{}).(*failure); ok {
			f.err = err
		}
		return nil, err
	}
	message := mcp.PromptMessage{Role: mcp.RoleUser, Content: mcp.NewTextContent(text)}
	return &mcp.GetPromptResult{Description: text, Messages: []mcp.PromptMessage{message}}, nil
}

// session is the one session of a connection. It is initialized from the start:
// what comes before initialize is answered, as goose's server did.
type session struct{ client *client }

func (s *session) SessionID() string                                   { return "stdio" }
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return nil }
func (s *session) Initialize()                                         {}
func (s *session) Initialized() bool                                   { return true }
func (s *session) SetLogLevel(level mcp.LoggingLevel)                  { s.client.setLevel(string(level)) }

func (s *session) GetLogLevel() mcp.LoggingLevel { return mcp.LoggingLevelInfo }

var _ mcpserver.SessionWithLogging = (*session)(nil)
