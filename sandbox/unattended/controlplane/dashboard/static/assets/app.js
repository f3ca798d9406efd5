// The page: signs in, keeps the runs and the live connection, and shows the chosen run in its views.
import { $, announce, button, h, openDialog, problem, recall, remember, replace, setText, toast } from "./dom.js";
import { Api } from "./api.js";
import { Files } from "./files.js";
import { Iterations } from "./iterations.js";
import { listenKeys, showHelp } from "./keys.js";
import { Live } from "./live.js";
import { Mailbox } from "./mailbox.js";
import { Overview } from "./overview.js";
import { Ports } from "./ports.js";
import { Prompt } from "./prompt.js";
import { Questions } from "./questions.js";
import { countdown } from "./render.js";
import { Controls, drawCards, Runs, showHistory } from "./runs.js";
import { Snapshots } from "./snapshots.js";
import { showStart } from "./start.js";
import { Stream } from "./stream.js";
import { duration, ended, oneLine, stateNames, when } from "./text.js";

const views = [["iterations", "Iterations"], ["stream", "Stream"], ["overview", "Overview"], ["prompt", "Prompt"], ["files", "Files"], ["snapshots", "Snapshots"], ["mailbox", "Mailbox"], ["ports", "Ports"]];
const wide = matchMedia("(min-width: 62rem)");

class App {
  constructor() {
    this.api = new Api(() => this.signIn("That token is not, or no longer, right."));
    this.runs = new Runs();
    this.streams = new Map(); // by run; one, or two side by side
    this.seen = new Map(); // by run: the highest seq that came live
    this.chosen = "";
    const { api } = this;
    this.iterations = new Iterations($("view-iterations"), { api, onOpen: (_, seq) => this.openAt(seq), changed: () => this.drawOverview() });
    this.controls = new Controls($("controls"), { api, refresh: () => this.refresh().catch(() => {}) });
    this.questions = new Questions({ api });
    this.overview = new Overview($("view-overview"), { api });
    this.panels = {
      prompt: new Prompt($("view-prompt"), { api }),
      files: new Files($("view-files"), { api }),
      snapshots: new Snapshots($("view-snapshots"), { api }),
      ports: new Ports($("view-ports"), { api }),
      mailbox: new Mailbox($("view-mailbox"), { api, onUnread: (unread) => $("tab-mailbox").classList.toggle("unread", unread) }),
    };
    this.buildTabs();
    this.buildHeader();
    this.keys();
    this.show(recall("view") || "overview");
    setInterval(() => this.tick(), 1000);
    addEventListener("hashchange", () => this.readHash() && this.connect());
  }

  start() {
    this.readHash();
    this.api.token = sessionToken();
    this.connect();
  }

  // readHash takes the token out of the address, where it must not stay, and the run that a link names.
  readHash() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const token = parts.get("token");
    this.wanted = parts.get("run") ?? this.wanted;
    if (!token) return false;
    sessionToken(token);
    this.api.token = token;
    parts.delete("token");
    history.replaceState(null, "", `${location.pathname}${parts.size ? `#${parts}` : ""}`);
    return true;
  }

  signIn(why) {
    if (this.asking) return;
    this.asking = true;
    this.live?.close();
    this.live = null;
    this.drawConnection("offline");
    const dialog = openDialog("Token", { fixed: true });
    const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
    const form = h("form", { on: { submit: (event) => {
      event.preventDefault();
      this.asking = false;
      this.api.token = sessionToken(input.value.trim());
      dialog.close();
      this.connect();
    } } },
    h("p", { text: why }), h("p", { class: "muted", text: "gander serve printed it in the address of this page; it is also in the file serve.token of gander's home." }),
    h("div", { class: "field" }, h("label", { for: "token", text: "Token" }), input), h("div", { class: "row end" }, h("button", { type: "submit", class: "primary", text: "Open" })));
    dialog.body.append(form);
    dialog.show();
    input.focus();
  }

  connect() {
    if (this.asking) return;
    this.live?.close();
    this.live = new Live({
      token: () => this.api.token,
      before: () => this.refresh(),
      onMessages: (messages) => this.receive(messages),
      onState: (state, until) => this.connection(state, until),
    });
  }

