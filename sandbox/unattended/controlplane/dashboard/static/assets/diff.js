// Differences: recognised in what agents write, made of an old and a new text, and drawn.
import { h } from "./dom.js";
import { clean } from "./text.js";

const mostCells = 400_000; // of the table of a comparison; beyond it the old is shown before the new
const mostLines = 600;

// looksLikeDiff says whether a text is a unified difference.
export function looksLikeDiff(text) {
  return /^(diff --git |@@ -\d|--- [^\n]*\n\+\+\+ )/m.test(text.slice(0, 4000));
}

// unified draws a unified difference.
export function unified(text) {
  const lines = clean(text).split("\n");
  let inside = false; // of a hunk, where a leading sign is one
  return draw(lines.map((line) => {
    if (line.startsWith("@@")) {
      inside = true;
      return ["@", line];
    }
    if (/^(diff --git|index |Index: |={10})/.test(line)) inside = false;
    if (!inside) return ["@", line];
    return "+-".includes(line[0] || " ") ? [line[0], line.slice(1)] : [" ", line.slice(1)];
  }));
}

// compared draws what changed between two texts.
export function compared(before, after) {
  const a = clean(before).split("\n");
  const b = clean(after).split("\n");
  return draw(lines(a, b));
}

// lines pairs equal lines by the longest common subsequence, after equal ends were taken off.
export function lines(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const middle = compareMiddle(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...a.slice(0, start).map((line) => [" ", line]), ...middle, ...a.slice(a.length - end).map((line) => [" ", line])];
}

function compareMiddle(a, b) {
  const removed = () => a.map((line) => ["-", line]);
  const added = () => b.map((line) => ["+", line]);
  if (a.length * b.length > mostCells) return [...removed(), ...added()];
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      out.push([" ", a[i++]]);
      j++;
    } else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) out.push(["-", a[i++]]);
    else out.push(["+", b[j++]]);
  }
  return [...out, ...a.slice(i).map((line) => ["-", line]), ...b.slice(j).map((line) => ["+", line])];
}

const kinds = { "+": "added", "-": "removed", "@": "hunk", " ": "same" };

function draw(rows) {
  const added = rows.filter(([sign]) => sign === "+").length;
  const removed = rows.filter(([sign]) => sign === "-").length;
  const shown = rows.slice(0, mostLines);
  return h("div", { class: "diff", role: "group", tabindex: "0", "aria-label": `Difference: ${added} lines added, ${removed} removed` },
    shown.map(([sign, line]) => h("div", { class: kinds[sign] }, h("span", { class: "sign", text: sign === "@" ? "" : sign }), h("code", { text: line || " " }))),
    rows.length > shown.length ? h("div", { class: "hunk", text: `… ${rows.length - shown.length} more lines` }) : null);
}
