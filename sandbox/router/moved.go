package router

import (
	"errors"
	"fmt"
	"os"

	"gander.dev/gander/acp"
)

// stillThere fails when the session's directory is not the one any more that the sandbox
// and the kept files are of: it was renamed, deleted, replaced or unmounted. What is under
// its name goes by what the directory is, not by its name. The agent's sandbox is ended
// then, as its files are those of the old one. When the person says something again, the
// thread goes on in the new one.
func (s *session) stillThere() error {
	now, err := os.Stat(s.cwd)
	if err == nil && !now.IsDir() {
		err = fmt.Errorf("%s is a file now", s.cwd)
	}
	s.mu.Lock()
	if err == nil && os.SameFile(now, s.place) {
		s.offered = nil
		s.mu.Unlock()
		return nil
	}
	agreed := err == nil && s.offered != nil && os.SameFile(now, s.offered)
	if agreed {
		s.place, s.offered = now, nil
	} else {
		s.offered = now
	}
	b := s.backend
	s.mu.Unlock()
	if b != nil {
		b.close()
	}
	if sp := s.takeSpare(); sp != nil {
		sp.discard(s.r)
	}
	switch {
	case agreed:
		if c := s.files; c != nil {
			c.stop()
			<-c.prepared
			c.close()
		}
		s.compareFiles(s.r.opts.Changes)
		s.remark(fmt.Sprintf("From here on this thread works in the directory that is %s now. What its turns changed in the one before cannot be undone here.", s.cwd))
		return nil
	case errors.Is(err, os.ErrNotExist):
		return acp.Internal(fmt.Sprintf("the project %s is not there any more: it was renamed, deleted or unmounted while this thread was open. The agent was not asked. Put it back, or go on with this conversation where the project is now (session/fork with that directory)", s.cwd), nil)
	case err != nil:
		return acp.Internal(fmt.Sprintf("the project %s cannot be used any more: %v. The agent was not asked", s.cwd, err), nil)
	}
	return acp.Internal(fmt.Sprintf("the project %s was replaced: the directory of this name is another one than when this thread began. The agent was not asked. Send the prompt again to go on in the new one", s.cwd), nil)
}
