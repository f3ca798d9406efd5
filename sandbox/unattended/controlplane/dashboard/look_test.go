package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"gander.dev/gander/conformance/browsertest"
	"gander.dev/gander/sandbox/telemetry"
)

// busy is a world with something of everything on the page.
func busy(t *testing.T) *world {
	w := newWorld(t)
	goose, opencode := w.run("goose"), w.run("opencode")
	for n := int64(1); n <= 12; n++ {
		w.Fleet.Emit(goose, iteration(n)...)
		if n <= 3 {
			w.Fleet.Emit(opencode, iteration(n)...)
		}
	}
	w.Fleet.Emit(goose, telemetry.Event{Iteration: 13, Type: telemetry.IterationStart},
		telemetry.Event{Iteration: 13, Type: telemetry.ToolUse, Tool: "shell", ToolCallID: "z", Summary: "shell: make check", Content: `{"command":"make check"}`})
	w.Fleet.Emit(opencode, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Unready, Reason: "the model answered 503 four times in a row", Until: time.Now().Add(10 * time.Minute).UnixMilli()})
	w.ask("PUT", "/api/mailbox/agent?run="+goose, map[string]string{"message": "Shall I keep reading the old format?"}, nil)
	return w
}

// unnamed are the controls that a screen reader could not name, and the elements whose roles lack what they need.
const unnamed = `(() => {
	const bad = [];
	const name = (el) => (el.getAttribute("aria-label") || (el.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim()
		|| [...(el.labels ?? [])].map((l) => l.textContent).join(" ").trim() || (el.matches("input, textarea, select") ? "" : el.textContent.trim()) || el.title || "").trim();
	for (const el of document.querySelectorAll("button, a[href], input, select, textarea, summary, [tabindex='0'], [role=tab], [role=img], dialog, nav, [role=tabpanel], [role=toolbar], [role=log], article, section[aria-labelledby]"))
		if (el.checkVisibility() && !name(el)) bad.push(el.outerHTML.slice(0, 160));
	const ids = [...document.querySelectorAll("[id]")].map((el) => el.id);
	for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push("twice the id " + id);
	for (const el of document.querySelectorAll("[aria-controls], [aria-labelledby], [aria-describedby]"))
		for (const attribute of ["aria-controls", "aria-labelledby", "aria-describedby"])
			for (const id of (el.getAttribute(attribute) ?? "").split(" ").filter(Boolean)) if (!ids.includes(id)) bad.push(attribute + " names " + id + ", which is not there");
	if (document.documentElement.lang !== "en" || document.querySelectorAll("h1").length !== 1 || !document.querySelector("main")) bad.push("the page's frame");
	return bad;
})()`

// pale are the texts with less contrast than 4.5:1 to what lies under them; disabled controls are exempt, as in WCAG 1.4.3.
const pale = `(() => {
	const bad = new Map();
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
	const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3]));
	const ground = (el) => { const layers = []; for (; el; el = el.parentElement) layers.push(rgba(getComputedStyle(el).backgroundColor)); return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]); };
	const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const ratio = (a, b) => { const [hi, lo] = [light(a), light(b)].sort((x, y) => y - x); return (hi + 0.05) / (lo + 0.05); };
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let seen = 0;
	for (let node; (node = walker.nextNode()); ) {
		const el = node.parentElement;
		if (!node.data.trim() || !el.checkVisibility() || el.closest(":disabled, .visually-hidden, noscript, .skip, svg")) continue;
		seen++;
		const under = ground(el);
		const r = ratio(over(rgba(getComputedStyle(el).color), under), under);
		if (r < 4.5) bad.set(el.className + " " + el.tagName, r.toFixed(2) + " " + node.data.trim().slice(0, 40));
	}
	return seen < 15 ? ["only " + seen + " texts were looked at"] : [...bad].map(([k, v]) => k + ": " + v);
})()`

func accessible(t *testing.T, p *browsertest.Page, where string) {
	t.Helper()
	for _, check := range []string{unnamed, pale} {
		var bad []string
		p.Eval(check, &bad)
		for _, b := range bad {
			t.Errorf("%s: %s", where, b)
		}
	}
}

// Every view in both themes: names, roles, contrast; with pictures to look at.
func TestViewsInBothThemes(t *testing.T) {
	for _, dark := range []bool{true, false} {
		name := map[bool]string{true: "dark", false: "light"}[dark]
		t.Run(name, func(t *testing.T) {
			w := busy(t)
			p := w.page(browsertest.Options{Dark: dark, StillMotion: true, Width: 1440, Height: 900})
			p.Wait("both cards", `document.querySelectorAll(".card").length === 2`)
			p.Press("[")
			p.WaitText(".stream", "Iteration 13")
			p.WaitText("#view-overview .chart", "max")
			p.Eval(`[...document.querySelectorAll(".stream details")].slice(-4, -2).forEach((d) => { d.open = true; })`, nil)
			p.WaitText(".stream .diff", "n := 4")
			for _, view := range []string{"overview", "prompt", "files", "snapshots", "mailbox", "ports"} {
				p.Click("#tab-" + view)
				p.Wait("the view "+view, fmt.Sprintf(`document.querySelector("#view-%s").checkVisibility()`, view))
				accessible(t, p, view)
				p.Shot(view)
			}
			p.Press("n")
			p.WaitText("dialog", "Workspace")
			p.Click("dialog .more-fields summary")
			accessible(t, p, "start dialog")
			p.Shot("start")
			p.Press("\x1b")
			p.Press("?")
			p.WaitText("dialog", "streams side by side")
			p.Clean(w.URL)
		})
	}
}