  // refresh reads the runs anew, and answers how many events the open streams lack.
  async refresh() {
    const [{ runs = [] }, status] = await Promise.all([this.api.get("/api/runs", { limit: 50 }), this.api.get("/api/sandbox/status")]);
    this.questions.load().catch(() => {});
    let behind = 0;
    for (const run of [...runs, ...(status.sandboxes ?? [])]) {
      const known = this.runs.get(run.runId)?.lastSeq;
      if (known !== undefined) behind += Math.max(0, (run.lastSeq ?? 0) - known);
      this.runs.put(run);
    }
    if (this.wanted && !this.runs.get(this.wanted)) this.runs.put(await this.api.get(`/api/runs/${encodeURIComponent(this.wanted)}`).catch(() => null));
    for (const [id, stream] of this.streams) stream.resume(this.runs.get(id));
    const first = this.runs.get(this.chosen) ?? this.runs.get(this.wanted) ?? this.runs.live().at(-1) ?? this.runs.newest();
    if (!this.chosen && first) this.choose(first.runId);
    this.drawNow(); // so that nothing moves any more under who has begun to click
    return behind;
  }

  connection(state, until) {
    this.drawConnection(state, until);
    if (state === "live") {
      if (this.wasOffline) toast("Connected again; nothing was missed.");
      this.wasOffline = false;
      // Between reading the runs and the first message something may have happened.
      this.refresh().catch(() => {});
      if (this.chosen && this.wasLive) this.iterations.load(0).catch(() => {});
      this.wasLive = true;
    } else if (state === "offline") this.wasOffline = this.wasLive;
  }

  drawConnection(state, until) {
    this.retryAt = until;
    $("connection").className = `pill ${state}`;
    setText($("connection"), { live: "Live", connecting: "Connecting…", offline: "Offline" }[state]);
    $("notice").hidden = state !== "offline" || !this.wasLive;
    if (!$("notice").hidden) replace($("notice"), h("span", { text: "The control plane cannot be reached. Runs go on; what they do is kept and shown when it is back." }), button("Try now", () => this.live?.retryNow()));
  }

  receive(messages) {
    const byRun = new Map();
    for (const m of messages) {
      if (m.seq > 0 && m.runId) {
        const list = byRun.get(m.runId) ?? [];
        byRun.set(m.runId, list);
        list.push(eventOf(m));
      } else this.told(m);
    }
    for (const [id, events] of byRun) this.events(id, events);
  }

  events(id, events) {
    const run = this.runs.get(id);
    const seen = this.seen.get(id) ?? 0;
    const fresh = events.filter((event) => event.seq > seen);
    this.seen.set(id, Math.max(seen, ...events.map((event) => event.seq)));
    if (run) for (const event of fresh) follow(run, event);
    else this.soon();
    this.streams.get(id)?.live(events);
    if (id === this.chosen) {
      this.iterations.live(fresh);
      for (const event of fresh) this.overview.add(event.ts, event.vitals);
    }
    if (fresh.some((event) => event.type === "iteration_end" || event.type === "iteration_start" || event.type === "state")) this.drawRuns();
  }

  // told handles the messages that are no events of a loop.
  told(m) {
    const data = m.data ?? {};
    const runId = data.runId ?? m.runId;
    if (m.type === "run") this.runChanged(data);
    else if (m.type === "run_deleted") this.runDeleted(runId);
    else if (m.type === "growing") this.streams.get(runId)?.grow(data);
    else if (m.type === "questions") this.questions.load().catch(() => {});
    else if (m.type === "schedule" && data.said) toast(`${oneLine(data.agentType, 30)}, ${oneLine(data.when, 100)}: ${oneLine(data.said, 400)}`, "error");
    else if (m.type === "prompt") this.panels.prompt.changed({ ...data, runId });
    else if (m.type === "mailbox_update") this.panels.mailbox.update({ runId });
    else if (m.type === "iteration_summary") {
      this.streams.get(runId)?.summary(data.iterationId, data.summary);
      if (runId === this.chosen) this.iterations.summary(data.iterationId, data.summary);
    } else if (m.type === "gap") {
      toast("The connection was too slow for a moment; what it skipped is being read from the log.");
      this.refresh().catch(() => {});
    }
  }

  runChanged(run) {
    const before = this.runs.get(run.runId);
    this.runs.put(run);
    if (before && before.state !== run.state) announce(`${run.agentType}: ${stateNames[run.state] ?? run.state}`);
    if (run.runId === this.chosen && run.vitals) this.overview.add(Date.now(), run.vitals);
    if (!this.chosen) this.choose(run.runId);
    this.drawRuns();
    this.streams.get(run.runId)?.log.known(run.lastSeq);
  }

  runDeleted(id) {
    this.runs.byId.delete(id);
    if (id !== this.chosen) return this.drawRuns();
    history.replaceState(null, "", location.pathname);
    location.reload(); // with another run
  }

  // soon reads the runs anew because one appeared that this page does not know.
  soon() {
    this.refreshing ??= setTimeout(() => {
      this.refreshing = null;
      this.refresh().catch(() => {});
    }, 300);
  }

