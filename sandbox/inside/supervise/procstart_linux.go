package supervise

// ProcessStart says when a process began, in units of the operating system. With
// the process id it names a process for all time. An error means that there is
// no such process; one that has ended and was not waited for counts as none.
func ProcessStart(pid int) (uint64, error) {
	p, err := readProc(pid)
	if err != nil {
		return 0, err
	}
	if p.dead {
		return 0, errNoProcess
	}
	return p.start, nil
}
