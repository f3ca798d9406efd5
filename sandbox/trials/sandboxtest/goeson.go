package sandboxtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gander.dev/gander/sandbox"
)

// goesOn is a program, in C as no other language forks as quickly, of which every process
// replaces itself by a child all the time, and lets itself go on when it is stopped: by a
// timer, and when its parent ends.
const goesOn = `
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void nothing(int number) {}

static void arm(void) {
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
	struct itimerspec often = {{0, 300000}, {0, 300000}};
	timer_t timer;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, 0);
	prctl(PR_SET_PDEATHSIG, SIGCONT);
}

static void replace(void) {
	struct timespec pause = {0, 200000};
	for (;;) {
		arm();
		nanosleep(&pause, 0);
		if (fork() > 0)
			_exit(0);
	}
}

int main(void) {
	signal(SIGCONT, nothing);
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			setsid();
			replace();
		}
	if (write(1, "ready\n", 6) == 6)
		for (;;)
			pause();
	return 1;
}
`

// testGoesOn kills what cannot be kept stopped while it is looked for. Without a namespace
// nothing stops everything at once.
func testGoesOn(t *testing.T, sb sandbox.Sandbox, project string) {
	const rounds, looks = 40, 10 // what replaces itself is seldom seen
	source := filepath.Join(t.TempDir(), "goes-on.c")
	if err := os.WriteFile(source, []byte(goesOn), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O1", "-static", "-o", filepath.Join(project, "goes-on"), source).CombinedOutput(); err != nil {
		t.Fatalf("gcc is needed: %v %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for round := range rounds {
		mark := Mark()
		since, err := sb.Mark(ctx)
		if err != nil {
			t.Fatal(err)
		}
		p := StartCommand(t, sb, sandbox.Command{Args: []string{"./goes-on"}, Env: Env(mark)})
		readLine(t, p.Stdout())
		if _, err := sb.KillSince(ctx, since); err != nil {
			t.Fatal(err)
		}
		for range looks {
			if left := Survivors(mark); len(left) > 0 {
				t.Fatalf("round %d: survivors: %q", round, left)
			}
		}
		Kill(t, p)
	}
}
