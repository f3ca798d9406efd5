// The dialog that starts a run.
import { button, h, openDialog, toast, uid } from "./dom.js";
import { day, ended, oneLine } from "./text.js";

const presets = [
  ["Fix and test", "Run the project's tests. Mend what fails, one cause at a time, and run them again after each change. Stop when everything passes."],
  ["Review", "Read the code of this project as a strict reviewer. Write what you find, the most important first, into REVIEW.md with file and line. Change nothing else."],
  ["Document", "Write or mend README.md so that a newcomer can build, test and use this project. Try every command before you write it down."],
  ["Build something", "Plan a small useful program in PLAN.md, then build it step by step with tests, one step per iteration, and keep PLAN.md up to date."],
];

const limitFields = [
  ["iterations", "Iterations", 1], ["wallClock", "Minutes in all", 60], ["iteration", "Minutes per iteration", 60], ["idle", "Minutes without output", 60],
  ["tokens", "Tokens", 1], ["cost", "Cost ($)", 1, "any"], ["failures", "Failures in a row", 1],
];

// begins are the ways to say when a run begins, each with an example of its time.
const begins = { "": ["Now", ""], every: ["Now, and again every", "24h"], at: ["Once, at", "22:00, or 2026-12-24 22:00"], cron: ["By a cron expression", "30 2 * * *"] };

export async function showStart({ api, runs, started }) {
  const dialog = openDialog("Start a run", { wide: true });
  const form = h("form", { method: "dialog" });
  dialog.body.append(form);
  const loading = h("p", { class: "muted", text: "Asking which agents there are…" });
  form.append(loading);
  dialog.show();
  try {
    const { agents = [], sandboxes = [] } = await api.get("/api/agents");
    loading.remove();
    new StartForm(form, { api, runs, agents, sandboxes, done: (run) => (dialog.close(), run && started(run)), cancel: () => dialog.close() });
  } catch (error) {
    loading.textContent = error.message;
  }
}

