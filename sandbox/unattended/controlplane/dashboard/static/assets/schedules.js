// The schedules: when runs are to begin, and what came of the last time.
import { button, confirmDialog, h, problem, replace } from "./dom.js";
import { day, oneLine } from "./text.js";

// scheduleList is an element that fills itself; it stays hidden where there is no schedule.
export function scheduleList(api) {
  const list = h("ul", { class: "history" });
  const el = h("section", { class: "schedules", hidden: true }, h("h3", { text: "Scheduled" }), list);
  const load = async () => {
    const { schedules = [] } = await api.get("/api/schedules");
    el.hidden = schedules.length === 0;
    replace(list, schedules.map((schedule) => entry(schedule, async () => {
      if (!await confirmDialog("Remove this schedule?", "No more runs begin by it. Those that it has started go on.", "Remove")) return;
      api.delete(`/api/schedules/${encodeURIComponent(schedule.id)}`).then(load).catch(problem("The schedule could not be removed"));
    })));
  };
  load().catch(problem("The schedules could not be loaded"));
  return el;
}

function entry({ start, when, nextAt, lastAt, said, id }, remove) {
  return h("li", { class: "row", "data-schedule": id }, h("div", { class: "grow" },
    h("b", { text: oneLine(start.agentType, 30) }), " ", h("span", { dir: "auto", text: oneLine(when, 100) }), " ",
    h("span", { class: "muted", text: [nextAt ? `next ${day(nextAt)}` : "no further time", lastAt ? `last ${day(lastAt)}` : ""].filter(Boolean).join(" · ") }),
    said ? h("p", { class: "reason", dir: "auto", text: oneLine(said, 400) }) : null),
  button("Remove", remove, { class: "danger" }));
}
