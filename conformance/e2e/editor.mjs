// An editor on a string: the official ACP SDK as a client, driven by a test.
//
//   node editor.mjs '{"command":["bin/gander","acp"],"env":{},"cwd":"/","uid":1000,"gid":1000}'
//   ("unstable":true: the SDK's part that knows child sessions)
//
// It spawns the agent, records and checks every frame in both directions, and
// does what JSON lines on its stdin say:
//
//   {"op":"request","n":1,"method":"session/new","params":{}}  answered by {"ev":"reply","n":1,"result"|"error"}
//   {"op":"notify","method":"session/cancel","params":{}}
//   {"op":"abort","n":1}                                       what a caller's AbortSignal does to request 1
//   {"op":"answer","n":7,"result":{}}                          answers {"ev":"asked","n":7,"method","params"}
//   {"op":"raw","line":"<base64>"}                             a line for the agent, past the SDK
//   {"op":"closeStdin"} {"op":"kill","signal":"SIGKILL"} {"op":"stopReading"} {"op":"resumeReading"}
//
// Its stdout is JSON lines: frame (dir, ms, line, problems), notified (as the SDK
// delivered it), asked, reply, stderr, exit. What the SDK itself complains about
// goes to stderr, where the test looks at it.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { check } from "./schema.mjs";

const options = JSON.parse(process.argv[2]);
const { client, methods, ndJsonStream } = await import(options.unstable ? "@agentclientprotocol/sdk/unstable" : "@agentclientprotocol/sdk");
const [program, ...args] = options.command;
const started = performance.now();
const say = (event) => process.stdout.write(JSON.stringify({ ms: performance.now() - started, ...event }) + "\n");

const agent = spawn(program, args, {
  cwd: options.cwd,
  env: options.env,
  uid: options.uid,
  gid: options.gid,
  stdio: ["pipe", "pipe", "pipe"],
});
agent.on("error", (err) => say({ ev: "exit", error: String(err) }));
agent.on("close", (code, signal) => say({ ev: "exit", code, signal }));
agent.on("spawn", () => say({ ev: "spawned", pid: agent.pid }));
agent.stdin.on("error", () => {}); // an agent that is gone shows as exit
createInterface({ input: agent.stderr }).on("line", (line) => say({ ev: "stderr", line }));

// Every line in both directions is recorded as it is on the pipe.
const asked = new Map(); // id of a request of ours → method
function lines(onLine) {
  let rest = "";
  const decoder = new TextDecoder();
  return (chunk) => {
    rest += decoder.decode(chunk, { stream: true });
    const parts = rest.split("\n");
    rest = parts.pop();
    parts.forEach(onLine);
  };
}
function parse(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
const sent = lines((line) => {
  const frame = parse(line);
  if (frame?.method !== undefined && frame.id !== undefined) asked.set(JSON.stringify(frame.id), frame.method);
  say({ ev: "frame", dir: "out", line });
});
const received = lines((line) => {
  const frame = parse(line);
  const problems = frame === undefined ? ["not JSON"] : check(frame, (id) => asked.get(JSON.stringify(id)));
  say({ ev: "frame", dir: "in", line, problems });
});
function write(bytes) {
  sent(bytes);
  return new Promise((resolve) => agent.stdin.write(bytes, () => resolve()));
}
const toAgent = new WritableStream({ write });
let reading = Promise.resolve(); // pending while the editor does not read
let resume = () => {};
const fromAgent = Readable.toWeb(agent.stdout).pipeThrough(
  new TransformStream({
    async transform(chunk, controller) {
      await reading;
      received(chunk);
      controller.enqueue(chunk);
    },
  }),
);

// The SDK is a real client: it decodes and validates in its own way. What it
// drops does not become a "notified" event.
const waiting = new Map();
let askedCount = 0;
function ask(method) {
  return ({ params, signal }) =>
    new Promise((resolve, reject) => {
      const n = ++askedCount;
      waiting.set(n, { resolve, reject });
      say({ ev: "asked", n, method, params });
      signal?.addEventListener("abort", () => say({ ev: "withdrawn", n }));
    });
}
const app = client({ name: "gander-e2e" })
  .onNotification(methods.client.session.update, ({ params }) => say({ ev: "notified", params }))
  .onRequest(methods.client.session.requestPermission, ask(methods.client.session.requestPermission));
for (const method of options.serves ?? []) app.onRequest(method, ask(method));
const connection = app.connect(ndJsonStream(toAgent, fromAgent));

const aborts = new Map();
const ops = {
  async request({ n, method, params }) {
    const abort = new AbortController();
    aborts.set(n, abort);
    try {
      say({ ev: "reply", n, result: await connection.agent.request(method, params, { cancellationSignal: abort.signal }) });
    } catch (err) {
      say({ ev: "reply", n, error: { code: err.code, message: err.message ?? String(err), data: err.data } });
    }
  },
  notify: ({ method, params }) => connection.agent.notify(method, params),
  abort: ({ n }) => aborts.get(n)?.abort(),
  answer({ n, result }) {
    waiting.get(n)?.resolve(result);
    waiting.delete(n);
  },
  raw: ({ line }) => write(Buffer.concat([Buffer.from(line, "base64"), Buffer.from("\n")])),
  closeStdin: () => agent.stdin.end(),
  kill: ({ signal }) => agent.kill(signal),
  stopReading: () => (reading = new Promise((resolve) => (resume = resolve))),
  resumeReading: () => resume(),
};
createInterface({ input: process.stdin })
  .on("line", (line) => {
    const op = JSON.parse(line);
    Promise.resolve(ops[op.op](op)).catch((err) => console.error(`editor: ${op.op}: ${err}`));
  })
  .on("close", () => agent.kill("SIGKILL"));
