// The runs: a card for each that goes on, the controls of the chosen one, and the history of those that ended.
import { $, button, confirmDialog, h, openDialog, problem, replace, setText, toast } from "./dom.js";
import { countdown } from "./render.js";
import { scheduleList } from "./schedules.js";
import { cost, count, day, duration, ended, oneLine, short, stateNames, when } from "./text.js";

// Runs keeps what is known about every run.
export class Runs {
  constructor() {
    this.byId = new Map();
  }

  get(id) {
    return this.byId.get(id);
  }

  put(run) {
    if (!run?.runId) return;
    const before = this.byId.get(run.runId);
    // What came live may be ahead of what was asked for.
    this.byId.set(run.runId, { ...before, ...run, lastSeq: Math.max(run.lastSeq ?? 0, before?.lastSeq ?? 0) });
  }

  // live are the runs that go on, oldest first, so that cards keep their places.
  live() {
    return [...this.byId.values()].filter((run) => !ended(run)).sort((a, b) => when(a.createdAt) - when(b.createdAt));
  }

  newest() {
    return [...this.byId.values()].sort((a, b) => when(b.createdAt) - when(a.createdAt))[0];
  }
}

// drawCards shows the runs that go on and the chosen one. Cards that stay are changed and not made
// anew: a click that is on its way must find its card.
export function drawCards(runs, chosen, choose) {
  const shown = runs.live();
  const current = runs.get(chosen);
  if (current && !shown.includes(current)) shown.push(current);
  const old = new Map([...$("runs").querySelectorAll("[data-card]")].map((el) => [el.dataset.card, el]));
  const cards = shown.map((run) => old.get(run.runId) ?? card(run, choose));
  shown.forEach((run, i) => updateCard(cards[i], run, run.runId === chosen));
  const wanted = cards.length ? cards : [h("p", { class: "muted", text: "No run yet. Start one: an agent works in its own sandbox until you, or a limit, stop it." })];
  if (wanted.length !== $("runs").children.length || wanted.some((el, i) => $("runs").children[i] !== el)) replace($("runs"), wanted);
}

function card(run, choose) {
  return h("button", { type: "button", class: "card", "data-card": run.runId, on: { click: () => choose(run.runId) } },
    h("span", { class: `agent ${run.agentType === "opencode" ? "second" : "first"}`, text: oneLine(run.agentType, 30) }), " ",
    h("span", {}), " ", h("span", { class: "muted" }), " ", h("span", { class: "place muted", dir: "ltr", text: shortPlace(run.workspace) }));
}

function updateCard(el, run, chosen) {
  el.setAttribute("aria-pressed", String(chosen));
  const [, state, number] = el.children;
  setState(state, run);
  setText(number, `iteration ${count(run.iteration)}`);
}

const shortPlace = (place) => oneLine(String(place ?? "").split("/").slice(-2).join("/"), 40);

function setState(el, run) {
  el.className = `badge state-${stateNames[run.state] ? run.state : "other"}`;
  setText(el, stateNames[run.state] ?? oneLine(run.state, 30));
}

const stateBadge = (run) => {
  const el = h("span", {});
  setState(el, run);
  return el;
};

// Controls is what can be done with the chosen run.
export class Controls {
  constructor(el, { api, refresh }) {
    Object.assign(this, { el, api, refresh });
    this.agent = h("b", {});
    this.state = h("span", {});
    this.reason = h("span", { class: "reason", dir: "auto" });
    this.until = h("span", { class: "countdown" });
    this.what = h("div", { class: "what" }, this.agent, this.state, this.reason, this.until);
    const action = (label, key, onClick, props) => button(label, onClick, { "data-action": key, "aria-keyshortcuts": key, ...props });
    this.pause = action("Pause", "p", () => this.paused ? this.act("resume", "The run goes on.") : this.act("pause", "The run pauses after this iteration."));
    this.step = action("Step", "s", () => this.act("step", "One iteration, then pause again."));
    this.cancel = action("Cancel iteration", "c", () => this.act("cancel", "The iteration is being cancelled."));
    this.stop = action("Stop", "x", () => this.askToStop(), { class: "danger" });
    replace(el, this.what, h("div", { class: "row" }, this.pause, this.step, this.cancel, this.stop));
  }

