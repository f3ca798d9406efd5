package supervise

import (
	"strings"
	"testing"
)

func TestIsBatch(t *testing.T) {
	for program, want := range map[string]bool{
		`C:\x\tool.cmd`: true, `tool.BAT`: true, `C:tool.cmd`: true, `x/tool.cmd. .`: true, `C:\x\tool.cmd::$DATA`: true, `tool.cmd `: true,
		`C:\x\tool.exe`: false, `C:\x.cmd\tool`: false, `tool`: false, `cmd`: false, `cmd.exe`: false, `tool.cmd.exe`: false, ``: false, `C:\`: false,
	} {
		if got := isBatch(program); got != want {
			t.Errorf("%q is a batch file: %v, want %v", program, got, want)
		}
	}
}

func TestBatchLine(t *testing.T) {
	const program, begin = `C:\a b\tool.cmd`, `cmd.exe /e:on /v:off /d /s /c ""C:\a b\tool.cmd"`
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, ``},
		{[]string{"run", "--flag", "a.b/c:d@1.2_3"}, ` run --flag a.b/c:d@1.2_3`},
		{[]string{"c&d"}, ` "c&d"`},
		{[]string{"a b", "", "^", "a|b", "(x)", "<y>", "*", "!v!", "a,b;c=d", "ü"}, ` "a b" "" "^" "a|b" "(x)" "<y>" "*" "!v!" "a,b;c=d" "ü"`},
		{[]string{`C:\dir\`, `a\\`, `a\b`}, ` "C:\dir\\" "a\\\\" a\b`},
	} {
		if got, err := batchLine(program, tt.args); err != nil || got != begin+tt.want+`"` {
			t.Errorf("%q: %s, %v; want %s", tt.args, got, err, begin+tt.want+`"`)
		}
	}
	for _, arg := range []string{`a"&calc`, "%PATH%", "50%", "a\r\ncalc", "a\ncalc", "a\x00b"} {
		if got, err := batchLine(program, []string{"fine", arg}); err == nil || !strings.Contains(err.Error(), "cmd.exe would interpret") {
			t.Errorf("%q: %s, %v", arg, got, err)
		}
	}
	if got, err := batchLine(`C:\100%\tool.cmd`, nil); err == nil {
		t.Errorf("a name with a percent sign: %s", got)
	}
}
