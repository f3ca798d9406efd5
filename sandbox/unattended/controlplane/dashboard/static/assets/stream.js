// The live stream of one run: its events grouped by iteration, following the newest until the reader scrolls away.
// The number of rows is bounded by the window of RunLog; rows are made at most ten times a second.
import { announce, button, h, setText, uid } from "./dom.js";
import { RunLog } from "./log.js";
import { countdown, endLine, kindOf, row, settle } from "./render.js";
import { clock, count, instant, oneLine, outcomeNames, plural } from "./text.js";

const nearEnd = 80; // pixels: so close to the end is still "at the end"
const pace = 90; // milliseconds between two drawings

const filters = [["text", "Text"], ["thought", "Thoughts"], ["tools", "Tools"], ["errors", "Errors"], ["states", "States"], ["other", "Other"]];

export class Stream {
  constructor({ api, run, onFocus }) {
    Object.assign(this, { api, runId: run.runId });
    this.log = new RunLog((after, limit) => api.get("/api/telemetry/events", { run: this.runId, after, limit }), this);
    this.follow = true;
    this.drawn = 0; // seq up to which rows exist
    this.calls = new Map(); // open calls by iteration and id
    this.sections = new Map(); // the last section of each iteration
    this.hidden = new Set();
    this.build(run, onFocus);
    this.ticker = setInterval(() => countdown(this.list), 1000);
    this.log.tail(run.lastSeq ?? 0);
  }

  close() {
    clearInterval(this.ticker);
    clearTimeout(this.timer);
    this.log.generation++;
    this.closed = true;
    this.el.remove();
  }

  build(run, onFocus) {
    this.list = h("div", { class: "list" });
    this.growing = h("p", { class: "growing", dir: "auto", hidden: true });
    this.earlier = button("Load earlier events", () => this.log.earlier(), { class: "earlier", hidden: true });
    this.later = button("Load later events", () => this.log.later(), { class: "later", hidden: true });
    this.empty = h("p", { class: "empty", text: "Loading…" });
    // A log, but a silent one: what is worth hearing is said by announce.
    this.scroller = h("div", { class: "scroller", role: "log", "aria-live": "off", "aria-label": "Events", tabindex: "0" }, this.earlier, this.empty, this.list, this.growing, this.later);
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.jump = button("", () => this.toEnd(), { class: "jump primary", hidden: true, "aria-keyshortcuts": "f" });
    this.title = h("h2", { text: run.agentType });
    this.el = h("article", { class: "stream", "aria-label": `Stream of ${run.agentType}`, "data-run": run.runId }, this.toolbar(), this.scroller, this.jump);
    this.el.addEventListener("focusin", () => onFocus(this.runId));
    this.el.addEventListener("pointerdown", () => onFocus(this.runId));
  }

  toolbar() {
    const id = uid("search");
    this.search = h("input", { type: "search", id, placeholder: "Search what is loaded", "aria-label": "Search the loaded events", "aria-keyshortcuts": "/", spellcheck: "false" });
    this.search.addEventListener("input", () => this.filter());
    this.matches = h("span", { class: "matches", role: "status" });
    this.state = h("span", { class: "muted" });
    const chips = filters.map(([group, label]) => {
      const chip = button(label, () => {
        const on = this.hidden.has(group);
        this.hidden[on ? "delete" : "add"](group);
        chip.setAttribute("aria-pressed", String(on));
        this.scroller.classList.toggle(`without-${group}`, !on);
        this.filter();
      }, { class: "chip", "aria-pressed": "true" });
      return chip;
    });
    return h("div", { class: "bar" }, this.title, this.state, h("div", { class: "chips", role: "group", "aria-label": "Kinds of events" }, chips), this.search, this.matches);
  }

  // What RunLog asks and tells.
  following() {
    return this.follow;
  }

