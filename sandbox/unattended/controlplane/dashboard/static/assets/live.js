// The live connection: one WebSocket for all runs, opened again when it breaks, from where it broke.

const quietLimit = 35_000; // the server says something every 15 seconds
const farBehind = 5_000; // beyond this many events the log is asked, and not replayed

export class Live {
  // before runs ahead of each attempt; it answers how many events this page lacks, and throws when
  // the server cannot be reached. onMessages gets the messages in order, onState connecting, live or offline.
  constructor({ token, before, onMessages, onState }) {
    Object.assign(this, { token, before, onMessages, onState });
    this.cursor = 0; // the highest global id seen
    this.attempt = 0;
    this.seen = 0;
    this.wake = () => document.visibilityState !== "hidden" && this.retryNow();
    addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.wake);
    this.watch = setInterval(() => this.socket && Date.now() - this.seen > quietLimit && this.socket.close(), 5_000);
    this.connect();
  }

  close() {
    this.closed = true;
    clearInterval(this.watch);
    clearTimeout(this.timer);
    removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.wake);
    this.socket?.close();
  }

  retryNow() {
    if (!this.timer) return;
    clearTimeout(this.timer);
    this.connect();
  }

  async connect() {
    this.timer = null;
    this.onState("connecting");
    let behind;
    try {
      behind = await this.before();
    } catch {
      return this.later();
    }
    if (this.closed) return;
    this.open(behind);
  }

  open(behind) {
    const url = new URL("/ws/live", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("batch", "1");
    if (this.token()) url.searchParams.set("token", this.token());
    if (this.cursor && behind <= farBehind) url.searchParams.set("since", this.cursor);
    const socket = new WebSocket(url);
    this.socket = socket;
    this.seen = Date.now();
    socket.onmessage = (event) => this.receive(event.data);
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.later();
    };
  }

  receive(data) {
    this.seen = Date.now();
    let messages;
    try {
      messages = [].concat(JSON.parse(data));
    } catch {
      return; // not ours; the cursor has not moved, so nothing is lost
    }
    for (const m of messages) {
      if (m.id > this.cursor) this.cursor = m.id;
      // Also said when the numbers begin anew, of another database: then the old cursor would never fit again.
      if (m.type === "gap") this.cursor = Math.max(0, (m.data?.from ?? 1) - 1);
      if (m.type === "connected") {
        this.attempt = 0;
        this.onState("live");
      }
    }
    this.onMessages(messages);
  }

  // later tries again after a while that doubles up to 15 seconds, a little different in each page.
  later() {
    if (this.closed) return;
    const wait = Math.min(15_000, 500 * 2 ** this.attempt++) * (0.75 + Math.random() / 2);
    this.onState("offline", Date.now() + wait);
    this.timer = setTimeout(() => this.connect(), wait);
  }
}
