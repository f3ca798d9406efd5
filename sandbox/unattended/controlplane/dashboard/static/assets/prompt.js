// The prompt: of the chosen run, or of all runs that have none of their own; with history, and with a notice when somebody else changes it.
import { button, h, problem, replace, setText, toast, uid } from "./dom.js";
import { clean, day, oneLine } from "./text.js";

export class Prompt {
  constructor(el, { api }) {
    Object.assign(this, { el, api });
    this.base = ""; // what the server had when it was last read or written
    this.theirs = null; // what it has now, when that differs from base and from the draft
    this.build();
  }

  build() {
    const id = uid("prompt");
    this.text = h("textarea", { id, rows: "10", dir: "auto", spellcheck: "true", on: { input: () => this.draw() } });
    this.text.addEventListener("keydown", (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && this.save());
    this.scope = h("select", { "aria-label": "Whose prompt", on: { change: () => this.load().catch(problem("The prompt could not be read")) } });
    this.saveButton = button("Save", () => this.save(), { class: "primary", "aria-keyshortcuts": "Control+Enter" });
    this.revert = button("Revert", () => {
      this.text.value = this.base;
      this.theirs = null;
      this.draw();
    });
    this.note = h("p", { class: "muted", role: "status" });
    this.conflict = h("div", { class: "warning", role: "alert", hidden: true },
      h("p", { text: "The prompt was changed by somebody else while you were writing." }),
      h("div", { class: "row" }, button("Take theirs", () => this.take()), button("Keep mine", () => this.keep())));
    this.history = h("ol", { class: "versions" });
    replace(this.el, h("h2", { text: "Prompt" }),
      h("div", { class: "row" }, this.scope), h("label", { for: id, text: "What the agent is to do" }), this.text, this.conflict,
      h("div", { class: "row" }, this.saveButton, this.revert, this.note),
      h("h3", { text: "History" }), this.history);
  }

  get dirty() {
    return this.text.value !== this.base;
  }

  // open shows the prompt that a run follows.
  async open(run) {
    const keep = this.runId === run?.runId && this.dirty;
    this.runId = run?.runId ?? "";
    if (keep) return;
    replace(this.scope,
      run ? h("option", { value: "run", text: `${oneLine(run.agentType, 30)}: this run only` }) : null,
      h("option", { value: "all", text: "All runs without their own" }));
    this.scope.value = run?.prompt?.own ? "run" : "all";
    await this.load();
  }

  get query() {
    return { run: this.scope.value === "run" ? this.runId : "" };
  }

  async load() {
    const { query } = this;
    const { content, updated_at: updated } = await this.api.get("/api/prompt", query);
    if (query.run !== this.query.run) return;
    this.theirs = null;
    this.base = content ?? "";
    this.text.value = this.base;
    setText(this.note, updated ? `From ${day(updated)}` : "");
    this.draw();
    await this.loadHistory();
  }

  async loadHistory() {
    const { history = [] } = await this.api.get("/api/prompt/history", { ...this.query, limit: 30 });
    replace(this.history, history.map((version, i) => this.version(version, i === 0)));
    if (!history.length) replace(this.history, h("li", { class: "muted", text: "No prompt was set yet." }));
  }

  version(version, current) {
    return h("li", {}, h("details", {},
      h("summary", {}, h("span", { class: "muted", text: day(version.updated_at) }), " ", h("span", { dir: "auto", text: oneLine(version.content, 120) || "(empty)" }), current ? h("span", { class: "badge", text: "current" }) : null),
      h("pre", { dir: "auto", tabindex: "0", text: clean(version.content) }),
      current ? null : button("Put into the editor", () => {
        this.text.value = version.content;
        this.draw();
        this.text.focus();
      })));
  }

  async save() {
    const content = this.text.value;
    if (!content.trim() || !this.dirty) return;
    try {
      await this.api.put("/api/prompt", this.query, { content });
      this.base = content;
      this.theirs = null;
      setText(this.note, "Saved; it is in force from the next iteration.");
      this.draw();
      await this.loadHistory();
    } catch (error) {
      problem("The prompt was not saved")(error);
      toast("Your text is still in the editor.");
    }
  }

  // changed is told of every change of a prompt, our own too.
  changed({ runId, content }) {
    if ((runId ?? "") !== this.query.run) return;
    if (content === undefined) return this.load().catch(problem("The prompt could not be read"));
    if (content === this.base) return;
    if (content === this.text.value) this.base = content;
    else if (this.dirty) this.theirs = content;
    else {
      this.base = content;
      this.text.value = content;
      setText(this.note, "It was just changed by somebody else.");
    }
    this.draw();
    this.loadHistory().catch(problem("The history could not be read"));
  }

  take() {
    this.base = this.theirs;
    this.text.value = this.theirs;
    this.theirs = null;
    this.draw();
  }

  keep() {
    this.base = this.theirs;
    this.theirs = null;
    this.draw();
  }

  draw() {
    this.conflict.hidden = this.theirs === null;
    this.saveButton.disabled = !this.dirty || !this.text.value.trim();
    this.revert.disabled = !this.dirty;
  }
}
