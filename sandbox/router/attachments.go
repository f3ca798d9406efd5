package router

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/project"
)

// Agents drop attachments that they do not know, or fail for them: in the prompt, and in
// every later one, as they are in the conversation then. So an agent gets text, images of
// the types that models take, and links to text; of everything else the name, and where the
// file is. What is embedded and no text is written to a file outside of the project.

const (
	// maxLinked bounds a file that agents may put into a prompt by its link, in bytes.
	maxLinked = 256 << 10
	// attachmentsDir stands in the home of a sandbox.
	attachmentsDir = ".gander-attachments"
)

// modelImages holds the types of images that models take.
var modelImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// attachments returns a prompt as the agent can take it, and tells the person of what it gets in
// another way.
func (t *turn) attachments(b *backend, prompt []acp.ContentBlock) []acp.ContentBlock {
	a := &attachments{t: t, b: b}
	var out []acp.ContentBlock
	for _, raw := range prompt {
		out = append(out, a.block(raw)...)
	}
	b.expectImages(a.images)
	return out
}

// attachments passes on those of one prompt.
type attachments struct {
	t      *turn
	b      *backend
	files  int
	images []string // how the data begins of those that the agent was given
}

func (a *attachments) say(severity, format string, args ...any) {
	a.t.s.tell(severity, fmt.Sprintf(format, args...))
}

func (a *attachments) block(raw acp.ContentBlock) []acp.ContentBlock {
	c := acp.ParseContentBlock(raw)
	kind, _, _ := mime.ParseMediaType(c.MimeType)
	switch {
	case c.Type == "image" && (slices.Contains(modelImages, kind) || c.Data == ""):
		a.images = append(a.images, c.Data[:min(len(c.Data), imageSample)])
		return []acp.ContentBlock{raw}
	case c.Type == "image":
		return a.file(c, c.Data)
	case c.Type == "resource" && c.Resource.Blob != "" && slices.Contains(modelImages, kind):
		return a.block(marshal(map[string]any{"type": "image", "data": c.Resource.Blob, "mimeType": kind, "uri": c.URI}))
	case c.Type == "resource" && c.Resource.Blob != "":
		return a.blob(c)
	case c.Type == "resource_link":
		return a.link(raw, c, kind)
	}
	return []acp.ContentBlock{raw}
}

// blob gives the agent an embedded resource that is not given as text: as text where it is some.
func (a *attachments) blob(c acp.Content) []acp.ContentBlock {
	data, err := base64.StdEncoding.DecodeString(c.Resource.Blob)
	if err == nil && utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
		return []acp.ContentBlock{marshal(map[string]any{"type": "resource", "resource": map[string]any{"uri": c.URI, "mimeType": "text/plain", "text": string(data)}})}
	}
	return a.file(c, c.Resource.Blob)
}

// file gives the agent data as a file in the sandbox.
func (a *attachments) file(c acp.Content, encoded string) []acp.ContentBlock {
	name := attachedName(c)
	data, err := base64.StdEncoding.DecodeString(encoded)
	at := ""
	if err == nil {
		a.files++
		at = path.Join(filepath.ToSlash(a.b.sb.Info().Home), attachmentsDir, a.t.id, fmt.Sprintf("%d-%s", a.files, safeName(name)))
		if direct {
			at = filepath.FromSlash(at)
		}
		err = a.b.writeInside(a.t.ctx, at, string(data))
	}
	if err != nil {
		a.say("warning", "The attachment %s (%s) was left out: %v.", name, cmp.Or(c.MimeType, "of no type"), err)
		return []acp.ContentBlock{acp.TextBlock(fmt.Sprintf("[The attachment %s was left out: it could not be given to you.]\n", name))}
	}
	a.say("info", "%s does not take attachments of the type %s: it gets %s as the file %s.", a.b.agent.Name(), cmp.Or(confine.Printable(c.MimeType), "unknown"), name, at)
	return []acp.ContentBlock{acp.TextBlock(fmt.Sprintf("[The attached file %s (%s, %d bytes) is at %s.]\n", name, cmp.Or(confine.Printable(c.MimeType), "type unknown"), len(data), at))}
}

// attachedName returns the name of an attachment, for people and agents.
func attachedName(c acp.Content) string {
	name := cmp.Or(c.Name, c.Title)
	if u, err := url.Parse(c.URI); name == "" && err == nil {
		name = path.Base(u.Path)
	}
	if name == "" || name == "." || name == "/" {
		name = "without a name"
	}
	return confine.Printable(name[:min(len(name), maxAttachedName)])
}

const maxAttachedName = 100

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// safeName returns a name that a file can have.
func safeName(name string) string { return strings.Trim(unsafeInName.ReplaceAllString(name, "_"), ".") }

// linkedLines matches the lines that editors name in a link: #L3, #L3-L9, #L3:9, ?lines=3-9, ?start=3&end=9.
var linkedLines = regexp.MustCompile(`(?i)^(?:L|line=|lines=)?(\d+)(?:[-:,]L?(\d+))?`)

