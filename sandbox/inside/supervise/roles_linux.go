package supervise

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The roles that the program takes besides the supervisor's.
const (
	roleLauncher = "launcher" // L
	roleShepherd = "shepherd"
)

// ownerFD is the first of the two descriptors of the connection to S in L and in a
// shepherd, and in S the one of the socket on which the host hands files over.
const ownerFD = 3

func runRole(role string, args []string) int {
	var err error
	switch role {
	case roleLauncher:
		err = withOwner(args, serveLauncher)
	case roleShepherd:
		err = withOwner(args, serveShepherd)
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "supervise %s: %v\n", role, err)
		return 1
	}
	return 0
}

// settle has the arguments take effect that who was started by S has; L's shepherds have
// none, and inherit.
func settle(args []string) error {
	if len(args) == 0 {
		return nil
	}
	var a ownArgs
	if err := json.Unmarshal([]byte(args[0]), &a); err != nil {
		return fmt.Errorf("reading the argument: %w", err)
	}
	return a.apply()
}

// withOwner prepares a process that stays and runs it on the socket to its owner.
func withOwner(args []string, serve func(*fdConn) error) error {
	if err := settle(args); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing the process to others: %w", err)
	}
	takeSignals(usual()...)
	return serve(ownerConn())
}