  choose(id) {
    if (this.chosen === id) return;
    this.chosen = id;
    this.wanted = id;
    history.replaceState(null, "", `#run=${encodeURIComponent(id)}`);
    this.openStreams();
    this.drawRuns();
    this.iterations.open(id).catch(problem("The iterations could not be loaded"));
    this.overview.open(id).then(() => this.drawOverview(), problem("The measurements could not be loaded"));
    this.panels.mailbox.open(this.runs.get(id)).catch(() => {});
    this.openPanel();
  }

  // openStreams shows the chosen run's stream, and beside it another's when that is wished and possible.
  openStreams() {
    const wanted = [this.chosen];
    if (this.beside && wide.matches) {
      const shown = [...this.streams.keys()];
      const other = [...shown, ...this.runs.live().map((run) => run.runId)].find((id) => id !== this.chosen && this.runs.get(id));
      if (other) wanted.push(other);
      // A stream that is already on the page keeps its place.
      if (shown.length === 2 && wanted.every((id) => shown.includes(id))) return this.markStreams();
    }
    for (const [id, stream] of this.streams) {
      if (wanted.includes(id)) continue;
      stream.close();
      this.streams.delete(id);
    }
    for (const id of wanted) {
      if (!this.runs.get(id) || this.streams.has(id)) continue;
      const stream = new Stream({ api: this.api, run: this.runs.get(id), onFocus: (focused) => this.streams.size > 1 && this.choose(focused) });
      this.streams.set(id, stream);
      $("streams").append(stream.el);
    }
    this.markStreams();
  }

  markStreams() {
    $("streams").classList.toggle("two", this.streams.size > 1);
    for (const [id, stream] of this.streams) stream.el.classList.toggle("chosen", id === this.chosen && this.streams.size > 1);
  }

  toggleBeside() {
    if (!wide.matches) return toast("Two streams need a wider window.");
    if (!this.beside && this.runs.live().filter((run) => run.runId !== this.chosen).length === 0) return toast("There is no second run to show beside this one.");
    this.beside = !this.beside;
    this.openStreams();
    $("streams").querySelector(".stream")?.scrollIntoView({ block: "nearest" });
    this.drawRuns();
  }

  openAt(seq) {
    if (!wide.matches) this.show("stream");
    this.streams.get(this.chosen)?.goTo(seq);
  }

  drawRuns() {
    this.drawTimer ??= setTimeout(() => this.drawNow(), 60);
  }

  drawNow() {
    clearTimeout(this.drawTimer);
    this.drawTimer = null;
    const run = this.runs.get(this.chosen);
    drawCards(this.runs, this.chosen, (id) => this.choose(id));
    this.controls.draw(run);
    this.besideButton.hidden = this.runs.live().length < 2 && !this.beside;
    this.besideButton.setAttribute("aria-pressed", String(Boolean(this.beside)));
    document.body.classList.toggle("no-run", !run);
    document.title = run ? `${stateNames[run.state] ?? run.state} · ${run.agentType} · gander` : "gander";
    this.drawOverview();
  }

  drawOverview() {
    const run = this.runs.get(this.chosen);
    if (run && this.shown("overview")) this.overview.draw(run, this.iterations.sorted());
  }

