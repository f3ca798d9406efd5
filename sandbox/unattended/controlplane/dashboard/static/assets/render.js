// One event as a row of the stream. Details are made when they are opened, not before.
import { button, h } from "./dom.js";
import { compared, looksLikeDiff, unified } from "./diff.js";
import { bytes, clean, clock, instant, oneLine, outcomeNames, plural, stateNames, duration, short, cost } from "./text.js";

const firstPiece = 6_000; // characters of a text that are shown at once
const nextPiece = 64_000;

export const kinds = {
  text: { label: "Text", group: "text" },
  thought: { label: "Thought", group: "thought" },
  tool_use: { label: "Tool", group: "tools" },
  tool_result: { label: "Result", group: "tools" },
  error: { label: "Error", group: "errors" },
  state: { label: "State", group: "states" },
  gap: { label: "Gap", group: "states" },
  iteration_start: { label: "Start", group: "states" },
  iteration_end: { label: "End", group: "states" },
};

export const kindOf = (event) => kinds[event.type] ?? { label: oneLine(event.type, 24) || "Other", group: "other" };

// row makes the row of an event; toggled is called when its details open or close.
export function row(event, toggled) {
  const kind = kindOf(event);
  const el = h("li", { class: `event ${kind.group} ${classOf(event)}`, "data-seq": event.seq, tabindex: "-1" });
  const time = h("time", { datetime: instant(event.ts), title: instant(event.ts), text: clock(event.ts) });
  const content = (makers[event.type] ?? other)(event, toggled);
  el.append(time, h("span", { class: "kind", text: kind.label }), content);
  return el;
}

// classOf lets only our own words into a class name.
const classOf = (event) => (event.type === "error" || event.type === "gap" ? event.type : "");

const makers = {
  text: prose,
  thought: prose,
  tool_use: tool,
  tool_result: (event, toggled) => details(event, oneLine(event.summary) || "Result", () => [output(event)], toggled),
  error: (event, toggled) => event.content && event.content !== event.summary
    ? details(event, oneLine(event.summary), () => [output(event)], toggled)
    : h("div", { class: "content", dir: "auto", text: oneLine(event.summary, 1000) }),
  state: (event) => h("div", { class: "content" }, stateLine(event)),
  gap: (event) => h("div", { class: "content", text: `${plural(event.to - event.from + 1, "event")} (${event.from}–${event.to}) cannot be shown: the control plane no longer has them.` }),
};

function prose(event) {
  return h("div", { class: "content prose" }, longText(event.content || event.summary, "div", event));
}

function other(event, toggled) {
  return event.content ? details(event, oneLine(event.summary) || oneLine(event.type), () => [output(event)], toggled)
    : h("div", { class: "content", dir: "auto", text: oneLine(event.summary) || oneLine(event.type) });
}

function details(event, summary, make, toggled) {
  const body = h("div", { class: "detail" });
  const el = h("details", { class: "content" },
    h("summary", {}, h("span", { class: "summary", dir: "auto", text: summary }), h("span", { class: "badge", hidden: true })), body);
  el.addEventListener("toggle", () => {
    if (el.open && !body.firstChild) body.append(...make());
    toggled?.(el);
  });
  return el;
}

// tool makes a call that its result can be put into.
function tool(event, toggled) {
  const name = oneLine(event.tool, 60);
  let summary = oneLine(event.summary);
  if (name && summary.startsWith(`${name}:`)) summary = summary.slice(name.length + 1).trim();
  else if (summary === name) summary = "";
  const el = details(event, summary, () => [
    argumentsOf(event),
    event.result ? h("h5", { text: "Result" }) : null,
    event.result ? output(event.result) : null,
  ].filter(Boolean), toggled);
  if (name) el.querySelector("summary").prepend(h("b", { class: "tool", text: name }), " ");
  settle(el, event);
  return el;
}

// settle shows in a call's row how the call ended.
export function settle(el, event) {
  const badge = el.querySelector(".badge");
  const status = event.result?.status || event.status || (event.result ? "completed" : event.lost ? "lost" : "open");
  const names = { completed: "✓ done", failed: "✗ failed", open: "… running", lost: "no result" };
  badge.hidden = false;
  badge.className = `badge ${names[status] ? status : "completed"}`;
  badge.textContent = names[status] ?? oneLine(status, 20);
  const body = el.querySelector(".detail");
  if (el.open && event.result && body.firstChild && !body.querySelector("h5")) body.append(h("h5", { text: "Result" }), output(event.result));
}

