// Calls of the page's own API. A failed call throws a Refusal, whose text the page can show.

import { words } from "./words.js";

const LOOK_MS = 9_000;
const CHANGE_MS = 40_000;

export class Refusal extends Error {
  constructor(status, text, kind = "") {
    super(text);
    this.status = status;
    this.kind = kind;
  }
}

async function ask(path, options, limit, root = "api/") {
  let response;
  try {
    response = await fetch(root + path, { ...options, signal: AbortSignal.timeout(limit) });
  } catch (error) {
    const late = error.name === "TimeoutError";
    throw new Refusal(0, `${words.server} ${late ? "did not answer in time" : "cannot be reached"}`);
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  if (response.status === 401) throw new Refusal(401, "You are logged out; reload the page to log in again");
  const text = typeof body.detail === "string" ? body.detail : `${words.server} answered ${response.status}`;
  throw new Refusal(response.status, text, body.kind);
}

const given = (query) => new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== null));
const look = (path, query = {}) => ask(`${path}?${given(query)}`, {}, LOOK_MS);
const send = (path, fields, limit, root = undefined) =>
  ask(
    path,
    {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-RMQ-Request": "page" },
      body: JSON.stringify(fields),
    },
    limit,
    root,
  );
const of = (connection) => `connections/${encodeURIComponent(connection)}`;
const change = (connection, word, queue, fields = {}) => send(`${of(connection)}/${word}`, { queue, ...fields }, CHANGE_MS);

export const api = {
  leave: (path) => send(path, {}, CHANGE_MS, ""),
  connections: () => look("connections"),
  queues: (connection, search, offset, { by, turn }) =>
    look(`${of(connection)}/queues`, { search, offset, sort: by, turn }),
  queue: (connection, name, offset, count, lease_id) =>
    look(`${of(connection)}/queue`, { name, offset, count, ...(lease_id ? { lease_id } : {}) }),
  messages: (connection, name, target, offset, count) =>
    look(`${of(connection)}/messages`, { name, target, offset, count }),
  groups: (connection, name, count) => look(`${of(connection)}/groups`, { name, count }),
  reasons: (connection, name) => look(`${of(connection)}/reasons`, { name }),
  lease: (connection, name, lease_id, offset, count) => look(`${of(connection)}/lease`, { name, lease_id, offset, count }),
  history: (connection, name, asked) => look(`${of(connection)}/history`, { name, ...asked }),
  why: (connection, name, message_id) => look(`${of(connection)}/why`, { name, message_id }),
  search: (connection, queue, fields) => send(`${of(connection)}/search`, { queue, ...fields }, LOOK_MS),
  count: (connection, queue, fields) => send(`${of(connection)}/count`, { queue, ...fields }, LOOK_MS),
  exported: (connection, name, target, where = {}) =>
    new URL(`api/${of(connection)}/export?${given({ name, target, ...where })}`, location.href).href,
  change,
};
