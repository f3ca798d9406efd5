package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// demands are what the body of a call wants of an endpoint besides an answer of one model,
// each by the key that says it; empty when it wants none.
type demands struct {
	// elsewhere is why the endpoint would reach further hosts: it fetches an image, searches
	// the web, calls another server. What an agent may not send itself it could have sent so.
	elsewhere string
	// models is where further models stand, which would answer in the place of the first.
	models string
	// later is what has the endpoint answer when the call is over, which says nothing of what
	// was used then.
	later string

	protocol Protocol
}

// The keys of demands, as plainKey writes them. They are those that OpenAI, OpenRouter,
// LiteLLM, xAI, Azure, Qwen and Gemini document; no list can have those of all endpoints.
var (
	// At the top of a body.
	searches = []string{"websearchoptions", "searchparameters", "enablesearch", "plugins", "datasources", "mcpservers", "connectors"}
	others   = []string{"models", "fallbacks", "fallbackmodels", "contextwindowfallbacks", "contentpolicyfallbacks"}
	later    = []string{"background", "deferred"}
	schemas  = []string{"tools", "functions", "responseformat", "text"} // below them a key is only a name
	// Anywhere: where the call goes, and where a proxy tells of it. What begins with one of
	// these services is a place, an account or a region of it.
	routes   = []string{"apibase", "baseurl", "apikey", "customllmprovider", "extrabody", "extraheaders", "extraquery", "userconfig", "deploymenturl"}
	services = []string{"aws", "azure", "vertex", "sagemaker", "s3", "gcs", "langfuse", "langsmith", "posthog", "arize", "humanloop", "braintrust"}
	// In a tool without a type.
	remoteTools = []string{"googlesearch", "googlesearchretrieval", "urlcontext", "codeexecution", "websearch", "mcp"}
	// What is fetched also where its address has no scheme, itself or in its url.
	addressed = []string{"imageurl", "videourl", "audiourl", "fileurl", "fileuri", "filedata", "serverurl"}
	media     = []string{"source", "image", "video", "audio", "file", "document", "inputimage", "inputvideo", "inputaudio", "inputfile"}
	// What is text, also when it is nothing but an address.
	texts = []string{"content", "text", "input", "instructions", "output", "prompt", "suffix", "refusal", "reasoning", "reasoningcontent", "summary", "thinking", "filename", "arguments"}
	// What was done with tools and said of texts: below them a key is only a name.
	told = []string{"arguments", "annotations", "action"}
)

// ownTools are the types of tools that the agent runs itself; the endpoint runs all others.
var ownTools = []string{"function", "custom", "local_shell", "apply_patch", "computer", "computer_use_preview"}

// plainKey is a key as the laxest reader knows it: without regard to case and underscores.
func plainKey(key string) string {
	// By way of the upper case, as one s and one k have no other way to the usual ones.
	return strings.ReplaceAll(strings.ToLower(strings.ToUpper(key)), "_", "")
}

// maxNesting is how deep a body may be nested.
const maxNesting = 500

// errUnread is a body that cannot be looked through.
var errUnread = errors.New("the body is not JSON, or is nested too deeply")

// level is an object or array of a body: the key that leads there, and the one that is read.
type level struct {
	object  bool
	at, key string
	reading bool // the next token is the value of key
	names   bool // keys in it are only names, of a schema or of what a tool is called with
}

// demandsOf looks through a whole body, with all its repeated keys.
func demandsOf(data []byte, p Protocol) (demands, error) {
	found := demands{protocol: p}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) && len(levels) == 0 {
			return found, nil
		}
		if err != nil || len(levels) > maxNesting {
			return found, errUnread
		}
		top := len(levels) - 1
		delim, isDelim := t.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			levels = levels[:top]
			continue
		}
		if top >= 0 && levels[top].object && !levels[top].reading {
			levels[top].key, levels[top].reading = t.(string), true
			continue
		}
		found.see(levels, t)
		at := ""
		if top >= 0 {
			levels[top].reading = false
			at = levels[top].at
			if levels[top].object {
				at = plainKey(levels[top].key)
			}
		}
		if isDelim {
			names := top >= 0 && (levels[top].names || found.isTold(levels, at) || top == 0 && slices.Contains(schemas, at))
			levels = append(levels, level{object: delim == '{', at: at, names: names})
		}
	}
}

// see takes in a value, of which t is the beginning, below levels.
func (f *demands) see(levels []level, t json.Token) {
	if len(levels) == 0 || t == nil || t == false { // what is not wanted
		return
	}
	last := levels[len(levels)-1]
	key := plainKey(last.key)
	if !last.object {
		key = last.at // of a list
	}
	tool := isTool(levels)
	text, _ := t.(string)
	switch {
	case len(levels) == 1 && slices.Contains(others, key):
		f.models = levels[0].key
	case len(levels) == 1 && slices.Contains(later, key):
		f.later = levels[0].key
	case len(levels) == 1 && slices.Contains(searches, key), !last.names && isRoute(key):
		f.elsewhere = fmt.Sprintf("%q", short(last.key))
	case tool && key == "type" && !f.isOwnTool(text) && (text != groupTools || len(levels) != 3):
		f.elsewhere = fmt.Sprintf("a tool of the type %q", short(text))
	case tool && slices.Contains(remoteTools, key):
		f.elsewhere = fmt.Sprintf("the tool %q", short(last.key))
	case len(levels) == 1 && key == "model" && strings.Contains(text, "://"),
		len(levels) <= 2 && key == "input" && strings.HasPrefix(text, "gs://"): // which LiteLLM takes for an image to embed
		f.elsewhere = fmt.Sprintf("an address in %q", key)
	case last.names && key != "$ref", slices.Contains(texts, key):
	case hasScheme(text),
		slices.Contains(addressed, key) && isAddress(text),
		(key == "url" || key == "uri") && (slices.Contains(addressed, last.at) || slices.Contains(media, last.at)) && isAddress(text):
		f.elsewhere = fmt.Sprintf("an address to fetch in %q", short(cmp.Or(last.key, last.at)))
	}
}

// groupTools is the type of a group of tools, each of which is looked at.
const groupTools = "namespace"

// isTool reports whether the keys that are read are those of a tool, or of one in a group.
func isTool(levels []level) bool {
	in := func(at int) bool { return plainKey(levels[at].key) == "tools" }
	return in(0) && (len(levels) == 3 || len(levels) == 5 && in(2))
}

func isRoute(key string) bool {
	return slices.Contains(routes, key) || slices.ContainsFunc(services, func(s string) bool { return strings.HasPrefix(key, s) })
}

// scheme is how an address begins. Some readers do without slashes where they know the
// scheme; a single letter is a drive of Windows.
var scheme = regexp.MustCompile(`^(?i:(https?|ftp|wss?|file|s3|gs):|[a-z][a-z0-9+.-]+:[/\\])`)

// hasScheme reports whether a text is an address, wherever it stands. Readers of addresses
// leave out blanks, some also in the middle.
func hasScheme(text string) bool {
	const longest = 64 // of a scheme
	var begin []rune
	for _, r := range text {
		if !unicode.IsSpace(r) && !unicode.IsControl(r) {
			begin = append(begin, r)
		}
		if len(begin) == longest {
			break
		}
	}
	return scheme.MatchString(string(begin))
}

// isAddress reports whether a text may be the address of something to fetch, and is not the
// thing itself, as a data URL or in base64.
func isAddress(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) > 0 && !(len(text) >= 5 && strings.EqualFold(text[:5], "data:")) && strings.ContainsAny(text, ":.")
}
