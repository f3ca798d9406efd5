// Checks what an agent says against the JSON schema that the official SDK ships.
//
// The schema names the method of every request, notification and result
// (x-method) and who answers it (x-side), so there is no table to maintain here.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import Ajv from "ajv/dist/2020.js";

const require = createRequire(import.meta.url);
const sdk = require.resolve("@agentclientprotocol/sdk").replace(/\/dist\/.*$/, "");
const schema = JSON.parse(readFileSync(`${sdk}/schema/v1/schema.json`, "utf8"));
// What only the unstable schema knows, session/fork say, is checked against that.
const unstable = JSON.parse(readFileSync(`${sdk}/schema/v1/schema.unstable.json`, "utf8"));

const ajv = new Ajv({ strict: false, allErrors: true, logger: false });
for (const [name, min, max] of [
  ["uint16", 0, 2 ** 16 - 1],
  ["uint32", 0, 2 ** 32 - 1],
  ["uint64", 0, 2 ** 64],
  ["int32", -(2 ** 31), 2 ** 31 - 1],
  ["int64", -(2 ** 63), 2 ** 63],
]) {
  ajv.addFormat(name, { type: "number", validate: (n) => Number.isInteger(n) && n >= min && n <= max });
}
ajv.addFormat("double", { type: "number", validate: Number.isFinite });
ajv.addFormat("uri", (s) => URL.canParse(s));
ajv.addFormat("date-time", (s) => /^\d{4}-\d\d-\d\dT/.test(s) && !Number.isNaN(Date.parse(s)));
ajv.addSchema(schema, "acp");
ajv.addSchema(unstable, "unstable");

// Definitions by what they are for: what the agent asks of the client, what it
// tells it, and the results it answers with.
const requests = new Map();
const notifications = new Map();
const results = new Map();
for (const [name, def] of Object.entries(schema.$defs)) {
  const method = def["x-method"];
  if (!method) continue;
  const side = def["x-side"];
  if (name.endsWith("Request") && side === "client") requests.set(method, name);
  if (name.endsWith("Notification") && side !== "agent") notifications.set(method, name);
  if (name.endsWith("Response") && side === "agent") results.set(method, name);
}
const updateKinds = schema.$defs.SessionUpdate.oneOf.map((u) => u.properties.sessionUpdate.const);

const draftKinds = unstable.$defs.SessionUpdate.oneOf.map((u) => u.properties.sessionUpdate.const);

const drafts = new Map();
for (const [name, def] of Object.entries(unstable.$defs)) {
  if (def["x-method"] && name.endsWith("Response") && def["x-side"] === "agent" && !schema.$defs[name]) drafts.set(def["x-method"], name);
}

// problems validates a value against a definition, or against a part of one.
function problems(type, value, schemaName = "acp") {
  const validate = ajv.getSchema(`${schemaName}#/$defs/${type}`);
  if (!validate) return [`the schema has no ${type}`];
  if (validate(value)) return [];
  return validate.errors
    .slice(0, 4)
    .map((e) => `${type}${e.instancePath}: ${e.message} ${JSON.stringify(e.params)}`);
}

// A union that fails complains about every branch; the branch the update claims
// to be gives the one complaint that helps.
function updateProblems(params) {
  const kind = params?.update?.sessionUpdate;
  const branch = updateKinds.indexOf(kind);
  const draft = draftKinds.indexOf(kind);
  if (branch < 0 && draft >= 0) return problems(`SessionUpdate/oneOf/${draft}`, params.update, "unstable").map((p) => `${kind}: ${p}`);
  if (typeof kind === "string" && branch < 0) return [];
  const found = branch < 0 ? [] : problems(`SessionUpdate/oneOf/${branch}`, params.update);
  return found.length > 0 ? found.map((p) => `${kind}: ${p}`) : problems("SessionNotification", params);
}

// check returns what is wrong with a frame of the agent. methodOf names the
// method of one of the client's requests by its id.
export function check(frame, methodOf) {
  if (frame === null || typeof frame !== "object" || Array.isArray(frame)) return ["not a JSON-RPC message"];
  if (frame.jsonrpc !== "2.0") return [`jsonrpc is ${JSON.stringify(frame.jsonrpc)}`];
  if (typeof frame.method === "string") return checkCall(frame);
  return checkAnswer(frame, methodOf);
}

function checkCall(frame) {
  if (frame.method.startsWith("_")) return [];
  const types = "id" in frame ? requests : notifications;
  const type = types.get(frame.method);
  if (!type) return [`${"id" in frame ? "request" : "notification"} ${frame.method} is not in the schema`];
  return frame.method === "session/update" ? updateProblems(frame.params) : problems(type, frame.params);
}

function checkAnswer(frame, methodOf) {
  if (!("id" in frame)) return ["a response without an id"];
  if ("error" in frame === "result" in frame) return ["a response has either a result or an error"];
  if ("error" in frame) return problems("Error", frame.error);
  const method = methodOf(frame.id);
  if (method === undefined) return [`a result for ${JSON.stringify(frame.id)}, which was not asked`];
  const type = results.get(method);
  if (type) return problems(type, frame.result);
  const draft = drafts.get(method);
  return draft ? problems(draft, frame.result, "unstable") : [];
}
