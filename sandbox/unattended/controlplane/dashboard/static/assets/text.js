// Texts: what agents wrote made visible as it is, and numbers and times for people.

const ansi = /\u001b\[[0-9;:?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g;
// Control characters other than tab and newline, and those that turn the direction of
// writing around or hide: a text must not look like another one.
const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// clean makes control characters visible and drops the colours of terminals.
export function clean(text) {
  return String(text ?? "").replace(ansi, "").replace(/\r\n?/g, "\n").replace(control, (c) => {
    return `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

// oneLine is clean for a line among others, cut to at most n characters.
export function oneLine(text, n = 300) {
  const line = clean(String(text ?? "").slice(0, 4 * n)).replace(/\s+/g, " ").trim();
  return line.length > n ? `${line.slice(0, n - 1)}…` : line;
}

const clockFormat = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayFormat = new Intl.DateTimeFormat([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// when reads a time of the API: milliseconds, ISO, or the old "YYYY-MM-DD HH:MM:SS", which is UTC. NaN: none.
export function when(value) {
  if (typeof value === "number") return value;
  if (!value) return NaN;
  const text = String(value);
  return Date.parse(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/.test(text) ? `${text.replace(" ", "T")}Z` : text);
}

export function clock(value) {
  const t = when(value);
  return Number.isNaN(t) ? "" : clockFormat.format(t);
}

export function day(value) {
  const t = when(value);
  return Number.isNaN(t) ? "" : dayFormat.format(t);
}

// time makes an element with the time of day, and the whole instant for those who ask.
export function instant(value) {
  const t = when(value);
  return Number.isNaN(t) ? "" : new Date(t).toISOString();
}

export function duration(ms) {
  if (!(ms >= 0)) return "";
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return s % 60 ? `${m} min ${s % 60} s` : `${m} min`;
  const hours = Math.floor(m / 60);
  return hours < 48 ? `${hours} h ${m % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function bytes(n) {
  if (!(n >= 0)) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export const count = (n) => new Intl.NumberFormat([]).format(n ?? 0);

// short is count for narrow places: 12.3k.
export function short(n) {
  if (!(n >= 1000)) return String(Math.round((n ?? 0) * 10) / 10);
  return n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

export function cost(n) {
  return n > 0 ? `$${n < 1 ? n.toFixed(4) : n.toFixed(2)}` : "$0";
}

export const plural = (n, word, many = `${word}s`) => `${count(n)} ${n === 1 ? word : many}`;

// What the states of a run and the outcomes of an iteration are called.
export const stateNames = {
  running: "Running", waiting: "Waiting", paused: "Paused", llm_unavailable: "Model unavailable", stopping: "Stopping",
  stopped: "Stopped", done: "Done", failed: "Failed", starting: "Starting",
};

export const outcomeNames = {
  ok: "OK", agent_error: "Agent error", llm_unavailable: "Model unavailable", timeout: "Timed out", cancelled: "Cancelled",
  interrupted: "Interrupted", running: "Running",
};

export const ended = (run) => ["stopped", "done", "failed"].includes(run?.state);