  get paused() {
    return this.run.desired === "paused" || this.run.state === "paused";
  }

  draw(run) {
    this.run = run;
    this.el.hidden = !run;
    if (!run) return;
    const reason = run.torn || run.reason; // what keeps it from working comes first
    this.what.classList.toggle("told", Boolean(reason));
    setText(this.agent, oneLine(run.agentType, 30));
    setState(this.state, run);
    setText(this.reason, oneLine(reason, 300));
    this.until.dataset.until = run.until || 0;
    countdown(this.el); // at once: a line that comes with the next tick would move the page under a finger
    const goesOn = !ended(run) && run.state !== "stopping";
    setText(this.pause, this.paused ? "Resume" : "Pause");
    const external = isExternal(run);
    this.pause.disabled = !goesOn || external;
    this.step.disabled = !goesOn || external || !this.paused || run.state === "running";
    this.cancel.disabled = !goesOn || external || run.state !== "running";
    setText(this.stop, !external ? "Stop" : ended(run) ? "Delete" : "Dismiss");
    this.stop.disabled = !goesOn && !external;
  }

  act(name, done) {
    return this.api.post(`/api/sandbox/${name}`, { runId: this.run.runId }).then(() => {
      toast(done);
      this.refresh();
    }, problem(`${name} did not work`));
  }

  async askToStop() {
    const { run } = this;
    if (isExternal(run)) return this.leave(run);
    const yes = await confirmDialog("Stop this run?", `${oneLine(run.agentType, 30)} is stopped and its sandbox removed. The workspace and everything that was recorded stay.`, "Stop the run");
    if (yes && this.run.runId === run.runId) this.act("stop", "The run is being stopped.");
  }

  // leave is for a run that nobody here can stop: it counts as ended, or goes with its events.
  async leave(run) {
    const path = `/api/runs/${encodeURIComponent(run.runId)}`;
    if (!ended(run)) return this.api.post(`${path}/dismiss`, {}).then(() => this.refresh(), problem("dismiss did not work"));
    const yes = await confirmDialog("Delete this run?", "It was started elsewhere. Everything that was recorded of it here is removed.", "Delete");
    if (yes) this.api.delete(path).catch(problem("delete did not work"));
  }
}

// isExternal says that a run was started elsewhere and only tells of itself here.
const isExternal = (run) => run.sandbox === "external";

// showHistory lists all runs, newest first, a page at a time.
export function showHistory(api, runs, choose) {
  const dialog = openDialog("Runs", { wide: true });
  const list = h("ul", { class: "history" });
  const more = button("Older runs", () => load().catch(problem("The list could not be loaded")), { class: "more" });
  let offset = 0;
  const load = async () => {
    const page = (await api.get("/api/runs", { limit: 20, offset })).runs ?? [];
    offset += page.length;
    more.hidden = page.length < 20;
    for (const run of page) {
      runs.put(run);
      list.append(h("li", {}, historyEntry(run, () => {
        dialog.close();
        choose(run.runId);
      })));
    }
    if (offset === 0) list.append(h("li", { class: "muted", text: "There was no run yet." }));
  };
  dialog.body.append(scheduleList(api), list, more);
  dialog.show();
  load().catch(problem("The list could not be loaded"));
}

function historyEntry(run, onClick) {
  const spent = [run.usage?.total > 0 ? `${short(run.usage.total)} tokens` : "", run.usage?.cost > 0 ? cost(run.usage.cost) : ""].filter(Boolean).join(", ");
  const lasted = duration((when(run.stoppedAt) || Date.now()) - when(run.startedAt || run.createdAt));
  return h("button", { type: "button", class: "entry", on: { click: onClick } },
    h("b", { text: oneLine(run.agentType, 30) }), " ", stateBadge(run), " ",
    h("span", { text: `${day(run.createdAt)}, ${lasted}` }), " ",
    h("span", { class: "muted", text: [`${count(run.iteration)} iterations`, spent, shortPlace(run.workspace)].filter(Boolean).join(" · ") }));
}

