package config

import _ "embed"

//go:embed config.schema.json
var schema []byte

// Schema is the JSON schema of config.json and .gander.json.
func Schema() []byte { return append([]byte(nil), schema...) }