class StartForm {
  constructor(form, { api, runs, agents, sandboxes, done, cancel }) {
    Object.assign(this, { form, api, runs, agents, done });
    this.prompt = h("textarea", { rows: "6", id: uid("prompt"), dir: "auto" });
    this.workspace = h("input", { type: "text", id: uid("workspace"), spellcheck: "false", autocomplete: "off", placeholder: "empty: the agent's own folder", on: { input: () => this.draw() } });
    this.sandbox = h("select", { id: uid("sandbox") }, ["", ...sandboxes].map((value) => h("option", { value, text: value || "Choose for me" })));
    this.model = h("input", { type: "text", id: uid("model"), spellcheck: "false", autocomplete: "off", placeholder: "empty: the configured one" });
    this.pace = h("input", { type: "number", id: uid("pace"), min: "0", step: "1", placeholder: "2" });
    this.limits = limitFields.map(([name, label, factor, step]) => ({ name, label, factor, input: h("input", { type: "number", id: uid(name), min: "0", step: step ?? "1", inputmode: "decimal" }) }));
    this.when = h("select", { id: uid("when"), on: { change: () => this.draw() } }, Object.entries(begins).map(([value, [text]]) => h("option", { value, text })));
    this.time = h("input", { type: "text", id: uid("time"), spellcheck: "false", autocomplete: "off" });
    this.problem = h("p", { class: "warning", role: "alert", hidden: true });
    this.submit = h("button", { type: "submit", class: "primary", text: "Start" });
    form.append(this.agentChoice(), this.promptPart(), field("Workspace", this.workspace), this.more(), this.problem,
      h("div", { class: "row end" }, button("Cancel", cancel), this.submit));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.start();
    });
    this.draw();
    (form.querySelector("input[type=radio]:checked") ?? this.prompt).focus();
  }

  agentChoice() {
    this.radios = this.agents.map((agent) => {
      const id = uid("agent");
      const why = h("span", { class: "muted", id: `${id}-why`, dir: "auto" });
      const input = h("input", { type: "radio", name: "agent", id, value: agent.name, "aria-describedby": `${id}-why`, on: { change: () => this.draw() } });
      return { agent, input, why, el: h("div", { class: "choice" }, input, h("label", { for: id, text: oneLine(agent.name, 40) }), why) };
    });
    return h("fieldset", { class: "agents" }, h("legend", { text: "Agent" }), this.radios.map(({ el }) => el),
      this.agents.length ? null : h("p", { text: "No agent is known. gander agent list says more." }));
  }

  promptPart() {
    return h("div", { class: "field" }, h("label", { for: this.prompt.id, text: "Prompt (empty: the one of all runs)" }), this.prompt,
      h("div", { class: "chips", role: "group", "aria-label": "Examples" }, presets.map(([name, text]) => button(name, () => {
        this.prompt.value = text;
        this.prompt.focus();
      }, { class: "chip" }))));
  }

  more() {
    return h("details", { class: "more-fields" }, h("summary", { text: "Time, sandbox, model and limits" }),
      h("div", { class: "grid" }, field("Begins", this.when), this.timeField = field("Time", this.time), field("Sandbox", this.sandbox), field("Model", this.model), field("Seconds between iterations", this.pace),
        this.limits.map(({ label, input }) => field(label, input))),
      h("p", { class: "muted", text: "An empty limit is none, but for ten million tokens in all, unless you give a cost or 0; five failures in a row pause a run unless you say otherwise." }));
  }

  get agent() {
    return this.radios.find(({ input }) => input.checked)?.agent;
  }

  // busy is the run that already works where this agent would: the server refuses a second one there.
  busy(agent) {
    if (this.workspace.value.trim() || this.when.value) return null;
    return this.runs.live().find((run) => run.agentType === agent.name && !ended(run) && endsWith(run.workspace, agent.name));
  }

  draw() {
    for (const { agent, input, why } of this.radios) {
      const busy = this.busy(agent);
      input.disabled = !agent.available || Boolean(busy);
      if (input.disabled) input.checked = false;
      why.textContent = !agent.available ? oneLine(agent.why, 300) || "not available" : busy ? "is at work in its own folder; name another workspace, or stop that run first" : "";
    }
    if (!this.agent) {
      const free = this.radios.find(({ input }) => !input.disabled);
      if (free) free.input.checked = true;
    }
    this.submit.disabled = !this.agent;
    this.timeField.hidden = !this.when.value;
    this.time.required = Boolean(this.when.value);
    this.time.placeholder = begins[this.when.value][1];
    this.submit.textContent = this.when.value ? "Schedule" : "Start";
  }

  body() {
    const limits = {};
    for (const { name, factor, input } of this.limits) if (input.value !== "") limits[name] = Number(input.value) * factor;
    const body = { agentType: this.agent.name };
    const texts = { prompt: this.prompt.value.trim(), workspace: this.workspace.value.trim(), sandbox: this.sandbox.value, model: this.model.value.trim() };
    for (const [name, value] of Object.entries(texts)) if (value) body[name] = value;
    if (this.pace.value !== "") body.pace = Number(this.pace.value);
    if (Object.keys(limits).length) body.limits = limits;
    if (limits.tokens === 0) body.noBudget = true;
    if (this.when.value) body[this.when.value] = this.time.value.trim();
    return body;
  }

  async start() {
    if (!this.agent) return;
    this.submit.disabled = true;
    this.submit.textContent = "Starting…";
    this.problem.hidden = true;
    try {
      if (this.when.value) {
        const schedule = await this.api.post("/api/schedules", this.body());
        toast(`${oneLine(schedule.start.agentType, 30)} is to begin at ${day(schedule.nextAt)}; History lists the schedules.`);
        return this.done(null);
      }
      const run = await this.api.work("/api/sandbox/start", this.body());
      toast(`${oneLine(run.agentType, 30)} was started.`);
      this.done(run);
    } catch (error) {
      this.problem.textContent = error.message;
      this.problem.hidden = false;
      this.draw();
    }
  }
}

const endsWith = (workspace, agent) => !workspace || String(workspace).split("/").at(-1) === agent;

const field = (label, input) => h("div", { class: "field" }, h("label", { for: input.id, text: label }), input);

