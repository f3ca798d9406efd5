// Ports of the sandbox: what is open on this machine, and what else listens inside.
import { button, h, problem, replace, setText, uid } from "./dom.js";

const again = 3000; // ms between two looks

export class Ports {
  constructor(el, { api }) {
    Object.assign(this, { el, api });
    const id = uid("port");
    this.port = h("input", { id, type: "text", inputmode: "numeric", required: true, autocomplete: "off", pattern: "[0-9]{1,5}(:[0-9]{1,5})?", placeholder: "5173, or 8080:5173", title: "A port inside, or one of this machine and a port inside: 8080:5173" });
    const form = h("form", { class: "row", on: { submit: (event) => {
      event.preventDefault();
      this.change({ open: this.port.value.trim() });
    } } }, h("label", { for: id, text: "Port" }), this.port, h("button", { type: "submit", class: "primary", text: "Open the port" }));
    this.note = h("p", { class: "muted", role: "status" });
    this.list = h("ul", { class: "snapshots" });
    replace(el, h("h2", { text: "Ports" }), h("p", { class: "muted", text: "Servers that run inside. A port that you open is reached on this machine, by all of its users, until you close it or the run ends. What answers there was made by the agent." }), form, this.note, this.list);
    setInterval(() => this.run && el.checkVisibility() && !document.hidden && this.open(this.run).catch(() => {}), again);
  }

  async open(run) {
    if (this.run?.runId !== run.runId) this.show();
    this.run = run;
    const now = await this.api.get(this.path());
    if (this.run === run) this.show(now);
  }

  path() {
    return `/api/runs/${encodeURIComponent(this.run.runId)}/ports`;
  }

  // show draws what differs from before, so that nothing moves under who has begun to click.
  show({ open = [], listening = [] } = {}) {
    const is = JSON.stringify([open, listening]);
    if (is !== this.shown) replace(this.list, open.map((o) => this.opened(o)), listening.map((port) => this.listens(port)));
    this.shown = is;
    setText(this.note, open.length || listening.length ? "" : "Nothing listens inside, and no port is open.");
  }

  opened({ port, url, heard }) {
    return h("li", {}, h("div", {}, h("b", { text: `Port ${port}` }), " ", h("a", { href: url, target: "_blank", rel: "noopener noreferrer", text: url }),
      heard ? null : h("p", { class: "muted", text: "Nothing listens there now." })),
      button("Close", () => this.change({ close: port }), { "aria-label": `Close port ${port}` }));
  }

  listens(port) {
    return h("li", {}, h("div", {}, h("b", { text: `Port ${port}` }), " listens inside."),
      button("Open", () => this.change({ open: String(port) }), { "aria-label": `Open port ${port}` }));
  }

  async change(order) {
    try {
      this.show(await this.api.post(this.path(), order));
      if (order.open === this.port.value.trim()) this.port.value = "";
    } catch (error) {
      problem(order.open ? "The port was not opened" : "The port was not closed")(error);
    }
  }
}
