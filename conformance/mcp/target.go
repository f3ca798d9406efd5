package mcp

import (
	"fmt"
	"runtime"
	"strings"
)

// windows says whether the server is one for Windows.
func (r *runner) windows() bool { return r.o.Platform == "windows" }

// target is a file of the harness as the server names it.
func (r *runner) target(host string) string {
	if r.windows() && runtime.GOOS != "windows" { // wine
		return `Z:` + strings.ReplaceAll(host, "/", `\`)
	}
	return host
}

// lf takes the platform's line endings from a text.
func lf(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// A dialect is the language of the server's shell.
type dialect int

const (
	posix dialect = iota
	cmdexe
	powershell
)

func dialectOf(platform string) dialect {
	if platform == "windows" {
		return cmdexe
	}
	return posix
}

// pick is the variant of a command for the dialect.
func (d dialect) pick(posixText, cmdText, powershellText string) string {
	return []string{posixText, cmdText, powershellText}[d]
}

func (d dialect) echo(text string) string {
	return d.pick("printf '%s\\n' '"+text+"'", "echo "+text, "Write-Output '"+text+"'")
}

func (d dialect) echoErr(text string) string {
	return d.pick("printf '%s\\n' '"+text+"' >&2", "echo "+text+">&2", "[Console]::Error.WriteLine('"+text+"')")
}

// then runs one command after the other.
func (d dialect) then(commands ...string) string {
	return strings.Join(commands, d.pick("; ", "& ", "; "))
}

// sleep waits long enough for any check to notice.
func (d dialect) sleep() string {
	return d.pick("sleep 600", "ping -n 600 127.0.0.1 >nul", "Start-Sleep 600")
}

func (d dialect) exit(code int) string { return fmt.Sprintf("exit %d", code) }

func (d dialect) pwd() string { return d.pick("pwd", "cd", "(Get-Location).Path") }

func (d dialect) getenv(name string) string {
	return d.pick(`printf '%s\n' "[$`+name+`]"`, "echo [%"+name+"%]", "Write-Output \"[$env:"+name+"]\"")
}

// lines prints the numbers from 1 to n, each on a line of its own.
func (d dialect) lines(n int) string {
	return d.pick(fmt.Sprintf("seq 1 %d", n), fmt.Sprintf("for /L %%i in (1,1,%d) do @echo %%i", n), fmt.Sprintf("1..%d", n))
}

// await waits until a file is there, which is named as the server names it.
func (d dialect) await(file string) string {
	return d.pick("until [ -e '"+file+"' ]; do sleep 0.02; done",
		"for /L %i in (1,0,2) do @if exist \""+file+"\" exit 0",
		"while (-not (Test-Path '"+file+"')) { Start-Sleep -Milliseconds 20 }")
}

// touch makes an empty file.
func (d dialect) touch(file string) string {
	return d.pick(": > '"+file+"'", "type nul>\""+file+"\"", "New-Item -ItemType File '"+file+"' | Out-Null")
}

// show prints a file.
func (d dialect) show(file string) string { return d.pick("cat ", "type ", "Get-Content ") + file }

// carry marks the rest of a command: everything that it starts inherits it.
func (d dialect) carry(mark, command string) string {
	return d.pick("export "+markVariable+"="+mark+"; ", "set "+markVariable+"="+mark+"& ", "$env:"+markVariable+"='"+mark+"'; ") + command
}

// learnShell finds out what the server's shell is and whether it has the
// harness's environment.
func (p *probe) learnShell(s *server) {
	f := &p.runner.facts
	if p.windows() {
		if a := p.callOn(s, "shell", args{"command": "echo %OS%"}); strings.Contains(a.text("assistant"), "%OS%") {
			f.dialect = powershell
		}
	}
	a := p.callOn(s, "shell", args{"command": f.dialect.getenv(markVariable)})
	f.sees = strings.Contains(a.text("assistant"), s.Mark)
}

// expand replaces a placeholder of a command.
func expand(command, placeholder, with string) string {
	return strings.ReplaceAll(command, placeholder, with)
}
