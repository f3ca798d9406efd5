package supervise

import (
	"fmt"
	"strings"
)

// isBatch reports whether Windows has cmd.exe run a program: by its name, at whose end
// dots and spaces do not count, and of which a stream may be named.
func isBatch(program string) bool {
	name := strings.ToLower(program[strings.LastIndexAny(program, `\/`)+1:])
	if len(name) > 1 && name[1] == ':' { // a drive
		name = name[2:]
	}
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return strings.HasSuffix(name, ".bat") || strings.HasSuffix(name, ".cmd")
}

// batchLine is the command line by which cmd.exe runs a batch file with arguments that
// stay arguments. cmd.exe takes what stands between quotes as it is, but for variables and
// the ends of quotes and lines: what has one of these in it is refused, because no way to
// write it works in every batch file.
func batchLine(program string, args []string) (string, error) {
	words := []string{`"` + program + `"`}
	if strings.ContainsAny(program, batchRefused) {
		return "", fmt.Errorf("%q is a batch file, and cmd.exe cannot be told its name without interpreting it", program)
	}
	for _, arg := range args {
		if strings.ContainsAny(arg, batchRefused) {
			return "", fmt.Errorf(`%s is a batch file, and cmd.exe would interpret the quotes, percent signs or line ends in its argument %q; run the program that it starts, or put the argument into a file`, program, arg)
		}
		words = append(words, batchWord(arg))
	}
	return `cmd.exe /e:on /v:off /d /s /c "` + strings.Join(words, " ") + `"`, nil
}

// batchRefused are the characters that mean something to cmd.exe between quotes, too.
const batchRefused = "\"%\r\n\x00"

// batchPlain are the characters that mean nothing to cmd.exe without quotes either, besides
// letters and digits. Batch files see the quotes of others.
const batchPlain = `-_./:\@#$+`

// batchWord is an argument in quotes, where it needs them. Backslashes before the last one
// are doubled, as the program reads them that the batch file passes it on to.
func batchWord(arg string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(batchPlain, r)
	}
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool { return !plain(r) }) && !strings.HasSuffix(arg, `\`) {
		return arg
	}
	slashes := len(arg) - len(strings.TrimRight(arg, `\`))
	return `"` + arg + strings.Repeat(`\`, slashes) + `"`
}
