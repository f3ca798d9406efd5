// Shortcuts: single keys, never while something is being written, and off for those who want none.
import { h, openDialog, recall, remember } from "./dom.js";

const rows = [
  ["n", "Start a run"], ["[ and ]", "The run before, the run after"], ["p", "Pause, or resume"], ["s", "Step: one iteration of a paused run"], ["c", "Cancel the iteration"], ["x", "Stop the run (asks first)"],
  ["j and k", "Next and previous event; Enter opens it"], ["f", "To the newest event, and follow"], ["/", "Search the stream"], ["1 … 8", "Iterations, stream, overview, prompt, files, snapshots, mailbox, ports"],
  ["b", "Two streams side by side"], ["h", "History of runs"], ["t", "Theme: system, dark, light"], ["?", "This list"], ["Escape", "Close a dialog; leave a field"], ["Ctrl+Enter", "Save the prompt; send the message"],
];

let enabled = recall("keys") !== "off";

// listenKeys calls actions by key.
export function listenKeys(actions) {
  addEventListener("keydown", (event) => {
    const writing = event.target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && writing && !document.querySelector("dialog[open]")) return writing.blur();
    if (!enabled || writing || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

export function showHelp() {
  const dialog = openDialog("Keyboard");
  const box = h("input", { type: "checkbox", id: "keys-enabled", on: { change: () => {
    enabled = box.checked;
    remember("keys", enabled ? "on" : "off");
  } } });
  box.checked = enabled;
  dialog.body.append(
    h("dl", { class: "keys" }, rows.flatMap(([key, what]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: what })])),
    h("p", {}, box, " ", h("label", { for: "keys-enabled", text: "Single keys do these things" })),
    h("p", { class: "muted", text: "Everything here can also be reached with Tab and done with Enter or Space." }));
  dialog.show();
}
