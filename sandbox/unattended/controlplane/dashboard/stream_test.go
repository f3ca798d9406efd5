package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/conformance/browsertest"
	"gander.dev/gander/sandbox/telemetry"
)

// texts are events with a text each, from number first on.
func texts(first, n int64) []telemetry.Event {
	var events []telemetry.Event
	for i := range n {
		text := fmt.Sprintf("event-%d", first+i)
		events = append(events, telemetry.Event{Iteration: 1, Type: telemetry.Text, Summary: text, Content: text})
	}
	return events
}

// rows are the numbers of the events on the page, in its order; the start of an iteration has no row.
const rows = `[...document.querySelectorAll(".stream li")].map((li) => Number(li.dataset.seq))`

// contiguous fails when the page shows an event twice, out of order or not at all, or ends before last.
func contiguous(t *testing.T, p *browsertest.Page, last int64) {
	t.Helper()
	p.Wait(fmt.Sprintf("event %d on the page", last), fmt.Sprintf(`%s.at(-1) === %d`, rows, last))
	var seqs []int64
	p.Eval(rows, &seqs)
	for i := 1; i < len(seqs); i++ {
		if seqs[i] != seqs[i-1]+1 && seqs[i-1] != 1 { // 2 is the start of the iteration, a heading
			t.Fatalf("after event %d comes %d", seqs[i-1], seqs[i])
		}
	}
}

// The control plane dies while events come and is back later: nothing is lost, nothing is doubled.
func TestKilledServer(t *testing.T) {
	w := newWorld(t)
	run := w.run("goose")
	p := w.page(browsertest.Options{Dark: true})
	w.Fleet.Emit(run, telemetry.Event{Iteration: 1, Type: telemetry.IterationStart})
	next := w.last(run) + 1
	tell := func(n int64) {
		t.Helper()
		w.Fleet.Emit(run, texts(next, n)...)
		next += n
	}
	for range 4 {
		tell(40)
		w.Stop()
		p.WaitText("#connection", "Offline")
		p.WaitText("#notice", "cannot be reached")
		w.Restart()
		tell(40) // before the page is back: it does not see these live
		p.WaitText("#connection", "Live")
		tell(3)
		contiguous(t, p, next-1)
	}
	var whole int
	p.Eval(rows+".length", &whole)
	if want := int(w.last(run)) - 1; whole != want { // the start of the iteration is a heading
		t.Errorf("%d events are on the page, %d happened", whole, want)
	}
	p.Shot("after-four-deaths")

	// Much more than a window holds: the end is shown, and the rest can be had.
	w.Stop()
	p.WaitText("#connection", "Offline")
	w.Restart()
	for range 14 {
		tell(500)
	}
	p.WaitText("#connection", "Live")
	contiguous(t, p, next-1)
	p.Clean(w.URL, "ERR_CONNECTION_REFUSED", "WebSocket connection", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "503")
}

// A thousand events a second: the page shows the newest, stays small, and lets the reader go back through all of them.
func TestFlood(t *testing.T) {
	w := newWorld(t)
	run := w.run("goose")
	p := w.page(browsertest.Options{})
	w.Fleet.Emit(run, telemetry.Event{Iteration: 1, Type: telemetry.IterationStart})
	const seconds, perBatch = 4, 100
	tick := time.NewTicker(time.Second / (1000 / perBatch))
	defer tick.Stop()
	p.Eval(`(() => { window.most = 0; window.drawn = 0;
		setInterval(() => { window.most = Math.max(window.most, document.querySelectorAll("#streams *").length); }, 50);
		const frame = () => { window.drawn++; requestAnimationFrame(frame); }; frame(); })()`, nil)
	begun, next := time.Now(), w.last(run)+1
	for range seconds * 1000 / perBatch {
		<-tick.C
		w.Fleet.Emit(run, texts(next, perBatch)...)
		next += perBatch
	}
	contiguous(t, p, next-1)
	took := time.Since(begun)
	var most, drawn int
	p.Eval("window.most", &most)
	p.Eval("window.drawn", &drawn)
	t.Logf("%d events in %v; at most %d elements in the stream; %.0f frames a second", seconds*1000, took.Round(time.Millisecond), most, float64(drawn)/took.Seconds())
	if most > 8000 {
		t.Errorf("the stream grew to %d elements", most)
	}
	// The reader goes back to the very first event.
	for i := 0; ; i++ {
		var first int64
		p.Eval(rows+"[0]", &first)
		if first == 1 {
			break
		}
		if i > 60 {
			t.Fatalf("after %d pages the first event is %d", i, first)
		}
		p.Eval(`document.querySelector(".scroller").scrollTop = 0`, nil)
		p.ClickText(".stream", "Load earlier events")
		p.Wait(fmt.Sprintf("events before %d", first), fmt.Sprintf("%s[0] < %d", rows, first))
	}
	p.WaitText(".stream", "event-3")
	p.WaitText(".jump", "newer event")
	p.Shot("flood-first")
	p.Click(".jump")
	contiguous(t, p, next-1)
	p.Clean(w.URL)
}