  // The views: all of them tabs on a narrow window; on a wide one iterations and stream are always there.
  buildTabs() {
    replace($("tabs"), views.map(([name, label]) => h("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `view-${name}`, class: `tab for-${name}`,
      on: { click: () => this.show(name) },
    }, label)));
    $("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const tabs = [...$("tabs").children].filter((tab) => tab.offsetParent);
      const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
      this.show(next.id.slice("tab-".length));
      next.focus();
    });
    wide.addEventListener("change", () => this.show(this.view));
  }

  shown(name) {
    return this.view === name || (wide.matches && (name === "stream" || name === "iterations"));
  }

  show(name) {
    const side = name !== "stream" && name !== "iterations";
    if (wide.matches && !side) {
      if (name === "stream") this.streams.get(this.chosen)?.scroller.focus();
      else $("view-iterations").querySelector("button")?.focus();
      if (this.view && !["stream", "iterations"].includes(this.view)) return;
      name = "overview";
    }
    this.view = name;
    document.body.dataset.view = name;
    remember("view", name);
    for (const [view] of views) {
      const tab = $(`tab-${view}`);
      tab.setAttribute("aria-selected", String(view === name));
      tab.tabIndex = view === name ? 0 : -1;
      $(`view-${view}`).classList.toggle("current", view === name);
    }
    this.openPanel();
    this.drawOverview();
    for (const stream of this.streams.values()) stream.draw(); // what is not seen cannot be scrolled
  }

  openPanel() {
    const panel = this.panels[this.view];
    const run = this.runs.get(this.chosen);
    if (panel && (run || this.view === "prompt") && this.api.token !== undefined && this.live) Promise.resolve(panel.open(run)).catch(problem("This view could not be loaded"));
  }

  buildHeader() {
    $("start-button").addEventListener("click", () => this.startRun());
    $("help-button").addEventListener("click", showHelp);
    $("history-button").addEventListener("click", () => showHistory(this.api, this.runs, (id) => this.choose(id)));
    $("theme-button").addEventListener("click", () => this.nextTheme());
    this.besideButton = button("Side by side", () => this.toggleBeside(), { id: "beside-button", hidden: true, "aria-pressed": "false", "aria-keyshortcuts": "b" });
    $("history-button").before(this.besideButton);
    this.drawTheme();
  }

  startRun() {
    showStart({ api: this.api, runs: this.runs, started: async (run) => {
      await this.refresh().catch(() => {});
      if (!this.runs.get(run.runId)) this.runs.put({ ...run, state: "starting", lastSeq: 0, createdAt: new Date().toISOString() });
      this.choose(run.runId);
    } });
  }

  nextTheme() {
    const order = ["", "dark", "light"];
    const next = order[(order.indexOf(recall("theme") ?? "") + 1) % order.length];
    remember("theme", next);
    if (next) document.documentElement.dataset.theme = next;
    else delete document.documentElement.dataset.theme;
    this.drawTheme();
  }

  drawTheme() {
    const theme = document.documentElement.dataset.theme ?? "";
    setText($("theme-button"), { dark: "☾", light: "☀" }[theme] ?? "◐");
    $("theme-button").setAttribute("aria-label", `Theme: ${theme || "as the system"}`);
    $("theme-button").title = `Theme: ${theme || "as the system"}`;
  }

  keys() {
    const press = (key) => () => $("controls").querySelector(`[data-action="${key}"]:not(:disabled)`)?.click();
    const stream = (work) => () => {
      const it = this.streams.get(this.chosen);
      if (it) work(it);
    };
    listenKeys({
      n: () => this.startRun(), "?": showHelp, h: () => $("history-button").click(), t: () => this.nextTheme(), b: () => this.toggleBeside(),
      p: press("p"), s: press("s"), c: press("c"), x: press("x"),
      j: stream((it) => it.step(1)), k: stream((it) => it.step(-1)), f: stream((it) => it.toEnd()), "/": stream((it) => it.search.focus()),
      "[": () => this.neighbour(-1), "]": () => this.neighbour(1),
      ...Object.fromEntries(views.map(([name], i) => [String(i + 1), () => this.show(name)])),
    });
  }

  neighbour(step) {
    const cards = [...$("runs").querySelectorAll("[data-card]")].map((el) => el.dataset.card);
    const next = cards[cards.indexOf(this.chosen) + step];
    if (next) this.choose(next);
  }

  tick() {
    this.drawOverview();
    countdown($("controls"));
    if (this.retryAt) setText($("connection"), this.retryAt > Date.now() ? `Offline, again in ${duration(this.retryAt - Date.now())}` : "Connecting…");
  }
}

// eventOf reads an event out of a live message.
function eventOf(m) {
  return { ...m.data, type: m.type, seq: m.seq, runId: m.runId, ts: m.data?.ts ?? when(m.timestamp) };
}

// follow keeps what is known about a run up to date with its events.
function follow(run, event) {
  if (event.seq <= (run.lastSeq ?? 0)) return; // the server has counted it already
  run.lastSeq = event.seq;
  if (event.type === "iteration_start") run.iteration = event.iterationId;
  if (event.type === "iteration_end") {
    run.lastOutcome = event.status;
    if (event.vitals) run.vitals = event.vitals;
    if (event.usage) {
      const sum = run.usage ?? {};
      run.usage = Object.fromEntries(["input", "output", "total", "cost"].map((k) => [k, (sum[k] ?? 0) + (event.usage[k] ?? 0)]));
    }
  }
  if (event.type === "state" && !ended(run)) Object.assign(run, { state: event.state ?? run.state, reason: oneLine(event.reason, 500), until: event.until ?? 0 });
}

function sessionToken(set) {
  try {
    if (set !== undefined) sessionStorage.setItem("gander.token", set);
    return sessionStorage.getItem("gander.token") ?? "";
  } catch {
    return set ?? ""; // no storage: until the page is left
  }
}

new App().start();
