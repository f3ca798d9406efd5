// What one run uses and may use: state, limits, and charts of the sandbox's processor, memory, disk, tokens and cost.
import { h, replace } from "./dom.js";
import { barChart, lineChart } from "./charts.js";
import { bytes, clock, cost, count, day, duration, oneLine, outcomeNames, short, stateNames, when } from "./text.js";

const mostPoints = 240;

export class Overview {
  constructor(el, { api }) {
    Object.assign(this, { el, api });
    this.vitals = [];
    this.facts = h("dl", { class: "facts" });
    this.charts = h("div", { class: "charts" });
    this.names = h("dl", { class: "facts" });
    replace(el, h("h2", { text: "Overview" }), this.facts, this.charts, this.names);
  }

  async open(runId) {
    this.runId = runId;
    this.vitals = [];
    const { vitals = [] } = await this.api.get("/api/telemetry/vitals", { run: runId, limit: mostPoints });
    if (runId !== this.runId) return;
    const old = vitals.map((v) => [when(v.ts ?? v.timestamp), v.cpu_pct ?? v.cpu ?? 0, v.memory_mb ?? v.memory ?? 0, v.disk_mb ?? v.disk ?? 0]);
    this.vitals = [...old, ...this.vitals].sort((a, b) => a[0] - b[0]);
    this.drawnRun = null; // drawn before it was known
  }

  // add takes a measurement of the run that is shown.
  add(ms, vitals) {
    if (!vitals || this.vitals.at(-1)?.[0] >= ms) return;
    this.vitals.push([ms, vitals.cpu ?? 0, vitals.memory ?? 0, vitals.disk ?? 0]);
    if (this.vitals.length > mostPoints) this.vitals.shift();
  }

  draw(run, iterations) {
    list(this.facts, facts(run));
    list(this.names, [["Run", run.runId], ["Session", run.sessionId], ["Container", run.containerId]]);
    // What is being read or pointed at stays; and nobody reads faster than once a second.
    const now = Date.now();
    if (this.charts.querySelector("details[open], :focus, svg:hover") || (this.drawnRun === run.runId && now - this.drawnAt < 1000)) return;
    Object.assign(this, { drawnRun: run.runId, drawnAt: now });
    const line = (column, title, unit, color, top) => lineChart(this.vitals.map((v) => [v[0], v[column]]), { title, unit, color, top, clockOf: clock });
    const bars = iterations.slice(0, 60).reverse();
    replace(this.charts,
      line(1, "Processor", (v) => `${v.toFixed(v < 10 ? 1 : 0)} %`, "cpu", 10),
      line(2, "Memory", (v) => bytes(v * 1e6), "memory", 1),
      line(3, "Disk", (v) => bytes(v * 1e6), "disk", 1),
      barChart(bars.map((it) => [it.number, [it.input, it.output]]), { title: "Tokens per iteration", unit: short, color: "tokens", parts: ["in", "out"], now: `${short(run.usage?.total ?? 0)}` }),
      barChart(bars.map((it) => [it.number, [it.cost]]), { title: "Cost per iteration", unit: cost, color: "cost", parts: [""], now: cost(run.usage?.cost ?? 0) }));
  }
}

function facts(run) {
  const limits = run.limits ?? {};
  const of = (used, limit) => (limit > 0 ? `${used} of ${count(limit)}` : used);
  const seconds = (s) => (s > 0 ? duration(s * 1000) : "");
  return [
    ["State", `${stateNames[run.state] ?? oneLine(run.state, 40)}${run.reason ? ` — ${oneLine(run.reason, 300)}` : ""}`],
    ["Agent", [run.agentType, run.model, run.sandbox].filter(Boolean).map((s) => oneLine(s, 60)).join(", ")],
    ["Workspace", oneLine(run.workspace, 400)],
    ["Attention", oneLine(run.torn, 400)],
    ["Started", day(run.startedAt || run.createdAt)],
    ["Stopped", day(run.stoppedAt)],
    ["Iterations", of(count(run.iteration), limits.iterations)],
    ["Last outcome", outcomeNames[run.lastOutcome] ?? oneLine(run.lastOutcome, 40)],
    ["Tokens", of(count(run.usage?.total), limits.tokens)],
    ["Cost", limits.cost > 0 ? `${cost(run.usage?.cost)} of ${cost(limits.cost)}` : cost(run.usage?.cost)],
    ["Limits", [limits.wallClock > 0 ? `in all ${seconds(limits.wallClock)}` : "", limits.iteration > 0 ? `an iteration ${seconds(limits.iteration)}` : "", limits.idle > 0 ? `idle ${seconds(limits.idle)}` : "", limits.failures > 0 ? `${count(limits.failures)} failures in a row` : ""].filter(Boolean).join(", ")],
  ];
}

function list(el, pairs) {
  replace(el, pairs.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { dir: "auto", text: oneLine(value, 500) })]));
}
