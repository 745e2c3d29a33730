// What the page asks before each change. To delete, the user types the queue's name; else one click is enough.

import { ask } from "./dialogs.js";
import { count, h, icon, number } from "./dom.js";

const WHAT = { ready: "ready message", delayed: "delayed message", dead: "dead letter" };
const doing = (picture, text) => h("span", {}, icon(picture), text);
const strong = (text) => h("strong", {}, text);
const AGAIN = "with a fresh delivery budget, and keeps its history.";

export const askPause = (queue) =>
  ask({
    title: "Pause this queue?",
    body: h("p", {}, "Claims of ", strong(queue), " return no messages until it is resumed. Publishing goes on, and work that is already leased can be finished."),
    action: doing("pause", "Pause"),
  });

export const askResume = (queue) =>
  ask({
    title: "Resume this queue?",
    body: h("p", {}, "Consumers can claim messages of ", strong(queue), " again at once."),
    action: doing("play", "Resume"),
  });

export const askRedrive = (queue, many) =>
  ask({
    title: many === 1 ? "Redrive this dead letter?" : `Redrive ${count(many, "dead letter")}?`,
    body: h("p", {}, "A redriven message becomes ready again in ", strong(queue), ` ${AGAIN}`),
    action: doing("redrive", "Redrive"),
  });

export const askRedriveMatching = (queue, what, many) =>
  ask({
    title: `Redrive ${count(many, "dead letter")}?`,
    body: h("div", {}, h("p", {}, "All dead letters of ", strong(queue), " that match become ready again, also those that fail meanwhile:"), condition(what),
      h("p", {}, `Each message starts ${AGAIN}`)),
    action: doing("redrive", "Redrive"),
  });

const condition = (what) => h("pre.code.condition", {}, what);

export function askRelease(queue, lease) {
  return ask({
    title: left(lease) === 1 ? "Release this message?" : `Release ${number(left(lease))} messages?`,
    body: h("p", {}, left(lease) === 1 ? "It becomes ready again in " : "They become ready again in ", strong(queue),
      " at once, and no delivery is counted. ", strong(holderOf(lease)), " can no longer settle them: if it is still running, ",
      "another worker does the same work again. Right for a holder that was stopped on purpose; if it crashed at work, ",
      strong("Expire"), " the lease, so that a message that crashes its workers ends as a dead letter."),
    action: doing("release", "Release"),
  });
}

export function askExpire(queue, lease) {
  return ask({
    title: left(lease) === 1 ? "Expire the lease of this message?" : `Expire the lease of ${number(left(lease))} messages?`,
    body: h("p", {}, "As if its time were over: a delivery is counted as failed, and the messages become ready again in ", strong(queue),
      ", or dead letters if it was their last delivery. ", strong(holderOf(lease)), " can no longer settle them. Right for a ",
      "holder that crashed at work or hangs; if it was stopped on purpose, ", strong("Release"), " counts no delivery."),
    action: doing("clock", "Expire"),
  });
}

const left = ({ count: all, settled }) => all - settled;
const holderOf = ({ owner, holder }) =>
  holder ? `${[holder.names.join(" › "), holder.attempt].filter(Boolean).join(", ")},` : owner || "The holder";

export const askPurge = (queue, target, many) =>
  ask({
    title: `Delete ${count(many, WHAT[target])}?`,
    body: h("p", {}, `This deletes all of the queue's ${WHAT[target]}s, including those that arrive before you confirm. `,
      strong("This cannot be undone.")),
    action: doing("trash", "Delete"),
    kind: "danger",
    typed: queue,
  });

export const askPurgeMatching = (queue, target, what, many) =>
  ask({
    title: `Delete ${count(many, WHAT[target])}?`,
    body: h("div", {}, h("p", {}, `All ${WHAT[target]}s that match are deleted. `, strong("This cannot be undone.")), condition(what)),
    action: doing("trash", "Delete"),
    kind: "danger",
    typed: queue,
  });

export const askDiscard = (many) =>
  ask({
    title: many === 1 ? "Delete this dead letter?" : `Delete ${count(many, "dead letter")}?`,
    body: h("p", {}, "The others stay. ", strong("This cannot be undone.")),
    action: doing("trash", "Delete"),
    kind: "danger",
  });

export const askRunNow = (queue) =>
  ask({
    title: "Run this message now?",
    body: h("p", {}, "It becomes ready in ", strong(queue), " at once instead of when it is due."),
    action: doing("play", "Run now"),
  });

export const askCancel = (queue) =>
  ask({
    title: "Remove this message?",
    body: h("p", {}, "It is removed from ", strong(queue), " if no consumer has claimed it meanwhile. ", strong("This cannot be undone.")),
    action: doing("trash", "Remove"),
    kind: "danger",
  });

/** Resolve to the text of a mark, or to nothing. */
export async function askMark() {
  const input = h("input", { type: "text", maxlength: 200, "aria-label": "What happened", placeholder: "deployed 1.4" });
  const yes = await ask({
    title: "Mark this moment",
    body: h("div", {}, h("p", {}, "The charts show a line at this time, for example for a deployment."), input),
    action: doing("flag", "Mark"),
    problem: () => (input.value.trim() ? "" : "Say what happened"),
  });
  return yes ? input.value.trim() : null;
}

/** Resolve to what an edit changes in a dead letter: its payload, its headers, or both; to nothing without an edit. */
export async function askEdit(queue, { kind, payload, headers }) {
  const text = kind === "bytes" ? null : h("textarea", { rows: 10, spellcheck: "false", "aria-label": "Payload" });
  if (text) text.value = pretty(kind, payload);
  const lines = h("textarea", { rows: 4, spellcheck: "false", "aria-label": "Headers" });
  lines.value = Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join("\n");
  const before = { payload: text?.value, headers: lines.value };
  const body = h("div.edit", {},
    h("p", {}, "The message becomes ready again in ", strong(queue), " under the same id, with the changes, a fresh delivery budget and its history."),
    h("label", {}, h("span", {}, kind === "json" ? "Payload (JSON)" : kind === "text" ? "Payload (text)" : "Payload"), text ?? h("p.faint", {}, "Bytes cannot be edited here.")),
    h("label", {}, h("span", {}, "Headers, one “name: value” a line"), lines));
  const problem = () => {
    if (before.payload === text?.value && before.headers === lines.value) return "Nothing is changed yet";
    return wrongJson(kind, text?.value) || (readHeaders(lines.value) ? "" : "A header is written as “name: value”");
  };
  if (!(await ask({ title: "Edit and retry this dead letter", body, action: doing("redrive", "Retry"), problem }))) return null;
  return {
    kind: kind === "text" ? "text" : "json",
    payload: before.payload === text?.value ? null : text.value,
    headers: before.headers === lines.value ? null : readHeaders(lines.value),
  };
}

function pretty(kind, payload) {
  if (kind !== "json") return payload;
  const exact = /(?:\d{16}|\d[.eE])/.test(payload); // formatting would round numbers that JavaScript cannot hold
  return exact ? payload : JSON.stringify(JSON.parse(payload), null, 2);
}

function wrongJson(kind, text) {
  if (kind !== "json") return "";
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `This is not JSON: ${error.message}`;
  }
}

function readHeaders(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  const pairs = lines.map((line) => /^([^:]+):\s?(.*)$/.exec(line)).map((found) => found && [found[1].trim(), found[2]]);
  return pairs.every(Boolean) ? Object.fromEntries(pairs) : null;
}
