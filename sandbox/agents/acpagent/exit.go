package acpagent

import "fmt"

// signals names the signals that end commands, by what shells add to 128.
var signals = map[int]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV", 13: "PIPE", 14: "ALRM", 15: "TERM",
	24: "XCPU", 25: "XFSZ", 31: "SYS",
}

// ExitWords says how a command ended: with a code, which may stand for a signal.
func ExitWords(code int) string {
	if name := signals[code-128]; name != "" {
		return fmt.Sprintf("Command exited with code %d (signal %s)", code, name)
	}
	return fmt.Sprintf("Command exited with code %d", code)
}
