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

const look = (path, query = {}) => ask(`${path}?${new URLSearchParams(query)}`, {}, LOOK_MS);
const change = (path, wish, root = undefined) =>
  ask(
    path,
    {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-RMQ-Request": "page" },
      body: JSON.stringify(wish),
    },
    CHANGE_MS,
    root,
  );
const of = (connection) => `connections/${encodeURIComponent(connection)}`;

export const api = {
  leave: (path) => change(path, {}, ""),
  connections: () => look("connections"),
  queues: (connection, search, offset, { by, turn }) =>
    look(`${of(connection)}/queues`, { search, offset, sort: by, turn }),
  queue: (connection, name, offset, count) => look(`${of(connection)}/queue`, { name, offset, count }),
  messages: (connection, name, target, offset, count) =>
    look(`${of(connection)}/messages`, { name, target, offset, count }),
  redrive: (connection, queue, message_ids = null) => change(`${of(connection)}/redrive`, { queue, message_ids }),
  release: (connection, queue, lease_id, owner) => change(`${of(connection)}/release`, { queue, lease_id, owner }),
  purge: (connection, queue, target, confirm) => change(`${of(connection)}/purge`, { queue, target, confirm }),
};
