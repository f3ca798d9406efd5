// The workspace of a run: folders, a viewer, downloads.
import { button, h, problem, replace } from "./dom.js";
import { output } from "./render.js";
import { bytes, clean, day, oneLine } from "./text.js";

const root = "/workspace";

export class Files {
  constructor(el, { api }) {
    Object.assign(this, { el, api });
    this.crumbs = h("nav", { class: "crumbs", "aria-label": "Folder" });
    this.list = h("ul", { class: "files" });
    this.viewer = h("div", { class: "viewer" });
    replace(el, h("div", { class: "row" }, h("h2", { text: "Files" }), button("Refresh", () => this.show(this.path))), this.crumbs, this.list, this.viewer);
  }

  open(run) {
    if (this.runId === run.runId && this.path) return this.show(this.path);
    this.runId = run.runId;
    replace(this.viewer);
    return this.show(root);
  }

  async show(path) {
    this.path = path;
    const { runId } = this;
    try {
      const { entries = [] } = await this.api.get("/api/sandbox/files", { run: runId, path });
      if (path !== this.path || runId !== this.runId) return;
      this.drawCrumbs();
      replace(this.list, entries.map((entry) => this.entry(entry)));
      if (!entries.length) replace(this.list, h("li", { class: "muted", text: "This folder is empty." }));
    } catch (error) {
      if (path !== this.path) return;
      this.drawCrumbs();
      replace(this.list, h("li", { class: "muted", text: error.message }));
    }
  }

  drawCrumbs() {
    const parts = this.path.slice(root.length).split("/").filter(Boolean);
    replace(this.crumbs, button("workspace", () => this.show(root), { class: "quiet" }),
      parts.flatMap((part, i) => [" / ", button(clean(part), () => this.show(`${root}/${parts.slice(0, i + 1).join("/")}`), { class: "quiet", "aria-current": i === parts.length - 1 ? "true" : null })]));
  }

  entry({ name, type, size, modified }) {
    const path = `${this.path}/${name}`;
    const folder = type === "directory" || type === "dir";
    const plain = type === "file";
    const act = folder ? () => this.show(path) : plain ? () => this.view(path) : null;
    const label = `${folder ? "▸ " : ""}${clean(name)}${folder ? "/" : ""}`;
    return h("li", {}, act ? button(label, act, { class: "quiet name", "aria-label": `${folder ? "Folder" : "File"} ${clean(name)}` }) : h("span", { class: "name muted", text: `${label} (${oneLine(type, 20)})` }),
      h("span", { class: "muted", text: plain ? bytes(size) : "" }), h("span", { class: "muted", text: day(modified) }));
  }

  async view(path) {
    try {
      const file = await this.api.get("/api/sandbox/files/read", { run: this.runId, path });
      const name = path.split("/").at(-1);
      replace(this.viewer, h("div", { class: "row" }, h("h3", { dir: "auto", text: clean(name) }),
        button("Download", () => this.api.download("/api/sandbox/files/download", { run: this.runId, path }, name).catch(problem("The download failed"))),
        button("Close", () => replace(this.viewer))),
      file.binary ? h("p", { class: "muted", text: `No text: ${bytes(file.bytes)} of binary data.` }) : output({ content: file.content || "(empty)", truncated: file.truncated, bytes: file.bytes }));
      this.viewer.scrollIntoView({ block: "nearest" });
    } catch (error) {
      problem("The file could not be read")(error);
    }
  }
}