function stateLine(event) {
  const name = stateNames[event.state] ?? oneLine(event.state || event.summary, 40);
  return [
    h("b", { class: "state", text: name }),
    event.reason ? h("span", { dir: "auto", text: ` — ${oneLine(event.reason, 500)}` }) : null,
    event.until > 0 ? h("span", { class: "countdown", "data-until": event.until }) : null,
  ].filter(Boolean);
}

// argumentsOf shows a call's arguments as a list of names and values, edits as differences.
function argumentsOf(event) {
  const args = parseArguments(event.content);
  if (!args) return output(event);
  const shown = h("dl", { class: "arguments" });
  const edit = editOf(args);
  for (const [key, value] of Object.entries(args).slice(0, 100)) {
    if (edit?.keys.includes(key)) continue;
    shown.append(h("dt", { text: oneLine(key, 80) }), h("dd", {}, argument(value)));
  }
  return h("div", {}, h("h5", { text: "Arguments" }), shown, edit ? edit.view() : null, event.truncated ? cutNote(event) : null);
}

function parseArguments(content) {
  try {
    let value = JSON.parse(content);
    value = value?.toolCall?.value ?? value?.value ?? value;
    if (value && typeof value.arguments === "object" && value.arguments) value = value.arguments;
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null; // cut, or no JSON
  }
}

const edits = [["old_str", "new_str"], ["oldString", "newString"], ["old_string", "new_string"], ["oldText", "newText"], ["before", "after"]];

function editOf(args) {
  const pair = edits.find(([a, b]) => typeof args[a] === "string" && typeof args[b] === "string");
  if (pair) return { keys: pair, view: () => compared(args[pair[0]], args[pair[1]]) };
  const key = ["diff", "patch"].find((k) => typeof args[k] === "string" && looksLikeDiff(args[k]));
  return key && { keys: [key], view: () => unified(args[key]) };
}

function argument(value) {
  if (typeof value === "string") return value.includes("\n") || value.length > 120 ? longText(value, "pre") : h("code", { dir: "auto", text: clean(value) });
  return h("code", { text: clean(JSON.stringify(value, null, 1).slice(0, firstPiece)) });
}

// output shows a text as it is; a difference as such.
export function output(event) {
  const text = event.content || event.summary || "";
  const view = looksLikeDiff(text) && text.length < 200_000 ? unified(text) : longText(text, "pre", event);
  return h("div", { class: "output" }, view, event.truncated && view.className === "diff" ? cutNote(event) : null);
}

function cutNote(event) {
  return h("p", { class: "cut", text: `Cut when it was recorded: ${bytes(event.bytes)} in the whole.` });
}

// longText shows the beginning of a text, and more of it when asked.
export function longText(text, tag, event) {
  const whole = String(text ?? "");
  const el = h(tag, { dir: "auto", tabindex: tag === "pre" ? "0" : null, role: tag === "pre" ? "group" : null, "aria-label": tag === "pre" ? "Text" : null, text: clean(whole.slice(0, firstPiece)) });
  if (whole.length <= firstPiece) return event?.truncated ? h("div", {}, el, cutNote(event)) : el;
  let shown = firstPiece;
  const label = () => `Show more (${bytes(whole.length - shown)} left)`;
  const more = button(label(), () => {
    el.append(clean(whole.slice(shown, shown + nextPiece)));
    shown += nextPiece;
    if (shown < whole.length) more.textContent = label();
    else more.remove();
  }, { class: "more" });
  return h("div", {}, el, more, event?.truncated ? cutNote(event) : null);
}

// endLine says how an iteration ended.
export function endLine(event) {
  const parts = [oneLine(event.summary)];
  if (event.usage?.total > 0) parts.push(`${short(event.usage.total)} tokens`);
  if (event.usage?.cost > 0) parts.push(cost(event.usage.cost));
  return h("p", { class: "end" },
    h("span", { class: `outcome ${outcomeNames[event.status] ? event.status : ""}`, text: outcomeNames[event.status] ?? "Ended" }),
    h("span", { dir: "auto", text: parts.filter(Boolean).join(" · ") }));
}

// countdown keeps the waits on the page counting.
export function countdown(root, now = Date.now()) {
  for (const el of root.querySelectorAll(".countdown")) {
    const left = Number(el.dataset.until) - now;
    el.textContent = left > 0 ? ` — again in ${duration(left)}` : "";
  }
}