  changed() {
    if (this.timer || this.closed) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.draw();
    }, pace);
  }

  reset() {
    this.clear();
    this.failure = null;
    this.changed();
  }

  failed(error) {
    this.failure = error;
    this.changed();
  }

  prepended(page) {
    const anchor = this.scroller.scrollHeight - this.scroller.scrollTop;
    this.clear();
    this.draw();
    this.scroller.scrollTop = this.scroller.scrollHeight - anchor;
    announce(`${plural(page.length, "earlier event")} loaded`);
  }

  live(events) {
    this.grown = null; // the whole message is among them, or never comes
    this.log.live(events);
    this.changed();
  }

  // grow shows a message that is not complete yet, in a row that grows until its event comes.
  grow({ type, offset, content }) {
    if (typeof content !== "string") return;
    const before = offset > 0 ? (this.grown?.text ?? "…") : "";
    this.grown = { type, text: (before + content).slice(-65536) };
    this.changed();
  }

  // resume asks for what came while there was no connection.
  resume(run) {
    this.failure = null;
    this.log.known(run.lastSeq);
  }

  toEnd() {
    this.follow = true;
    if (this.log.attached) this.draw();
    else this.log.tail();
  }

  // goTo shows an event, from wherever in the log.
  async goTo(seq) {
    this.follow = false;
    if (seq < this.log.first || seq > this.log.last) await this.log.at(seq);
    this.draw();
    const el = this.list.querySelector(`[data-seq="${Number(seq)}"]`) ?? this.list.querySelector("[data-seq]");
    el?.scrollIntoView({ block: "start" });
    el?.closest("section")?.classList.add("found");
    setTimeout(() => el?.closest("section")?.classList.remove("found"), 2000);
  }

  clear() {
    this.list.replaceChildren();
    this.calls.clear();
    this.sections.clear();
    this.drawn = 0;
  }

  draw() {
    if (this.closed) return;
    const { log } = this;
    if (log.first > this.drawn) this.clear();
    else this.dropBefore(log.first);
    if (this.drawn > log.last) this.clear();
    const from = this.drawn ? log.events.findIndex((event) => event.seq > this.drawn) : 0;
    if (from >= 0) this.append(log.events.slice(from));
    this.growing.hidden = !this.grown || !log.attached || this.hidden.has(this.grown.type);
    setText(this.growing, this.grown?.text ?? "");
    this.showEdges();
    countdown(this.list);
    if (this.follow && log.attached && !this.reading()) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  // reading says whether the person marks text in the stream: it must not move away then.
  reading() {
    const selection = getSelection();
    return selection && !selection.isCollapsed && this.list.contains(selection.anchorNode);
  }

  dropBefore(first) {
    for (let section = this.list.firstChild; section; section = this.list.firstChild) {
      const { items } = section;
      while (items.firstChild && Number(items.firstChild.dataset.seq) < first) items.firstChild.remove();
      if (items.firstChild || Number(section.dataset.last) >= first) return;
      if (this.sections.get(Number(section.dataset.iteration)) === section) this.sections.delete(Number(section.dataset.iteration));
      section.remove();
    }
  }

  append(events) {
    let items = null;
    let part = null;
    for (const event of events) {
      const section = this.sectionFor(event);
      if (section !== part) {
        items?.parent.append(items.fragment);
        items = { parent: section.items, fragment: document.createDocumentFragment() };
        part = section;
      }
      section.dataset.last = event.seq;
      this.place(event, section, items.fragment);
      this.drawn = event.seq;
    }
    items?.parent.append(items.fragment);
    if (this.calls.size > 1000) this.calls.clear();
  }

  place(event, section, into) {
    const key = `${event.iterationId}/${event.toolCallId}`;
    if (event.type === "iteration_start") return this.begin(event, section);
    if (event.type === "iteration_end") return this.end(event, section);
    if (event.type === "tool_result" && event.toolCallId && this.calls.has(key)) {
      const call = this.calls.get(key);
      call.event.result = event;
      settle(call.el, call.event);
      this.calls.delete(key);
      this.match(call.el.closest("li"), call.event);
      return;
    }
    const li = row(event, (details) => this.toggled(details));
    if (event.type === "tool_use" && event.toolCallId && !event.status) this.calls.set(key, { el: li.querySelector("details"), event });
    this.match(li, event);
    into.append(li);
  }

  // A detail that was opened is being read.
  toggled(details) {
    if (details.open) this.scrolled();
  }

  sectionFor(event) {
    const last = this.list.lastChild;
    const iteration = event.iterationId || 0;
    if (last && Number(last.dataset.iteration) === iteration) return last;
    if (last && iteration === 0 && !last.dataset.ended) return last; // a change of state in the midst of an iteration
    const id = uid("iteration");
    const head = iteration === 0 ? h("h3", { id, class: "visually-hidden", text: "Between iterations" })
      : h("h3", { id }, h("span", { text: `Iteration ${count(iteration)}` }), h("span", { class: "muted since", text: event.type === "iteration_start" ? "" : "continued" }), h("span", { class: "outcome running", text: "Running" }));
    const section = h("section", { "aria-labelledby": id, "data-iteration": iteration, "data-last": event.seq }, head);
    section.items = h("ol", {});
    section.append(section.items);
    this.list.append(section);
    this.sections.set(iteration, section);
    return section;
  }

  begin(event, section) {
    const since = section.querySelector(".since");
    if (since) replaceSince(since, event);
    section.dataset.seq = event.seq;
  }

  end(event, section) {
    section.dataset.ended = "yes";
    const outcome = section.querySelector("h3 .outcome");
    if (outcome) {
      outcome.className = `outcome ${outcomeNames[event.status] ? event.status : ""}`;
      outcome.textContent = outcomeNames[event.status] ?? "Ended";
    }
    section.append(h("div", { class: "foot" }, endLine(event)));
    for (const [key, call] of this.calls) {
      if (!key.startsWith(`${event.iterationId}/`)) continue;
      call.event.lost = true;
      settle(call.el, call.event);
      this.calls.delete(key);
    }
  }

  // summary shows what the model made of an iteration.
  summary(iteration, text) {
    const foot = this.sections.get(iteration)?.querySelector(".foot");
    if (!foot || !text) return;
    foot.querySelector(".told")?.remove();
    foot.append(h("p", { class: "told", dir: "auto", text: oneLine(text, 600) }));
  }

  showEdges() {
    const { log } = this;
    this.earlier.hidden = log.atStart || log.events.length === 0;
    this.later.hidden = log.attached || log.events.length === 0;
    this.empty.hidden = log.events.length > 0;
    setText(this.empty, this.failure ? `The events could not be loaded: ${this.failure.message}` : log.busy ? "Loading…" : "Nothing has happened yet.");
    this.jump.hidden = this.follow && log.attached;
    if (!this.jump.hidden) setText(this.jump, log.unseen > 0 ? `↓ ${plural(log.unseen, "newer event")}` : "↓ To the newest");
    this.el.dataset.last = log.last;
  }

  scrolled() {
    const { scroller } = this;
    const was = this.follow;
    this.follow = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < nearEnd;
    if (was !== this.follow) this.showEdges();
    if (this.follow && !this.log.attached) this.log.later();
  }

  filter() {
    const rows = this.list.querySelectorAll("li");
    const events = new Map(this.log.events.map((event) => [event.seq, event]));
    for (const li of rows) this.match(li, events.get(Number(li.dataset.seq)) ?? {});
    const query = this.search.value.trim();
    const found = query ? [...rows].filter((li) => !li.hidden && !this.hidden.has(kindOf(events.get(Number(li.dataset.seq)) ?? {}).group)).length : 0;
    this.scroller.classList.toggle("searching", query !== "");
    setText(this.matches, query ? plural(found, "match", "matches") : "");
    if (this.follow) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  match(li, event) {
    const query = this.search.value.trim().toLowerCase();
    li.hidden = query !== "" && !`${event.tool ?? ""} ${event.summary ?? ""} ${event.content ?? ""} ${event.reason ?? ""} ${event.result?.content ?? ""}`.toLowerCase().includes(query);
  }

  // step moves the focus by rows, for j and k.
  step(by) {
    const rows = [...this.list.querySelectorAll("li")].filter((li) => li.offsetParent);
    const at = rows.findIndex((li) => li.contains(document.activeElement));
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
    if (!next) return;
    this.follow = false;
    (next.querySelector("summary") ?? next).focus();
    next.scrollIntoView({ block: "nearest" });
    this.showEdges();
  }
}

function replaceSince(el, event) {
  el.replaceChildren(h("time", { datetime: instant(event.ts), text: clock(event.ts) }));
}
