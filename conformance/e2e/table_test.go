package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// A row names the cells in which a test runs: few in make check, all that differ in make soak.
type row struct{ check, soak []spot }

// The table has a row for each test that runs in cells. In check, goose in the local sandbox
// runs every test. Docker is added where the sandbox matters, opencode (it takes ten times
// as long to start) where the agent does, and of a test that is about users one cell has
// an ordinary one.
var table = map[string]row{
	// Prompts, cancels and ends.
	"TestPrompt":                          {in(gooseLocal.user(), gooseDocker, opencodeLocal, opencodeDocker.user()), allUsers},
	"TestTwoSessions":                     {in(gooseLocal), all},
	"TestPromptsWaitInOrder":              {in(gooseLocal), all},
	"TestQueueAndNow":                     {in(gooseLocal), all},
	"TestHowCommandsEnd":                  {in(gooseLocal, opencodeLocal), all},
	"TestRewind":                          {in(gooseLocal), all},
	"TestAgentDies":                       {in(gooseLocal), all},
	"TestWhatIsMissingIsSaid":             {in(gooseLocal, gooseDocker), all},
	"TestBigFrames":                       {in(gooseLocal), all},
	"TestRun":                             {in(gooseLocal.user()), allUsers},
	"TestRunWithoutSession":               {in(gooseLocal), all},
	"TestDemo":                            {in(gooseLocal.user()), in(gooseLocal, gooseLocal.user())}, // each runs all agents
	"TestCancelShell":                     {in(gooseLocal.user(), gooseDocker, opencodeLocal), allUsers},
	"TestCancelWhileTheModelHangs":        {in(gooseLocal.user()), allUsers},
	"TestCancelWhileAPermissionWaits":     {in(gooseLocal.user()), allUsers},
	"TestCancelWhileIdle":                 {in(gooseLocal), all},
	"TestCancelRequest":                   {in(gooseLocal), all},
	"TestCancelWhileTheEditorDoesNotRead": {in(gooseLocal), all},
	"TestEndOfGander":                     {in(gooseLocal, gooseDocker.user()), allUsers},
	"TestKilledGanderIsClearedAway":       {in(gooseLocal, gooseDocker), in(gooseLocal, gooseDocker)},
	"TestKilledGanderKeepsNothing":        {in(gooseLocal), local},
	// Decisions of a person, and the screen.
	"TestPermission":                       {in(gooseLocal, opencodeLocal), all},
	"TestRememberedPermission":             {in(gooseLocal), all},
	"TestModes":                            {in(gooseLocal), all},
	"TestAgentIsChosen":                    {in(gooseLocal), all},
	"TestConfigOptions":                    {in(gooseLocal), all},
	"TestSessionSaysWhatIsClosed":          {in(gooseLocal), all},
	"TestSessionTellsItsCost":              {in(gooseLocal), all},
	"TestChangesByCommands":                {in(gooseLocal.user(), gooseDocker), allUsers},
	"TestUndoWhileAnotherThreadWorks":      {in(gooseLocal.user(), gooseDocker), allUsers},
	"TestAttachments":                      {in(gooseLocal, opencodeLocal), all},
	"TestFilesOfTheEditor":                 {in(gooseLocal), in(gooseLocal, gooseDocker)},
	"TestFilesOfTheEditorByDeveloperTools": {in(gooseDocker), all},
	"TestDeveloperTools":                   {in(gooseLocal, opencodeLocal), all},
	"TestTerminals":                        {in(gooseLocal), local},
	"TestServersOfTheEditor":               {in(gooseLocal, gooseDocker), all},
	"TestServersWithAnAddress":             {in(gooseLocal), all},
	"TestSilentServersOfTheEditor":         {in(gooseLocal), all},
	"TestQuestionsOfServers":               {in(gooseLocal), all},
	"TestAdditionalDirectories":            {in(gooseLocal, gooseDocker), in(gooseLocal, gooseDocker)},
	// Sessions that are kept.
	"TestHotSwap":         {in(gooseLocal), all}, // to opencode and back
	"TestLoadAfterTheEnd": {in(gooseLocal, opencodeLocal), all},
	"TestStoredSessions":  {in(gooseLocal), local},
	"TestCrashes":         {in(gooseLocal), local},
	"TestPowerLoss":       {in(gooseLocal), local},
	// Other clients.
	"TestAcpx":        {in(gooseLocal), all},
	"TestAcpxSession": {in(gooseLocal), local},
	"TestGoSDK":       {in(gooseLocal), local},
	// Nothing leaves the sandbox.
	"TestKeyStaysOutside":      {in(gooseLocal.user(), gooseDocker, opencodeLocal), allUsers},
	"TestNothingLeaves":        {in(gooseLocal.user(), gooseDocker), allUsers},
	"TestExits":                {in(gooseLocal.user(), gooseDocker), in(gooseLocal, gooseLocal.user(), gooseDocker, gooseDocker.user())},
	"TestAllowedHost":          {in(gooseLocal, gooseDocker), all},
	"TestHostIsAskedFor":       {in(gooseLocal), all},
	"TestBudgetIsUsedUp":       {in(gooseLocal, opencodeLocal), all},
	"TestModelsOfTheEndpoint":  {in(gooseLocal), all},
	"TestModelIsNotAllowed":    {in(gooseLocal), all},
	"TestStorms":               {in(gooseLocal, opencodeLocal), all},
	"TestProjectMoves":         {in(gooseLocal), all},
	"TestOrchestrator":         {in(gooseLocal), all},
	"TestScenarios":            {in(gooseLocal.user()), in(gooseLocal, gooseLocal.user(), gooseDocker)}, // each runs both agents
	"TestAgentPlans":           {in(gooseLocal), local},
	"TestOrchestratorInjected": {in(gooseLocal), in(gooseLocal)}, // agents of its own
	"TestOrchestratorKilled":   {in(gooseLocal), in(gooseLocal)}, // agents of its own
	"TestTasksAsChildSessions": {in(gooseLocal), all},
	"TestChildrenOfAgents":     {in(gooseLocal), all},
	"TestChildThatAsks":        {in(opencodeLocal), in(opencodeLocal, opencodeDocker)},
	"TestSkills":               {in(opencodeLocal, gooseDocker), all},
	"TestCanaries":             {in(gooseLocal), all},
	"TestGitIsHidden":          {in(gooseLocal, gooseDocker), all},
	"TestDevServer":            {in(gooseLocal), local},
	"TestPlugins":              {in(gooseLocal), all},
	// Loops: those of TestLoops and TestPage run side by side, two by two.
	"TestLoops":              {in(gooseLocal, opencodeDocker), in(gooseLocal, opencodeDocker, gooseDocker, opencodeLocal)},
	"TestPage":               {in(gooseLocal, opencodeDocker), in(gooseLocal, opencodeDocker, gooseDocker, opencodeLocal)}, // a pair are two agents: each has one run at a time
	"TestLoopKilled":         {in(gooseLocal, gooseDocker), all},
	"TestLoopModelDown":      {in(gooseLocal), local},
	"TestLoopRun":            {in(gooseLocal), local},
	"TestLoopReceivers":      {in(gooseLocal), in(gooseLocal)},
	"TestQuestionsOnThePage": {in(gooseLocal), in(gooseLocal, gooseDocker)}, // opencode shows no forms
	// In one place of their own, too slow for check.
	"TestKeyIsInNoImage":             {nil, in(gooseDocker)},                    // builds an image again
	"TestFirstHour":                  {nil, in(gooseLocal.user(), gooseDocker)}, // builds gander without a cache
	"TestWindows":                    {nil, in(gooseLocal)},                     // wine
	"TestDeveloperConformsOnWindows": {nil, in(gooseLocal)},                     // wine
}

