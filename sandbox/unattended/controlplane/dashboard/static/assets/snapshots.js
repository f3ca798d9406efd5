// Snapshots of workspaces: take one, put one back, download, delete.
import { button, confirmDialog, h, problem, replace, toast } from "./dom.js";
import { bytes, day, oneLine } from "./text.js";

export class Snapshots {
  constructor(el, { api }) {
    Object.assign(this, { el, api });
    this.label = h("input", { type: "text", maxlength: "100", placeholder: "Name (may be empty)", "aria-label": "Name of the snapshot" });
    this.take = button("Take a snapshot", () => this.capture(), { class: "primary" });
    this.list = h("ul", { class: "snapshots" });
    replace(el, h("h2", { text: "Snapshots" }), h("p", { class: "muted", text: "The whole workspace as it is now. Putting one back needs a run that is paused or stopped." }),
      h("div", { class: "row" }, this.label, this.take), this.list);
  }

  async open(run) {
    this.run = run;
    const { snapshots = [] } = await this.api.get("/api/snapshots", { limit: 100 });
    replace(this.list, snapshots.map((s) => this.entry(s)));
    if (!snapshots.length) replace(this.list, h("li", { class: "muted", text: "No snapshot yet." }));
  }

  async capture() {
    waiting(this.take, "Taking…");
    try {
      await this.api.work("/api/snapshots/capture", { label: this.label.value.trim() || undefined, runId: this.run.runId });
      this.label.value = "";
      await this.open(this.run);
    } catch (error) {
      problem("No snapshot was taken")(error);
    } finally {
      ready(this.take, "Take a snapshot");
    }
  }

  entry(s) {
    const name = oneLine(s.label, 100) || `Snapshot ${s.id}`;
    const restore = button("Restore", () => this.restore(s, name, restore), { "aria-label": `Restore ${name}` });
    return h("li", {}, h("div", {}, h("b", { dir: "auto", text: name }), h("p", { class: "muted", text: [oneLine(s.agentType, 30), bytes(s.sizeBytes), day(s.createdAt)].filter(Boolean).join(" · ") })),
      h("div", { class: "row" },
        restore,
        button("Download", () => this.api.download(`/api/snapshots/${s.id}/download`, null, s.filename || `snapshot-${s.id}.tar.gz`).catch(problem("The download failed")), { "aria-label": `Download ${name}` }),
        button("Delete", () => this.remove(s, name), { "aria-label": `Delete ${name}`, class: "danger" })));
  }

  async restore(s, name, el) {
    const { run } = this;
    const yes = await confirmDialog("Put this snapshot back?", `The workspace is replaced by “${name}”. What is in it now is kept as a snapshot of its own.`, "Replace the workspace");
    if (!yes) return;
    waiting(el, "Restoring…");
    toast("The snapshot is being restored.");
    try {
      await this.api.work(`/api/snapshots/${s.id}/restore`, { runId: run.runId });
      toast("The workspace is as it was then.");
    } catch (error) {
      // The control plane finishes what it has begun, whether the page hears of it or not.
      problem(error.status === 0 ? "Whether the snapshot was restored is not known" : "The snapshot was not restored")(error);
    } finally {
      ready(el, "Restore");
    }
    await this.open(this.run).catch(problem("The list could not be loaded")); // what was there is in it in any case
  }

  async remove(s, name) {
    if (!(await confirmDialog("Delete this snapshot?", `“${name}” is deleted for good.`, "Delete"))) return;
    await this.api.delete(`/api/snapshots/${s.id}`).then(() => this.open(this.run), problem("The snapshot was not deleted"));
  }
}

function waiting(el, text) {
  el.disabled = true;
  el.textContent = text;
}

function ready(el, text) {
  el.disabled = false;
  el.textContent = text;
}