// The keyboard reaches everything, is never caught, and dialogs give the focus back.
func TestKeyboard(t *testing.T) {
	w := busy(t)
	p := w.page(browsertest.Options{})
	p.WaitText(".stream", "Iteration")
	p.Eval(`document.querySelector("#start-button").focus()`, nil)
	p.Press("\r")
	p.WaitText("dialog", "Workspace")
	for range 40 { // more often than there are controls: the focus stays in the dialog, or leaves the page for the browser's own
		p.Press("\t")
		var where string
		p.Eval(`document.activeElement === document.body || document.activeElement.closest("dialog") ? "" : document.activeElement.outerHTML.slice(0, 100)`, &where)
		if where != "" {
			t.Fatalf("behind the dialog the focus is on %s", where)
		}
	}
	p.Press("\x1b")
	p.Wait("no dialog", `!document.querySelector("dialog")`)
	p.Wait("the focus back", `document.activeElement.id === "start-button"`)

	// Tab goes round the whole page: it visits each part, in the order of the page, and gets out of all.
	p.Eval(`document.activeElement.blur()`, nil)
	var visited []string
	for range 200 {
		p.Press("\t")
		var where string
		p.Eval(`(document.activeElement.closest("#top, #runs, #controls, #tabs, #view-iterations, #streams, .side")?.id ?? "") + (document.activeElement === document.body ? "body" : "")`, &where)
		if len(visited) == 0 || visited[len(visited)-1] != where {
			visited = append(visited, where)
		}
	}
	round := strings.Join(visited, " ")
	if want := "top runs controls tabs view-iterations streams view-overview"; !strings.Contains(round, want) {
		t.Errorf("Tab went %s; want %s", round, want)
	}

	p.Eval(`document.querySelector("#tab-overview").focus()`, nil)
	p.Press(kb.ArrowRight)
	p.Wait("the next tab", `document.activeElement.id === "tab-prompt" && document.activeElement.getAttribute("aria-selected") === "true"`)
	p.Press("7")
	p.Wait("the mailbox", `document.querySelector("#view-mailbox").checkVisibility()`)
	p.Press("k")
	p.Wait("an event with the focus", `Boolean(document.activeElement.closest(".stream li"))`)
	p.Press("t")
	p.Wait("the dark theme", `document.documentElement.dataset.theme === "dark"`)
	p.Eval(`document.activeElement.blur()`, nil)
	p.Press("?")
	p.Click("#keys-enabled")
	p.Press("\x1b")
	p.Wait("no dialog", `!document.querySelector("dialog")`)
	p.Press("n")
	if n := p.Count("dialog"); n != 0 {
		t.Error("a single key still does something after it was switched off")
	}
	p.Clean(w.URL)
}

// A phone of 360 pixels: one view at a time, nothing cut off, nothing too small for a finger.
func TestPhone(t *testing.T) {
	w := busy(t)
	p := w.page(browsertest.Options{Phone: true, Width: 360, Height: 740})
	p.WaitText("#runs", "goose")
	for _, view := range []string{"stream", "iterations", "overview", "prompt", "files", "snapshots", "mailbox", "ports"} {
		p.Click("#tab-" + view)
		p.Wait("the view "+view, fmt.Sprintf(`document.querySelector("#view-%s").checkVisibility()`, view))
		var bad []string
		p.Eval(`(() => { const bad = [];
			if (document.documentElement.scrollWidth > innerWidth) bad.push("the page is " + document.documentElement.scrollWidth + " wide");
			for (const el of document.querySelectorAll("#main .current *")) {
				const box = el.getBoundingClientRect();
				if (el.checkVisibility() && box.width && (box.right > innerWidth + 1 || box.left < -1) && !el.closest(".chips, .diff, pre, svg")) bad.push(el.outerHTML.slice(0, 100));
			}
			for (const el of document.querySelectorAll("button")) { const box = el.getBoundingClientRect(); if (el.checkVisibility() && box.height < 24) bad.push("small: " + el.outerHTML.slice(0, 100)); }
			const main = document.querySelector("#main").getBoundingClientRect(); if (main.height < innerHeight * 0.5) bad.push("only " + main.height + " pixels for the view");
			return bad; })()`, &bad)
		for _, b := range bad {
			t.Errorf("%s: %s", view, b)
		}
		accessible(t, p, view)
		p.Shot(view)
	}
	p.Click("#tab-stream")
	p.Wait("the end of the stream", `(() => { const s = document.querySelector(".scroller"); return s.clientHeight > 0 && s.scrollHeight - s.scrollTop - s.clientHeight < 2; })()`)
	p.Click("#start-button")
	p.WaitText("dialog", "Workspace")
	p.Shot("start")
	p.Clean(w.URL)
}
