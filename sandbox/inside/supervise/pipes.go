package supervise

import "os"

// pipes are the supervisor's ends of a command's standard streams; nil where the
// command has something else than a pipe to it.
type pipes struct{ stdin, stdout, stderr *os.File }

// newPipes makes the pipes of a command. The second result are the command's ends,
// or what it has in their place.
func newPipes(params startParams) (p *pipes, child [3]*os.File, err error) {
	p = &pipes{}
	var open []*os.File
	for i, end := range []**os.File{&p.stdin, &p.stdout, &p.stderr} {
		var r, w *os.File
		if path := params.instead(i); path != "" {
			child[i], err = openInstead(i, path)
			open = append(open, child[i])
		} else if r, w, err = os.Pipe(); err == nil {
			open = append(open, r, w)
			widen(w)
			if i == 0 {
				r, w = w, r
			}
			*end, child[i] = r, w
		}
		if err != nil {
			closeFiles(open...)
			return nil, child, err
		}
	}
	return p, child, nil
}

// instead is the path of what a command has in place of a pipe to us.
func (p startParams) instead(fd int) string {
	switch {
	case fd == 0 && p.NullStdin:
		return os.DevNull
	case fd == 1:
		return p.StdoutPath
	case fd == 2:
		return p.StderrPath
	}
	return ""
}

func openInstead(fd int, path string) (*os.File, error) {
	if fd == 0 {
		return os.Open(path)
	}
	return os.OpenFile(path, os.O_WRONLY, 0)
}