// lines says which lines of a file a link is about; empty when it is about all.
func lines(u *url.URL) string {
	q := u.Query()
	from, to := q.Get("start"), q.Get("end")
	for _, text := range []string{u.Fragment, q.Get("lines"), q.Get("line")} {
		if m := linkedLines.FindStringSubmatch(text); m != nil && from == "" {
			from, to = m[1], m[2]
		}
	}
	if !linkedLines.MatchString(from) || to != "" && !linkedLines.MatchString(to) {
		return ""
	}
	if to == "" || to == from {
		return "line " + from
	}
	return "lines " + from + " to " + to
}

// link gives the agent a link as it is where it leads to a short text, else the path.
func (a *attachments) link(raw acp.ContentBlock, c acp.Content, kind string) []acp.ContentBlock {
	u, err := url.Parse(c.URI)
	if err != nil || !strings.EqualFold(u.Scheme, "file") || u.Path == "" {
		return []acp.ContentBlock{raw}
	}
	files := &attachedFiles{s: a.t.s}
	name := filepath.FromSlash(u.Path)
	if exact := strings.TrimPrefix(c.URI, "file://"); u.Fragment != "" && exists(exact) { // as some editors write names
		name, u = exact, &url.URL{Path: exact}
	}
	info := files.info(name)
	mention := func(what string) []acp.ContentBlock {
		return []acp.ContentBlock{acp.TextBlock(fmt.Sprintf("[%s: %s]\n", what, confine.Printable(name)))}
	}
	about := lines(u)
	switch {
	case about != "":
		return mention("The person points at " + about + " of the file")
	case info == nil:
		return []acp.ContentBlock{raw}
	case info.IsDir():
		return mention("The person points at the directory")
	case !info.Mode().IsRegular():
		a.say("warning", "%s is no file but a %s: it was left out of the prompt.", confine.Printable(name), modeName(info.Mode()))
		return mention("Left out, as it is no file but a " + modeName(info.Mode()))
	case info.Size() > maxLinked:
		return mention(fmt.Sprintf("The person attached this file of %d bytes; read what you need of it", info.Size()))
	case kind != "" && !isText(kind):
		a.say("info", "%s does not take links to files of the type %s: it gets the path of %s.", a.b.agent.Name(), confine.Printable(kind), attachedName(c))
		return mention(fmt.Sprintf("The person attached this file of the type %s", confine.Printable(kind)))
	}
	return []acp.ContentBlock{raw}
}

// isText reports whether agents take a file of a type as text.
func isText(kind string) bool { return strings.HasPrefix(kind, "text/") || kind == "application/json" }

func modeName(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// info looks at what is at a path, in the session's directories without following a link out of them;
// nil when that is nothing, or elsewhere.
func (f *attachedFiles) info(path string) os.FileInfo {
	for _, p := range f.all() {
		rel, ok := p.relative(filepath.Clean(path))
		if ok && rel == "." {
			info, _ := os.Stat(p.real)
			return info
		}
		if ok {
			if reached, err := project.Follow(p.dir, rel); err == nil && !reached.Outside {
				return reached.Info
			}
		}
	}
	return nil
}

// Images: goose leaves them out for models that it does not know, and says so to the model alone.

const (
	// imageSample bounds how much of an image's data it is known by, in bytes.
	imageSample = 64
	// minSample can be told from other text.
	minSample = 16
)

// expectImages notes the images that the agent is given with the prompt.
func (b *backend) expectImages(samples []string) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.images = slices.DeleteFunc(samples, func(s string) bool { return len(s) < minSample })
}

// withTools marks the calls by which an agent works on a prompt; those that make a title have none.
var withTools = []byte(`"tools"`)

// sent looks at a call of the model for the images that the person has attached, and tells
// when the agent has left them out.
func (b *backend) sent(body []byte) {
	b.s.mu.Lock()
	missing := 0
	if len(b.images) > 0 && bytes.Contains(body, withTools) {
		for _, sample := range b.images {
			if !bytes.Contains(body, []byte(sample)) {
				missing++
			}
		}
		b.images = nil
	}
	b.s.mu.Unlock()
	if missing > 0 {
		b.s.tell("warning", fmt.Sprintf("%s has left out %d of the attached images: it believes that the model cannot see them, and the answer is given without. Choose a model that it knows to see images (/model), or another agent (/agent).", b.agent.Name(), missing))
	}
}

// heal has the agent begin anew, from the text of the thread, when a prompt with attachments
// failed: they are in its own session, and might fail every prompt after it.
func (t *turn) heal(b *backend, prompt []acp.ContentBlock, err error) {
	attached := slices.ContainsFunc(prompt, func(raw acp.ContentBlock) bool { return acp.ContentType(raw) != "text" })
	if err == nil || !attached || errors.Is(err, context.Canceled) || t.ctx.Err() != nil || b.over() {
		return
	}
	t.s.restart(true)
	t.s.tell("info", fmt.Sprintf("The prompt that failed had attachments. %s begins anew with the text of this thread, so that they fail no further prompt.", b.agent.Name()))
}