// The stream follows its end until the reader scrolls away, and again when the reader comes back.
func TestFollow(t *testing.T) {
	w := newWorld(t)
	run := w.run("goose")
	p := w.page(browsertest.Options{})
	w.Fleet.Emit(run, append([]telemetry.Event{{Iteration: 1, Type: telemetry.IterationStart}}, texts(3, 200)...)...)
	const below = `(() => { const s = document.querySelector(".scroller"); return s.scrollHeight - s.scrollTop - s.clientHeight; })()`
	contiguous(t, p, 202)
	p.Wait("the end", below+" < 2")
	p.Eval(`document.querySelector(".scroller").scrollTop = 500`, nil)
	p.Wait("the way back", `document.querySelector(".jump").checkVisibility()`)
	w.Fleet.Emit(run, texts(203, 50)...)
	contiguous(t, p, 252)
	var top float64
	p.Eval(`document.querySelector(".scroller").scrollTop`, &top)
	if top != 500 {
		t.Errorf("the reader was moved from 500 to %v", top)
	}
	p.Press("f")
	p.Wait("the end again", below+` < 2 && !document.querySelector(".jump").checkVisibility()`)
	w.Fleet.Emit(run, texts(253, 5)...)
	contiguous(t, p, 257)
	p.Wait("the end still", below+" < 2")

	// What is filtered is not shown; what is searched is found.
	w.Fleet.Emit(run, telemetry.Event{Iteration: 1, Type: telemetry.Thought, Content: "a needle in thought"}, telemetry.Event{Iteration: 1, Type: telemetry.Error, Summary: "broken"})
	p.WaitText(".stream .error", "broken")
	p.ClickText(".stream .chips", "Text")
	p.Wait("only the others", `[...document.querySelectorAll(".stream li")].filter((li) => li.checkVisibility()).length === 3`)
	p.ClickText(".stream .chips", "Text")
	p.Press("/")
	p.Wait("the search field", `document.activeElement === document.querySelector(".bar input")`)
	p.Fill(".bar input", "needle")
	p.WaitText(".matches", "1 match")
	p.Wait("only the found", `[...document.querySelectorAll(".stream li")].filter((li) => li.checkVisibility()).length === 1`)
	p.Clean(w.URL)
}

