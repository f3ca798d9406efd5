// Small charts, drawn with SVG: a line over time, and bars per iteration. Each says in words what it shows, and
// has its numbers as a table for those who cannot see it.
import { h, svg } from "./dom.js";

const width = 320;
const height = 84;

// lineChart draws [[ms, value], …]. options: title, unit (a function from value to text), color (a class), top (least upper end).
export function lineChart(points, { title, unit, color, top = 0, clockOf }) {
  const values = points.map(([, v]) => v);
  const max = Math.max(top, ...values, 1e-9) * 1.1;
  const from = points[0]?.[0] ?? 0;
  const span = Math.max(1, (points.at(-1)?.[0] ?? 0) - from);
  const x = (t) => ((t - from) / span) * width;
  const y = (v) => height - (v / max) * (height - 6) - 1;
  const path = points.map(([t, v], i) => `${i ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  const single = points.length === 1;
  const shapes = points.length === 0 ? [] : [
    svg("path", { class: "area", d: `${path}L${single ? width : x(points.at(-1)[0]).toFixed(1)} ${height}L0 ${height}Z` }),
    svg("path", { class: "line", d: single ? `M0 ${y(values[0])}H${width}` : path }),
  ];
  return figure({
    title, color, shapes, now: values.length ? unit(values.at(-1)) : "–",
    label: values.length ? `${title}: now ${unit(values.at(-1))}, at most ${unit(Math.max(...values))}` : `${title}: nothing measured yet`,
    rows: points.map(([t, v]) => [clockOf(t), unit(v)]),
    axis: points.length ? [clockOf(from), `max ${unit(Math.max(...values))}`, clockOf(points.at(-1)[0])] : [],
    at: (share) => {
      const t = from + share * span;
      const near = points.reduce((best, p) => (Math.abs(p[0] - t) < Math.abs(best[0] - t) ? p : best), points[0]);
      return near && { x: x(near[0]), text: `${clockOf(near[0])}  ${unit(near[1])}` };
    },
  });
}

// barChart draws [[name, [a, b, …]], …] as bars of stacked parts. parts names them.
export function barChart(bars, { title, unit, color, parts, now }) {
  const sums = bars.map(([, v]) => v.reduce((a, b) => a + b, 0));
  const max = Math.max(...sums, 1e-9) * 1.1;
  const step = width / Math.max(bars.length, 12);
  const shapes = bars.flatMap(([, v], i) => {
    let base = height;
    return v.map((part, k) => {
      const tall = (part / max) * (height - 6);
      base -= tall;
      return svg("rect", { class: `bar part${k}`, x: (i * step + step * 0.12).toFixed(1), y: base.toFixed(1), width: (step * 0.76).toFixed(1), height: tall.toFixed(1) });
    });
  });
  const text = ([name, v]) => `#${name}  ${v.map((part, k) => `${parts[k] ? `${parts[k]} ` : ""}${unit(part)}`).join(", ")}`;
  return figure({
    title, color, shapes, now,
    label: `${title}: ${now} in all, ${bars.length} iterations shown`,
    rows: bars.map(([name, v]) => [`#${name}`, v.map(unit).join(" + ")]),
    axis: bars.length ? [`#${bars[0][0]}`, `max ${unit(Math.max(...sums))}`, `#${bars.at(-1)[0]}`] : [],
    at: (share) => {
      const i = Math.floor((share * width) / step);
      return bars[i] && { x: (i + 0.5) * step, text: text(bars[i]) };
    },
  });
}

function figure({ title, color, shapes, now, label, rows, axis, at }) {
  const mark = svg("line", { class: "mark", y1: 0, y2: height, visibility: "hidden" });
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...shapes, mark);
  const value = h("output", { text: now });
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const found = at(Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)));
    if (!found) return;
    value.textContent = found.text;
    for (const end of ["x1", "x2"]) mark.setAttribute(end, found.x);
    mark.setAttribute("visibility", "visible");
  });
  drawing.addEventListener("pointerleave", () => {
    value.textContent = now;
    mark.setAttribute("visibility", "hidden");
  });
  return h("figure", { class: `chart ${color}` },
    h("figcaption", {}, h("span", { text: title }), value),
    drawing,
    h("div", { class: "axis", "aria-hidden": "true" }, axis.map((text) => h("span", { text }))),
    rows.length ? table(title, rows) : null);
}

// table is made when it is opened: most readers never do.
function table(title, rows) {
  const details = h("details", { class: "numbers" }, h("summary", { text: "Numbers", "aria-label": `${title} in numbers` }));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    details.append(h("table", {}, h("tbody", {}, rows.slice(-60).map(([a, b]) => h("tr", {}, h("th", { scope: "row", text: a }), h("td", { text: b }))))));
  });
  return details;
}
