// Making elements. Strings become text nodes, here and everywhere: nothing on this
// page makes markup of a string, because most strings were written by an agent.

// h makes an element. Properties: class, text, on (listeners), everything else an
// attribute; null, undefined and false leave it out, true makes it empty.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

const svgNamespace = "http://www.w3.org/2000/svg";

// svg is h for drawings.
export function svg(tag, props, ...children) {
  return fill(document.createElementNS(svgNamespace, tag), props, children);
}

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") el.textContent = value;
    else if (name === "on") for (const [type, listener] of Object.entries(value)) el.addEventListener(type, listener);
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) el.append(child);
  }
  return el;
}

// button makes a button that does not send forms.
export function button(label, onClick, props) {
  return h("button", { type: "button", on: { click: onClick }, ...props }, label);
}

export const $ = (id) => document.getElementById(id);

// replace puts children in the place of what el had.
export function replace(el, ...children) {
  el.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
}

// setText changes a text only when it differs, so that nothing is laid out or read aloud again.
export function setText(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

let nextID = 0;

// uid is an id for elements that name each other.
export const uid = (prefix) => `${prefix}-${++nextID}`;

// remember and recall keep small choices of the person in this browser.
export function remember(key, value) {
  try {
    localStorage.setItem(`gander.${key}`, value);
  } catch {
    // Private windows may have no storage; the choice then lasts as long as the page.
  }
}

export function recall(key) {
  try {
    return localStorage.getItem(`gander.${key}`);
  } catch {
    return null;
  }
}

// announce says something to screen readers, and only to them.
export function announce(text) {
  const el = $("announcer");
  el.textContent = "";
  setTimeout(() => (el.textContent = text), 50);
}

// toast shows a short message for a while; errors stay until they are closed.
export function toast(text, kind = "info") {
  const el = h("div", { class: `toast ${kind}`, role: kind === "error" ? "alert" : null }, h("p", { dir: "auto", text }));
  const close = () => el.remove();
  el.append(button("Close", close, { class: "quiet" }));
  $("toasts").append(el);
  while ($("toasts").children.length > 4) $("toasts").firstChild.remove();
  if (kind !== "error") setTimeout(close, 6000);
}

// problem shows what went wrong with what the person wanted.
export const problem = (what) => (error) => toast(`${what}: ${error.message}`, "error");

// confirmDialog asks before something that cannot be undone; true means yes.
export function confirmDialog(title, text, yes) {
  return new Promise((resolve) => {
    const dialog = openDialog(title, { onClose: () => resolve(dialog.returnValue === "yes") });
    dialog.body.append(
      h("p", { text }),
      h("div", { class: "row end" },
        button("Keep it", () => dialog.close(), { autofocus: true }),
        button(yes, () => dialog.close("yes"), { class: "danger" })),
    );
    dialog.show();
  });
}

// openDialog makes a modal dialog with a title and a close button. The browser keeps the focus in it, closes it on
// Escape and gives the focus back. The caller fills body, then calls show.
export function openDialog(title, { onClose, wide, fixed } = {}) {
  const id = uid("dialog");
  const dialog = h("dialog", { class: wide ? "wide" : null, "aria-labelledby": id });
  const body = h("div", { class: "body" });
  dialog.append(
    h("header", {}, h("h2", { id, text: title }), fixed ? null : button("×", () => dialog.close(), { class: "quiet close", "aria-label": "Close" })),
    body,
  );
  if (fixed) dialog.addEventListener("cancel", (e) => e.preventDefault());
  // A click on the backdrop is a click on the dialog outside its box.
  else dialog.addEventListener("mousedown", (e) => e.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    onClose?.();
  });
  return Object.assign(dialog, {
    body,
    show() {
      document.body.append(dialog);
      dialog.showModal();
    },
  });
}
