// The window on one run's events: a bounded, contiguous part of a log that may have millions. Events are
// numbered 1, 2, 3… in their run, so a missing or a doubled one shows; what is missing is
// asked for, what is doubled ignored, and what left the window can be loaded again.

export class RunLog {
  // fetchPage(after, limit) answers {events, lastSeq}; sink is told of changes: changed(), reset(), prepended(events),
  // failed(error), and asked following().
  constructor(fetchPage, sink, size = 500) {
    Object.assign(this, { fetchPage, sink, size });
    this.events = [];
    this.last = 0; // the highest seq in the window
    this.newest = 0; // the highest seq that is known to exist
    this.attached = true; // the window ends where the log ends
    this.atStart = false;
    this.busy = false;
    this.generation = 0;
    this.pending = new Map(); // live events that came while a page was on its way
  }

  get first() {
    return this.events[0]?.from ?? this.events[0]?.seq ?? this.last + 1;
  }

  get unseen() {
    return Math.max(0, this.newest - this.last);
  }

  // tail opens the window at the end of the log.
  tail(newest = this.newest) {
    this.newest = Math.max(this.newest, newest);
    return this.open(Math.max(0, this.newest - Math.floor(this.size * 0.6)), true);
  }

  // at opens the window at an event somewhere in the log.
  at(seq) {
    return this.open(Math.max(0, seq - 1), false);
  }

  async open(after, tail) {
    const generation = ++this.generation;
    this.busy = true;
    this.attached = tail;
    this.pending.clear();
    try {
      const page = await this.page(after, this.size);
      if (generation !== this.generation) return;
      this.events = marked(page, after);
      this.last = page.at(-1)?.seq ?? after;
      this.atStart = after === 0;
      this.attached = tail || this.last >= this.newest;
      this.sink.reset();
    } catch (error) {
      if (generation === this.generation) this.sink.failed(error);
    } finally {
      if (generation === this.generation) this.busy = false;
    }
    return this.catchUp();
  }

  // live takes events as they come, in any order and as often as they like.
  live(events) {
    const before = this.last;
    for (const event of events) {
      this.newest = Math.max(this.newest, event.seq);
      if (!this.attached || event.seq <= this.last) continue;
      if (!this.busy && event.seq === this.last + 1) this.push(event);
      else if (this.pending.size < 4 * this.size) this.pending.set(event.seq, event);
    }
    if (this.last !== before) this.grown();
    return this.catchUp();
  }

  // known says that the log goes at least this far.
  known(seq) {
    this.newest = Math.max(this.newest, seq ?? 0);
    return this.catchUp();
  }

  // catchUp fills the window up to the newest event, from what waits and from the server.
  async catchUp() {
    if (this.busy || !this.attached || this.last >= this.newest) return this.sink.changed();
    const generation = this.generation;
    this.busy = true;
    try {
      while (this.attached && this.last < this.newest) {
        if (this.drain()) continue;
        if (this.sink.following() && this.unseen > 3 * this.size) {
          this.busy = false;
          return this.tail();
        }
        const page = await this.patient(generation);
        if (generation !== this.generation) return;
        this.take(page);
      }
    } catch (error) {
      if (generation === this.generation) this.sink.failed(error);
    } finally {
      if (generation === this.generation) this.busy = false;
    }
    this.sink.changed();
  }

  // patient loads what follows; an event that is announced may be a moment away from being readable.
  async patient(generation) {
    for (let i = 0; ; i++) {
      const page = await this.page(this.last, this.size);
      if (i === 3 || generation !== this.generation || page.some((event) => event.seq > this.last)) return page;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  // drain moves the events that waited and now fit.
  drain() {
    const before = this.last;
    for (let event; (event = this.pending.get(this.last + 1)); ) this.push(event);
    for (const seq of this.pending.keys()) if (seq <= this.last) this.pending.delete(seq);
    if (this.last !== before) this.grown();
    return this.last !== before;
  }

  // take appends a page. What the server no longer has is marked, never passed over in silence.
  take(page) {
    const fresh = page.filter((event) => event.seq > this.last);
    if (fresh.length === 0) {
      this.push(gap(this.last + 1, Math.min(this.newest, ...[...this.pending.keys()].map((seq) => seq - 1))));
    }
    for (const event of marked(fresh, this.last)) this.push(event);
    this.grown();
  }

  push(event) {
    this.events.push(event);
    this.last = event.seq;
  }

  // grown keeps the window bounded: what is read stays, so either the oldest go, or the window stops growing.
  grown() {
    if (this.sink.following()) {
      if (this.events.length > this.size * 1.25) this.cutTop();
    } else if (this.events.length > 2 * this.size) {
      this.attached = false;
      this.pending.clear();
    }
    this.sink.changed();
  }

  cutTop() {
    this.events.splice(0, this.events.length - this.size);
    this.atStart = false;
  }

  // earlier loads a page before the window; when that makes it too long, its end goes.
  async earlier(limit = 200) {
    if (this.busy || this.atStart) return;
    const first = this.first;
    await this.exclusively(async (current) => {
      const after = Math.max(0, first - 1 - limit);
      const page = (await this.page(after, limit)).filter((event) => event.seq < first);
      if (!current()) return;
      this.atStart = after === 0 || page.length === 0;
      this.events.unshift(...marked(page, after, first));
      if (this.events.length > 2 * this.size) {
        this.events.length = 2 * this.size;
        this.last = this.events.at(-1).seq;
        this.attached = false;
      }
      this.sink.prepended(page);
    });
  }

  // later loads a page after the window, whose beginning goes when it is too long.
  async later(limit = 200) {
    if (this.busy || this.attached) return;
    await this.exclusively(async (current) => {
      const page = await this.page(this.last, limit);
      if (!current()) return;
      this.take(page);
      if (this.events.length > 1.5 * this.size) this.cutTop();
      this.attached = this.last >= this.newest;
    });
    await this.catchUp();
  }

  async exclusively(work) {
    const generation = this.generation;
    this.busy = true;
    try {
      await work(() => generation === this.generation);
    } catch (error) {
      if (generation === this.generation) this.sink.failed(error);
    } finally {
      if (generation === this.generation) this.busy = false;
    }
    this.sink.changed();
  }

  async page(after, limit) {
    const { events, lastSeq } = await this.fetchPage(after, Math.min(limit, 500));
    this.newest = Math.max(this.newest, lastSeq ?? 0);
    return (events ?? []).sort((a, b) => a.seq - b.seq);
  }
}

const gap = (from, to) => ({ type: "gap", seq: to, from, to });

// marked puts a gap wherever events are missing: after the number before, between events, and before end where that is given.
function marked(events, before, end) {
  const out = [];
  for (const event of events) {
    if (event.seq > before + 1) out.push(gap(before + 1, event.seq - 1));
    out.push(event);
    before = event.seq;
  }
  if (end > before + 1) out.push(gap(before + 1, end - 1));
  return out;
}
