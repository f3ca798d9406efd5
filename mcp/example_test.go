package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"gander.dev/gander/developer"
	"gander.dev/gander/mcp"
)

// A table of one tool on one end of a stream, a client on the other. A program
// that a client starts serves its standard input and output instead.
func ExampleServe() {
	greet := developer.Tool{
		Name:        "greet",
		Description: "Says hello.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
		Call: func(_ context.Context, call developer.Call) (developer.Result, error) {
			var arguments struct{ Name string }
			if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
				return developer.Result{}, err
			}
			return developer.Result{Content: []developer.Content{{Text: "Hello, " + arguments.Name + "!"}}}, nil
		},
	}
	tools, err := developer.NewToolset(developer.Table{Tools: []developer.Tool{greet}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, server := net.Pipe()
	served := make(chan error)
	go func() { served <- mcp.Serve(context.Background(), server, tools, mcp.Options{}) }()

	answers := bufio.NewScanner(client)
	for _, request := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"goose"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet"}}`,
	} {
		if _, err := io.WriteString(client, request+"\n"); err != nil {
			fmt.Println(err)
			return
		}
		answers.Scan()
		fmt.Println(answers.Text())
	}
	_ = client.Close()
	fmt.Println(<-served)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Hello, goose!"}],"isError":false}}
	// {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"failed to deserialize parameters: missing field `name`"}}
	// <nil>
}
