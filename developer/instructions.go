package developer

import (
	"fmt"
	"runtime"
	"strings"
)

// A Reader is whom instructions are for, as far as they depend on it.
type Reader struct {
	// WorkingDir is what stands for the working directory; empty means the
	// server's own. goose replaces the literal {{WORKING_DIR}} itself.
	WorkingDir string
	// HintFiles are the names of the files whose text is added for readers that do
	// not look for them on their own; none adds nothing.
	HintFiles []string
}

// Instructions tell a model how to use the tools.
func (t *Toolset) Instructions(r Reader) string {
	if t.table.Instructions == nil {
		return ""
	}
	return t.table.Instructions(r)
}

// machine is what instructions say about where the tools run.
type machine struct {
	os         string // GOOS
	workingDir string
	shell      string // empty on Windows
	container  bool
	jobs       bool
}

// instructionsFor is the text of a profile.
func instructionsFor(p Profile, m machine) string {
	var b strings.Builder
	if p == Current {
		b.WriteString(currentPurpose)
	} else {
		b.WriteString(classicPurpose)
	}
	if m.os == "windows" {
		b.WriteString(windowsUsage)
	} else {
		b.WriteString(unixUsage)
	}
	b.WriteString(m.facts())
	if p == Current {
		b.WriteString(currentEditing)
	} else {
		b.WriteString(classicEditing)
	}
	b.WriteString(shellCommon)
	if m.os == "windows" {
		b.WriteString(shellWindows)
	} else {
		b.WriteString(shellUnix)
	}
	if m.jobs {
		b.WriteString(shellJobs)
	}
	return b.String()
}

func (m machine) facts() string {
	name := m.os
	if name == "darwin" {
		name = "macos"
	}
	s := fmt.Sprintf("\noperating system: %s\ncurrent directory: %s\n", name, m.workingDir)
	if m.os != "windows" {
		s += "shell: " + m.shell + "\n"
	}
	if m.container {
		s += "container: true\n"
	}
	return s
}

const classicPurpose = `The developer extension lets you work on files and run commands on the person's machine: a shell, a text
editor, an analyser of source code, and the screen.

Begin with ` + "`analyze`" + ` in a code base that you do not know: on a directory it shows what is where, on a file its
functions, types and calls, with ` + "`focus`" + ` who calls a symbol and what it calls. It is quicker than reading files.

Use ` + "`list_windows`" + `, ` + "`screen_capture`" + ` and ` + "`image_processor`" + ` when the person asks about the screen or an image, and not otherwise.
`

const currentPurpose = `The developer extension lets you work on files and run commands on the person's machine. Look around with
` + "`tree`" + ` and ` + "`analyze`" + `, change files with ` + "`edit`" + ` and ` + "`write`" + `, look at images with ` + "`read_image`" + `, and use ` + "`shell`" + ` for the rest.
`

const unixUsage = `
Find files and text with ` + "`rg`" + ` (` + "`rg --files | rg name`" + `, ` + "`rg -n 'text' --type go`" + `), which skips what the project ignores.
Where it is missing, ask before you install it and use ` + "`find`" + ` and ` + "`grep`" + ` meanwhile. ` + "`ls -R`" + ` and ` + "`find /`" + ` print too much.
`

const windowsUsage = `
Find files and text with ` + "`rg`" + `, which skips what the project ignores; where it is missing, with ` + "`dir /s /b`" + ` and ` + "`findstr /s /n`" + `,
or in PowerShell with ` + "`Get-ChildItem -Recurse`" + ` and ` + "`Select-String`" + `. Paths may have drives (C:\work) and variables such as %USERPROFILE%.
`

const classicEditing = `
The text_editor tool reads and changes files. Its commands:
- view: the file with line numbers, or what is in a directory. view_range [first, last] shows a part; last may be -1.
- write: a whole file, new or replaced. For a part of a file take str_replace.
- str_replace: old_str must be in the file exactly once, so give enough lines around it; or a unified diff in ` + "`diff`" + `, which may change several files.
- insert: new_str after the line insert_line; 0 is the beginning, -1 the end.
- undo_edit: takes back the latest change of a file.
Look at a file before you change it, and at the section that comes back afterwards.
`

const currentEditing = `
` + "`edit`" + ` replaces a text that is in the file exactly once: give enough lines around it. ` + "`write`" + ` makes a new file or replaces a whole one.
Look at a file before you change it.
`

const shellCommon = `
The shell tool runs a command and returns what it printed on both streams, and its exit code when that is not 0.
- Each command begins in the working directory, in a shell of its own: variables and ` + "`cd`" + ` do not last from one call to the next.
- Nobody can answer: no terminal, no editor, no password prompt. Give every program the flags that keep it from asking.
- Keep output short. Of long output you see the end; the whole is in a file that the result names.
- A command that runs for ever, such as a server, goes to the background with its output in a file. What is still running when the
  session ends is ended too.
`

const shellUnix = `- Join commands that belong together with && and quote paths with spaces. ` + "`server > server.log 2>&1 &`" + ` runs in the background.
`

const shellWindows = `- The shell is PowerShell where there is one, else cmd. Join commands with ; in PowerShell, with && in cmd, and quote paths with spaces.
- Line ends may be CRLF; keep those of the file.
`

const shellJobs = `- Commands that take long can be background jobs instead: start one, go on, and read what it printed later.
`

// containerGroups reports whether the first process's control groups, the text of
// /proc/1/cgroup, are those of a container.
func containerGroups(cgroup string) bool {
	if strings.TrimSpace(cgroup) == "0::/" {
		return true
	}
	for _, mark := range []string{"/docker/", "/docker-", "/kubepods/", "/libpod-", "/lxc/", "/containerd/"} {
		if strings.Contains(cgroup, mark) {
			return true
		}
	}
	return false
}

// shellName is the shell that instructions name.
func shellName(variable string) string {
	if runtime.GOOS == "windows" {
		return ""
	}
	if variable == "" {
		return "/bin/sh"
	}
	return variable
}
