// What the page asks before each change. To delete, the user types the queue's name; else one click is enough.

import { ask } from "./dialogs.js";
import { count, h, icon } from "./dom.js";

const WHAT = { ready: "ready message", delayed: "delayed message", dead: "dead letter" };
const doing = (picture, text) => h("span", {}, icon(picture), text);
const strong = (text) => h("strong", {}, text);
const AGAIN = "with a fresh delivery budget, and keeps its history.";

/**
 * Ask before a verb; `it` is what it changes, `holder` who holds that, `filled` what its fields hold at first. Resolve to what was filled in of what the verb
 * takes, by name; to nothing without a yes.
 */
export async function askVerb({ label, picture, asks, explains, warns, takes }, queue, it, holder, filled = {}) {
  const named = { queue, holder };
  const does = h("p", {}, explains.split(/\{(\w+)\}/).map((part, at) => (at % 2 ? strong(named[part]) : part)));
  const fields = takes.map((each) => field(each, filled[each.name]));
  const yes = await ask({
    title: asks.replace("{it}", it),
    body: h("div.edit", {}, does, fields.map((each) => each.element)),
    action: doing(picture, label.replace("…", "")),
    kind: warns ? "danger" : "primary",
    problem: takes.length ? () => fields.map((each) => each.problem()).find(Boolean) : undefined,
  });
  return yes ? Object.fromEntries(fields.filter(({ input }) => input.value).map(({ name, value }) => [name, value()])) : null;
}

/** The field of what a verb takes: a text, texts separated by commas, or a number. */
function field({ name, help, kind, required, least }, value = "") {
  const text = name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");
  const number = kind === "str" || kind === "list" ? {} : { type: "number", min: least, step: kind === "int" ? 1 : "any" };
  const input = h("input", { type: "text", value, autocomplete: "off", spellcheck: "false", required, "aria-describedby": `about-${name}`, ...number });
  const problem = () => (input.validity.valueMissing ? `Fill in “${text}”` : input.validationMessage && `${text}: ${input.validationMessage}`);
  const element = h("div", {}, h("label", {}, h("span", {}, required ? text : `${text} (optional)`), input), h("p.hint", { id: `about-${name}` }, help));
  return { name, input, problem, element, value: () => (kind === "list" ? input.value.split(",").map((each) => each.trim()) : kind === "str" ? input.value : input.valueAsNumber) };
}

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

/** Resolve to the text of a mark, or to nothing. */
export async function askMark() {
  const input = h("input", { type: "text", required: true, maxlength: 200, "aria-label": "What happened", placeholder: "deployed 1.4" });
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
