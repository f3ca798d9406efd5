// The timeline: the iterations of a run, newest first, with how they ended and what they were about.
import { announce, button, h, problem, replace, setText } from "./dom.js";
import { clock, count, duration, oneLine, outcomeNames, plural, short, when } from "./text.js";

const pageSize = 50;
const counted = /^Completed: \d+ actions?, \d+ errors?$/; // says no more than the counts below it

export class Iterations {
  // onOpen(number, firstSeq) shows an iteration in the stream; changed is called after rows came or changed.
  constructor(el, { api, onOpen, changed }) {
    Object.assign(this, { el, api, onOpen, onChange: changed });
    this.list = h("ol", { class: "timeline", reversed: true });
    this.more = button("Earlier iterations", () => this.load(this.rows.size).catch(problem("The iterations could not be loaded")), { class: "more", hidden: true });
    this.empty = h("p", { class: "empty", text: "No iteration yet." });
    replace(el, h("h2", { text: "Iterations" }), this.empty, this.list, this.more);
    this.rows = new Map(); // by number
  }

  async open(runId) {
    this.runId = runId;
    this.rows.clear();
    this.list.replaceChildren();
    this.empty.hidden = false;
    await this.load(0);
  }

  // load reads a page of rows; at 0 it also brings what is there up to date.
  async load(offset) {
    const { runId } = this;
    if (!runId) return;
    const { iterations = [] } = await this.api.get("/api/telemetry/iterations", { run: runId, limit: pageSize, offset });
    if (runId !== this.runId) return;
    for (const it of iterations) this.put(it);
    if (offset > 0 || this.rows.size <= pageSize) this.more.hidden = iterations.length < pageSize;
    this.changed();
  }

  put(it) {
    const number = it.seq || it.id;
    const { el } = this.rows.get(number) ?? {};
    this.rows.set(number, {
      el,
      number, id: it.id, actions: it.action_count ?? 0, errors: it.error_count ?? 0,
      outcome: it.outcome || (it.ended_at || it.end_time ? "" : "running"),
      summary: it.llm_summary || it.summary || "", told: Boolean(it.llm_summary),
      start: when(it.started_at || it.start_time), end: when(it.ended_at || it.end_time),
      input: it.input_tokens ?? it.usage?.input ?? 0, output: it.output_tokens ?? it.usage?.output ?? 0, cost: it.cost ?? it.usage?.cost ?? 0,
    });
  }

  // live follows the events. Starts and ends it shows at once; what is counted in between it asks the server for,
  // now and then, because events may come twice and before the list.
  live(events) {
    for (const event of events) {
      if (!event.iterationId) continue;
      const row = this.row(event);
      if (event.type === "iteration_end") this.end(row, event);
      else if (event.type === "tool_use" || event.type === "error") this.soon();
    }
    this.changed();
  }

  soon() {
    this.counting ??= setTimeout(() => {
      this.counting = null;
      this.load(0).catch(() => {}); // the next event tries again
    }, 2500);
  }

  row(event) {
    let row = this.rows.get(event.iterationId);
    if (!row) {
      for (const other of this.rows.values()) if (other.outcome === "running") other.outcome = "interrupted";
      row = { number: event.iterationId, actions: 0, errors: 0, outcome: "running", summary: "", start: event.ts, end: NaN, input: 0, output: 0, cost: 0 };
      this.rows.set(row.number, row);
    }
    return row;
  }

  end(row, event) {
    Object.assign(row, { outcome: event.status || "ok", end: event.ts, actions: event.actionCount ?? row.actions, errors: event.errorCount ?? row.errors });
    if (!row.told) row.summary = event.summary;
    if (event.usage) Object.assign(row, { input: event.usage.input ?? 0, output: event.usage.output ?? 0, cost: event.usage.cost ?? 0 });
    announce(`Iteration ${row.number} ended: ${outcomeNames[row.outcome] ?? row.outcome}`);
  }

  summary(number, text) {
    const row = this.rows.get(number);
    if (!row) return;
    Object.assign(row, { summary: text, told: true });
    this.changed();
  }

  changed() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.draw();
      this.onChange();
    }, 150);
  }

  sorted() {
    return [...this.rows.values()].sort((a, b) => b.number - a.number);
  }

  draw() {
    const rows = this.sorted();
    this.empty.hidden = rows.length > 0;
    const wanted = rows.map((row) => this.item(row));
    // Only what differs is touched: the focus stays where it is.
    wanted.forEach((el, i) => {
      if (this.list.children[i] !== el) this.list.insertBefore(el, this.list.children[i] ?? null);
    });
    while (this.list.children.length > wanted.length) this.list.lastChild.remove();
  }

  item(row) {
    row.el ??= this.list.querySelector(`[data-number="${row.number}"]`) ?? this.make(row.number);
    const [, outcome, summary, counts] = row.el.firstChild.children;
    outcome.className = `outcome ${outcomeNames[row.outcome] ? row.outcome : ""}`;
    setText(outcome, outcomeNames[row.outcome] ?? (oneLine(row.outcome, 20) || "Ended"));
    setText(summary, counted.test(row.summary) ? "" : oneLine(row.summary, 240));
    const tokens = row.input + row.output;
    setText(counts, [clock(row.start), duration(row.end - row.start), plural(row.actions, "action"), row.errors ? plural(row.errors, "error") : "", tokens ? `${short(tokens)} tokens` : ""].filter(Boolean).join(" · "));
    return row.el;
  }

  make(number) {
    return h("li", { "data-number": number }, h("button", { type: "button", on: { click: () => this.openIteration(number) } },
      h("b", { text: `#${count(number)}` }), h("span", { class: "outcome" }), h("span", { class: "told", dir: "auto" }), h("span", { class: "muted counts" })));
  }

  // openIteration finds the first event of an iteration and shows it.
  async openIteration(number) {
    const row = this.rows.get(number);
    try {
      const id = row?.id ?? (await this.load(0), this.rows.get(number)?.id);
      const { events } = await this.api.get(`/api/telemetry/iteration/${id}`, { limit: 1 });
      if (events?.length) this.onOpen(number, events[0].seq);
    } catch (error) {
      problem("The iteration could not be shown")(error);
    }
  }
}
