// The mailbox: the last message of the agent, and the last of its operator, which goes into the next instruction.
import { announce, button, h, problem, replace, setText, uid } from "./dom.js";
import { clean, day, when } from "./text.js";

export class Mailbox {
  // onUnread is told whether the agent waits for an answer.
  constructor(el, { api, onUnread }) {
    Object.assign(this, { el, api, onUnread });
    const id = uid("message");
    this.theirs = h("div", { class: "message" });
    this.mine = h("div", { class: "message" });
    this.text = h("textarea", { id, rows: "4", dir: "auto", on: { input: () => this.draw() } });
    this.text.addEventListener("keydown", (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && this.send());
    this.sendButton = button("Send", () => this.send(), { class: "primary", disabled: true, "aria-keyshortcuts": "Control+Enter" });
    this.note = h("p", { class: "muted", role: "status" });
    replace(el, h("h2", { text: "Mailbox" }), h("h3", { text: "From the agent" }), this.theirs, h("h3", { text: "From you" }), this.mine,
      h("label", { for: id, text: "Message to the agent; it reads it in its next iteration" }), this.text, h("div", { class: "row" }, this.sendButton, this.note));
  }

  async open(run) {
    if (this.runId !== run.runId) {
      this.text.value = "";
      setText(this.note, "");
    }
    this.runId = run.runId;
    const box = await this.api.get("/api/mailbox", { run: run.runId });
    if (this.runId === run.runId) this.show(box);
  }

  show(box) {
    this.box = box;
    const unread = Boolean(box.agent_msg) && !(when(box.human_updated_at) >= when(box.agent_updated_at));
    replace(this.theirs, message(box.agent_msg, box.agent_updated_at, "Nothing."));
    replace(this.mine, message(box.human_msg, box.human_updated_at, "Nothing yet."));
    this.onUnread(unread);
    this.draw();
  }

  // update is told of every change.
  update({ runId }) {
    if (runId && runId !== this.runId) return;
    announce("The mailbox has a message");
    this.open({ runId: this.runId }).catch(problem("The mailbox could not be read"));
  }

  async send() {
    const text = this.text.value.trim();
    if (!text) return;
    try {
      await this.api.put("/api/mailbox/human", { run: this.runId }, { message: text });
      this.text.value = "";
      setText(this.note, "Sent.");
      await this.open({ runId: this.runId });
    } catch (error) {
      problem("The message was not sent")(error);
    }
  }

  draw() {
    this.sendButton.disabled = !this.text.value.trim();
  }
}

function message(text, at, none) {
  if (!text) return h("p", { class: "muted", text: none });
  return [h("p", { class: "muted", text: day(at) }), h("pre", { dir: "auto", tabindex: "0", text: clean(text) })];
}