// Everything an agent can say is text, and nothing else.
func TestHostileTexts(t *testing.T) {
	w := newWorld(t)
	run := w.run("goose")
	p := w.page(browsertest.Options{})
	hostile := []string{
		`<img src=x onerror="document.title='owned'">`,
		`</script><script>document.title='owned'</script>`,
		`"><svg/onload=document.title='owned'>`,
		`<a href="javascript:document.title='owned'">here</a> https://example.com/`,
		`<meta http-equiv="refresh" content="0;url=https://example.com/">`,
		"\u202Egnp.exe\u202C and \u0000 NUL and \u001b[31mred\u001b[0m and \u001b]8;;https://example.com\u0007link\u001b]8;;\u0007",
		"שלום <b>עולם</b> مرحبا",
		strings.Repeat("A", 60_000),
		strings.Repeat("\u0301", 5_000),
		`{"name":"shell","arguments":{"__proto__":{"x":1},"constructor":"<b>","command":"<script>"}}`,
	}
	w.Fleet.Emit(run, telemetry.Event{Iteration: 1, Type: telemetry.IterationStart, Summary: hostile[0]})
	for i, text := range hostile {
		id := fmt.Sprint("call", i)
		summary := text[:min(len(text), 150)]
		for _, kind := range []telemetry.Type{telemetry.Text, telemetry.Thought, telemetry.Error, "<img src=x>"} {
			w.Fleet.Emit(run, telemetry.Event{Iteration: 1, Type: kind, Summary: summary, Content: text})
		}
		w.Fleet.Emit(run,
			telemetry.Event{Iteration: 1, Type: telemetry.ToolUse, Tool: summary, ToolCallID: id, Summary: summary, Content: text},
			telemetry.Event{Iteration: 1, Type: telemetry.ToolResult, Tool: summary, ToolCallID: id, Status: summary, Summary: summary, Content: text},
			telemetry.Event{Type: telemetry.StateChange, State: telemetry.State(summary), Reason: summary})
	}
	w.Fleet.Emit(run, telemetry.Event{Iteration: 1, Type: telemetry.IterationEnd, Status: hostile[1], Summary: hostile[0]})
	w.ask("PUT", "/api/prompt?run="+run, map[string]string{"content": hostile[0]}, nil)
	w.ask("PUT", "/api/mailbox/agent?run="+run, map[string]string{"message": hostile[0]}, nil)
	p.Wait("the last event", fmt.Sprintf(`Number(document.querySelector(".stream").dataset.last) === %d`, w.last(run)))
	p.Eval(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`, nil)
	for _, view := range []string{"prompt", "mailbox", "overview"} {
		p.Click("#tab-" + view)
	}
	p.Click("#tab-mailbox")
	p.WaitText("#view-mailbox", "<img src=x onerror=")
	for what, expression := range map[string]string{
		"an element that an agent wrote":           `document.querySelectorAll("img:not([src='/assets/icon.svg']), script:not([src]), #streams svg, #main a, iframe, meta[http-equiv], b[onerror]").length`,
		"a changed title":                          `document.title.includes("owned") && !document.title.includes("<") ? 1 : 0`,
		"a bidirectional override that is obeyed":  `document.body.innerText.includes("\u202e") ? 1 : 0`,
		"a page that is wider than its window":     `document.documentElement.scrollWidth > innerWidth ? 1 : 0`,
		"a polluted prototype":                     `({}).x === undefined ? 0 : 1`,
		"a long text that is in the page as whole": `[...document.querySelectorAll(".stream .event")].some((e) => e.textContent.length > 14000) ? 1 : 0`,
	} {
		var found int
		p.Eval(expression, &found)
		if found != 0 {
			t.Errorf("%s (%d)", what, found)
		}
	}
	p.WaitText(".stream", "⟨U+202E⟩gnp.exe")
	p.WaitText(".stream", "https://example.com/")
	p.Shot("hostile")
	p.Clean(w.URL)
}

// The window on a log, with a server of our own making in the page: events late, doubled, out of
// order, dropped on the way and lost for ever. What the window holds is contiguous, and what is gone is marked.
func TestWindow(t *testing.T) {
	w := newWorld(t)
	p := w.page(browsertest.Options{})
	p.Eval(`(async () => {
		const { RunLog } = await import("/assets/log.js");
		let seed = 7;
		const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
		const turn = () => new Promise((resolve) => setTimeout(resolve));
		for (let round = 0; round < 30; round++) {
			const kept = [], gone = round % 3 === 0 ? random(200) : 0;
			let following = true;
			const page = async (after, limit) => {
				if (random(3) === 0) await turn();
				if (random(25) === 0) throw new Error("the line is bad");
				return { events: kept.filter((e) => e.seq > after && e.seq > gone).slice(0, limit), lastSeq: kept.length };
			};
			const log = new RunLog(page, { changed() {}, reset() {}, prepended() {}, failed() {}, following: () => following }, 100);
			await log.tail(0);
			for (let step = 0; step < 120; step++) {
				const fresh = [];
				for (let i = random(40); i > 0; i--) kept.push({ seq: kept.length + 1 });
				for (let i = random(12); i > 0 && kept.length; i--) fresh.push(kept[Math.max(0, kept.length - 1 - random(30))]);
				log.live(fresh.concat(random(2) ? kept.slice(-random(40) - 1) : []));
				if (random(10) === 0) following = !following;
				if (random(15) === 0) log.earlier(50);
				if (random(15) === 0) log.later(50);
				if (random(30) === 0 && kept.length) log.at(1 + random(kept.length));
				if (random(20) === 0) log.tail();
				if (random(3) === 0) await turn();
				check(log);
			}
			following = true;
			for (let i = 0; i < 500 && !(log.attached && log.last === kept.length && !log.busy); i++) {
				if (log.attached) log.known(kept.length);
				else log.tail();
				await turn();
			}
			check(log);
			if (log.last !== kept.length) throw new Error("round " + round + ": the window ends at " + log.last + " of " + kept.length);
		}
		function check(log) {
			if (log.events.length > 400) throw new Error("the window holds " + log.events.length);
			log.events.forEach((e, i) => {
				const before = log.events[i - 1];
				if (before && (e.from ?? e.seq) !== before.seq + 1) throw new Error("after " + before.seq + " comes " + (e.from ?? e.seq));
			});
			if (log.events.length && log.events.at(-1).seq !== log.last) throw new Error("last is " + log.last + ", the last event " + log.events.at(-1).seq);
		}
		return true;
	})()`, nil)
	// A gap that cannot be closed is shown.
	var gaps []string
	p.Eval(`(async () => {
		const { RunLog } = await import("/assets/log.js");
		const have = [1, 2, 3, 7, 8].map((seq) => ({ seq }));
		const log = new RunLog(async (after, limit) => ({ events: have.filter((e) => e.seq > after).slice(0, limit), lastSeq: 8 }), { changed() {}, reset() {}, prepended() {}, failed() {}, following: () => true }, 100);
		await log.tail(3);
		await log.known(8);
		return log.events.map((e) => (e.type === "gap" ? e.from + "-" + e.to : String(e.seq)));
	})()`, &gaps)
	if got := strings.Join(gaps, " "); got != "1 2 3 4-6 7 8" {
		t.Errorf("the window is %s", got)
	}
	p.Clean(w.URL)
}