// A spot is a cell with the user that it runs as.
type spot struct {
	cell
	ordinary bool
}

var (
	gooseLocal     = spot{cell: cell{agents[0], drivers[0]}}
	gooseDocker    = spot{cell: cell{agents[0], drivers[1]}}
	opencodeLocal  = spot{cell: cell{agents[1], drivers[0]}}
	opencodeDocker = spot{cell: cell{agents[1], drivers[1]}}

	all      = in(gooseLocal, opencodeLocal, gooseDocker, opencodeDocker)
	local    = in(gooseLocal, opencodeLocal)
	allUsers = slices.Concat(all, in(gooseLocal.user(), opencodeLocal.user(), gooseDocker.user(), opencodeDocker.user()))
)

func in(spots ...spot) []spot { return spots }

// user returns the cell as an ordinary user has it.
func (s spot) user() spot { return spot{s.cell, true} }

func (s spot) String() string {
	if s.ordinary {
		return s.cell.String() + " as an ordinary user"
	}
	return s.cell.String()
}

// everywhere says that tests run in all cells, as soak wants it.
var everywhere = os.Getenv("GANDER_EVERYWHERE") == "1"

// spots returns where a test runs, by its row in the table. A test that has nothing there
// in check is skipped.
func spots(t *testing.T) []spot {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	r, ok := table[name]
	switch {
	case !ok:
		t.Fatalf("%s has no row in the table of cells", name)
	case everywhere:
		return r.soak
	case len(r.check) == 0:
		t.Skip("make soak runs this test, and make check does not")
	}
	return r.check
}

// inCells runs a test in the cells that the table has for it, one after the other, beside
// other tests: each has its own home, model and project.
func inCells(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for _, s := range spots(t) {
		s.run(t, f)
	}
}

// run runs a test in one cell.
func (s spot) run(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run(s.String(), func(t *testing.T) {
		uid := 0
		if s.ordinary {
			needRoot(t)
			uid = ordinaryUser
		}
		s.driver.need(t)
		f(t, newWorld(t, s.cell, uid))
	})
}

// The table has a row for each test that runs in cells, and for no other; what runs in
// check runs in soak, too.
func TestTable(t *testing.T) {
	tests := map[string]bool{} // whether it asks the table
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if !strings.HasSuffix(n.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), n.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = asksTheTable(f)
			}
		}
	}
	if len(tests) < len(table) {
		t.Errorf("only %d tests were found", len(tests))
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if _, ok := table[name]; tests[name] && !ok {
			t.Errorf("%s runs in cells and has no row in the table", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		uses, ok := tests[name]
		switch r := table[name]; {
		case !ok:
			t.Errorf("the table has a row for %s, and there is no such test", name)
		case !uses:
			t.Errorf("the table has a row for %s, which does not ask for its cells", name)
		case len(r.soak) == 0:
			t.Errorf("%s runs nowhere in soak", name)
		default:
			for _, s := range r.check {
				if !slices.Contains(r.soak, s) {
					t.Errorf("%s runs in check, and not in soak, in %v", name, s)
				}
			}
		}
	}
}

// asksTheTable reports whether a test calls inCells or spots.
func asksTheTable(f *ast.FuncDecl) (asks bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok && (name.Name == "inCells" || name.Name == "spots") {
				asks = true
			}
		}
		return true
	})
	return asks
}
