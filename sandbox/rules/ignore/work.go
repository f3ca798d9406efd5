package ignore

// work counts what it took to compare a path, and the directories that it is in, with
// rules: a step is a rule, or a byte of a path beside an element of an expression. It is the same
// for the same path and rules, whatever was asked before, and a path that takes more than
// [mostWork] is hidden: who writes a rules file keeps nobody waiting with it.
type work int

// mostWork is half a second where a step takes 30 ns, and many times what is needed for
// a path of 300 bytes and the largest rules files that people have.
const mostWork work = 1 << 24

func (w *work) tooMuch() bool { return *w > mostWork }

// begin is the work of coming to a rule: there can be very many of them.
func (w *work) begin() { *w++ }

// look is that of [rule.mayMatch].
func (w *work) look(s string) { *w += work(len(s) / 16) }

// compare is that of a rule's expression.
func (w *work) compare(s string, tokens []token) { *w += work(len(s)+1) * work(len(tokens)) }

// tooMuchWork is the rule that hides what takes too long. It stands for the file of the
// rule that was the last to be compared.
func tooMuchWork(last *rule) *rule {
	text := "everything that takes too long to compare with the rules; write fewer or simpler wildcards"
	return &rule{Rule: Rule{File: last.File, Text: text}}
}
