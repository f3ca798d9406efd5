package clients

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ownFile is a file that is gander's alone, because the client's configuration is
// a program that only its author can edit; the person loads it from there.
type ownFile struct {
	comment string // what begins a comment
	first   string // the rest of the first line, which tells an editor about the file
	body    func(Entry) string
}

// writtenBy marks a file that may be replaced and removed.
const writtenBy = " Written by gander config; change it freely, gander config --write writes it anew."

func (f ownFile) document(e Entry) []byte {
	return []byte(f.comment + writtenBy + f.first + "\n" + f.body(e))
}

func (f ownFile) ours(old []byte) error {
	if !bytes.HasPrefix(old, []byte(f.comment+writtenBy)) {
		return errors.New("it is not a file that gander config wrote; name another one with --file, or move it away")
	}
	return nil
}

func (f ownFile) put(old []byte, e Entry) ([]byte, error) {
	if len(bytes.TrimSpace(old)) > 0 {
		if err := f.ours(old); err != nil {
			return nil, err
		}
	}
	return f.document(e), nil
}

func (f ownFile) take(old, _ []byte, _ Entry) ([]byte, error) {
	if len(old) == 0 {
		return old, nil
	}
	return nil, f.ours(old)
}

// quotedText matches a string literal of Lua or Lisp.
var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func (f ownFile) programs(old []byte) (found []string, err error) {
	if f.ours(old) != nil {
		return nil, nil // somebody else's program, which is not read
	}
	for _, literal := range quotedText.FindAllString(string(old), -1) {
		text, err := strconv.Unquote(literal)
		if err == nil && isGander(text, Entry{}) && strings.ContainsAny(text, `/\`) {
			found = append(found, text)
		}
	}
	return found, nil
}

// neovimModule is a Lua module that returns options of a plugin.
func neovimModule(e Entry) string {
	name := luaString(e.Name)
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = luaString(a)
	}
	if e.Plugin == "avante" {
		return fmt.Sprintf(`return {
  provider = %[1]s,
  acp_providers = {
    [%[1]s] = { command = %[2]s, args = { %[3]s }, env = {} },
  },
}
`, name, luaString(e.Command), strings.Join(args, ", "))
	}
	return fmt.Sprintf(`return {
  adapters = {
    acp = {
      [%[1]s] = function()
        return require("codecompanion.adapters").extend("goose", {
          name = %[1]s,
          formatted_name = "Gander",
          commands = { default = { %[2]s } },
          defaults = { timeout = 60000 },
        })
      end,
    },
  },
  interactions = { chat = { adapter = %[1]s } },
}
`, name, strings.Join(append([]string{luaString(e.Command)}, args...), ", "))
}

func neovimNext(_ string, e Entry) string {
	return fmt.Sprintf(`add it to the plugin's options; without the file this does nothing:
local found, gander = pcall(require, "gander_%[1]s")
require(%[1]q).setup(vim.tbl_deep_extend("force", { --[[ yours ]] }, found and gander or {}))`, e.Plugin)
}

// luaString is a string literal of Lua.
func luaString(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, b := range []byte(s) {
		switch {
		case b == '"' || b == '\\':
			out.WriteByte('\\')
			out.WriteByte(b)
		case b < ' ' || b == 0x7f:
			fmt.Fprintf(&out, `\%03d`, b)
		default:
			out.WriteByte(b)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// emacsModule adds an agent to agent-shell once that is loaded.
func emacsModule(e Entry) string {
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = lispString(a)
	}
	prompt := e.Name + "> "
	return fmt.Sprintf(`(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier 'gander
    :mode-line-name %[1]s
    :buffer-name %[1]s
    :shell-prompt %[2]s
    :shell-prompt-regexp (regexp-quote %[2]s)
    :client-maker (lambda (buffer)
                    (acp-make-client :command %[3]s
                                     :command-params '(%[4]s)
                                     :context-buffer buffer)))))
(provide 'gander-agent-shell)
`, lispString(e.Name), lispString(prompt), lispString(e.Command), strings.Join(args, " "))
}

// lispString is a string literal of Emacs Lisp.
func lispString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
