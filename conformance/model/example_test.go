package model_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"gander.dev/gander/conformance/model"
)

// A script, a server, and what an agent would ask it.
func Example() {
	script, err := model.ParseScript([]byte(`{
	  "rules": [{"match": "weather", "steps": [{"text": "It rains.", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]}]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	server := model.New(model.Options{Script: script})
	base, err := server.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	question := `{"model": "any", "stream": true, "messages": [{"role": "user", "content": "How is the weather?"}]}`
	res, err := client.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(question))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	for _, word := range []string{`"content":"It "`, `"content":"rains."`, `"finish_reason":"stop"`, "[DONE]"} {
		fmt.Println(word, strings.Contains(string(body), word))
	}
	fmt.Println(server.Requests()[0].Messages[0].Content)
	// Output:
	// "content":"It " true
	// "content":"rains." true
	// "finish_reason":"stop" true
	// [DONE] true
	// How is the weather?
}
