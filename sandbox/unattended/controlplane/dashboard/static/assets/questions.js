// The questions that wait for the person, each answered once.
import { $, button, h, toast, uid } from "./dom.js";
import { clean, oneLine } from "./text.js";

export class Questions {
  constructor({ api }) {
    this.api = api;
    this.cards = new Map(); // by id, so that what is being typed stays
  }

  async load() {
    const { questions = [] } = await this.api.get("/api/questions");
    const known = this.cards;
    this.cards = new Map(questions.map((q) => [q.id, known.get(q.id) ?? this.card(q)]));
    const el = $("questions");
    el.hidden = questions.length === 0;
    // A card that stays is not moved, so that the field that is typed in keeps the focus.
    const wanted = [...this.cards.values()];
    for (const card of [...el.children]) if (!wanted.includes(card)) card.remove();
    wanted.forEach((card, i) => { if (el.children[i] !== card) el.insertBefore(card, el.children[i] ?? null); });
  }

  card(q) {
    const title = uid("question");
    const form = h("form", { class: "question", "aria-labelledby": title, "data-question": q.id },
      h("p", { id: title }, h("b", { dir: "auto", text: oneLine(q.title, 300) })),
      h("p", { class: "muted", dir: "auto", text: [oneLine(q.agentType, 40), oneLine(q.project, 80), q.runId ? "an unattended run" : "your editor is asked, too"].filter(Boolean).join(" · ") }));
    if (q.text) form.append(h("pre", { class: "output", dir: "auto", text: clean(q.text).slice(0, 20000) }));
    if (q.kind === "form") this.fields(form, q);
    else form.append(h("div", { class: "row" }, q.options.map((o) => button(oneLine(o.name, 100), () => this.answer(q, { optionId: o.optionId }), { class: String(o.kind).startsWith("reject") ? "danger" : null }))));
    return form;
  }

  // fields asks for the values of a form: texts, numbers, choices and switches.
  fields(form, q) {
    const { properties = {}, required = [] } = q.schema ?? {};
    const inputs = Object.entries(properties).map(([name, schema]) => {
      const id = uid("value");
      const needed = required.includes(name);
      const choices = schema.enum ?? schema.oneOf?.map((o) => o.const);
      let input;
      if (choices) input = h("select", { id, required: needed }, (needed ? choices : ["", ...choices]).map((value) => h("option", { value, text: oneLine(value, 100) })));
      else if (schema.type === "boolean") input = h("input", { id, type: "checkbox" });
      else if (schema.type === "number" || schema.type === "integer") input = h("input", { id, type: "number", step: schema.type === "integer" ? "1" : "any", required: needed });
      else input = h("input", { id, type: "text", dir: "auto", autocomplete: "off", required: needed });
      if (schema.default !== undefined) {
        if (schema.type === "boolean") input.checked = Boolean(schema.default);
        else input.value = String(schema.default);
      }
      form.append(h("div", { class: "field" }, h("label", { for: id, text: oneLine(schema.title ?? name, 100) }), input,
        schema.description ? h("span", { class: "muted", dir: "auto", text: oneLine(schema.description, 300) }) : null));
      return { name, schema, input };
    });
    form.append(h("div", { class: "row" }, h("button", { type: "submit", class: "primary", text: "Answer" }), button("Decline", () => this.answer(q, { action: "decline" }), { class: "danger" })));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const content = {};
      for (const { name, schema, input } of inputs) {
        if (schema.type === "boolean") content[name] = input.checked;
        else if (input.value !== "") content[name] = schema.type === "number" || schema.type === "integer" ? Number(input.value) : input.value;
      }
      this.answer(q, { action: "accept", content });
    });
  }

  async answer(q, body) {
    try {
      await this.api.post(`/api/questions/${encodeURIComponent(q.id)}/answer`, body);
      toast("Your answer was given.");
    } catch (error) {
      toast(error.message, "error");
    }
    this.load().catch(() => {});
  }
}
