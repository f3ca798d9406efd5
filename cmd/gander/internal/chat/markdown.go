package chat

import (
	"regexp"
	"slices"
	"strings"

	"charm.land/glamour/v2"
	"charm.land/glamour/v2/ansi"
	"charm.land/glamour/v2/styles"
	xansi "github.com/charmbracelet/x/ansi"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// render returns a block of Markdown as lines of at most width columns.
func render(block []string, width int, plain bool) []string {
	look := colouredLook()
	if plain {
		look = plainLook()
	}
	var text string
	r, err := glamour.NewTermRenderer(glamour.WithStyles(look), glamour.WithWordWrap(max(width, leastWidth)),
		glamour.WithPreservedNewLines(), glamour.WithInlineTableLinks(true), glamour.WithChromaFormatter("terminal16"))
	if err == nil {
		text, err = r.Render(literally(block))
	}
	if err != nil {
		text = strings.Join(block, "\n") // as it came
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = xansi.Hardwrap(onlyColours(line), width, true) // where it breaks after a hyphen, Glamour's line is too long
		lines = append(lines, strings.Split(line, "\n")...)
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return slices.Clip(lines)
}

var (
	colour    = regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	hyperlink = regexp.MustCompile(`\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)`)
	padding   = regexp.MustCompile(`(?: |\x1b\[[0-9;:]*m)+$`)
)

// onlyColours removes everything from a line that controls a terminal, except for colours:
// Glamour makes characters of entities such as &#27;. It also removes hyperlinks, whose text may
// lie about the address beside it, and the spaces at the end.
func onlyColours(line string) string {
	line = padding.ReplaceAllString(hyperlink.ReplaceAllString(line, ""), "")
	var b strings.Builder
	end := 0
	for _, at := range colour.FindAllStringIndex(line, -1) {
		b.WriteString(cli.Printable(line[end:at[0]]) + line[at[0]:at[1]])
		end = at[1]
	}
	b.WriteString(cli.Printable(line[end:]))
	if end > 0 {
		b.WriteString(cli.Plain)
	}
	return b.String()
}

// markup matches code spans, in which Glamour resolves entities, tags and links in angle
// brackets, and the beginning of an entity that names a character by its number.
var markup = regexp.MustCompile("`+[^`]+`+|<(?:https?://[^<>\\s]*>)?|&#")

var escapes = strings.NewReplacer("<", "&lt;", "&", "&amp;")

// literally escapes HTML in a block, so that it is shown: Markdown takes Vec<String> for a tag.
func literally(block []string) string {
	var b strings.Builder
	var code fence
	indented := true // so far each line is of an indented code block
	for _, line := range block {
		indented = indented && strings.HasPrefix(line, "    ")
		switch {
		case code.mark != "":
			if code.endsAt(line) {
				code = fence{}
			}
		case indented:
		default:
			if code = fenceOf(line); code.mark == "" {
				line = markup.ReplaceAllStringFunc(line, func(s string) string {
					if strings.HasPrefix(s, "<http") {
						return s
					}
					return escapes.Replace(s)
				})
			}
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// plainLook shows text without colours: emphasis keeps its marks.
func plainLook() ansi.StyleConfig {
	look := styles.ASCIIStyleConfig
	look.Document = ansi.StyleBlock{}
	look.List.LevelIndent = 2
	look.Item.BlockPrefix = "- "
	look.Code.Prefix, look.Code.Suffix = "`", "`"
	return look
}

// colouredLook shows text in the terminal's own sixteen colours, which suit its background.
func colouredLook() ansi.StyleConfig {
	look := plainLook()
	yes, blue, cyan, grey := true, "4", "6", "8"
	look.Heading.Bold = &yes
	look.Strong = ansi.StylePrimitive{Bold: &yes}
	look.Emph = ansi.StylePrimitive{Italic: &yes}
	look.Strikethrough = ansi.StylePrimitive{CrossedOut: &yes}
	look.HorizontalRule.Color = &grey
	look.Item.BlockPrefix = "• "
	look.Task.Ticked = "[✓] "
	look.Link = ansi.StylePrimitive{Color: &blue, Underline: &yes}
	look.LinkText = ansi.StylePrimitive{Bold: &yes}
	look.Code = ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Color: &cyan}}
	in := func(colour string) ansi.StylePrimitive { return ansi.StylePrimitive{Color: &colour} }
	look.Table = ansi.StyleTable{}
	look.CodeBlock.Chroma = &ansi.Chroma{
		Comment: in("#ansidarkgray"), Keyword: in("#ansidarkblue"), NameFunction: in("#ansiteal"), NameTag: in("#ansidarkblue"),
		LiteralString: in("#ansidarkgreen"), LiteralNumber: in("#ansipurple"),
		GenericDeleted: in("#ansidarkred"), GenericInserted: in("#ansidarkgreen"), GenericSubheading: in("#ansiteal"),
	}
	return look
}
