// Buttons that change something. What the discipline of a queue cannot do stays visible, and says why not.

import { api } from "./api.js";
import { count, h, icon, number } from "./dom.js";
import { toast } from "./parts.js";
import { askVerb } from "./questions.js";

/**
 * The buttons of the verbs that need `needs` and that `state` allows; the API sends the records of the verbs.
 * `fields`: what the API gets besides the queue; `it`, `holder`: what a question says of that; `whose`: what a screen
 * reader says; `filled`: what fields of the question hold at first; `then` runs after a change.
 */
export function verbButtons({ connection, queue, verbs, lacks }, needs, { state, fields, it, holder, whose, filled, then }) {
  const able = verbs.filter((each) => each.needs === needs && (!each.states.length || each.states.includes(state)));
  return able.map((each) => verbButton({ ...each, lacks, verb: each.name, name: whose ? `${each.label} ${whose}` : null, run: async () => {
    const takes = each.takes.filter(({ name }) => !(name in (fields ?? {})));
    const given = await askVerb({ ...each, takes }, queue, it, holder, filled);
    if (given) await act(async () => did(each, { queue, ...fields, ...given }, await api.change(connection, each.word, queue, { ...fields, ...given })), then);
  } }));
}

/** What a verb did, from what it was given and the answer of the API. */
function did({ done }, given, answer) {
  const died = answer.dead ? `, of which ${number(answer.dead)} became dead letters` : "";
  const text = done[0].toUpperCase() + done.slice(1);
  const words = { ...given, ...answer, messages: count(Number(Object.values(answer)[0]), "message") };
  return text.replace(/\{(\w+)\}/g, (_, name) => words[name]) + died;
}

/** The button that moves all messages of a queue into another one. */
export function moveButton({ connection, queue, lacks }, then) {
  return verbButton({ lacks, verb: "move", label: "Move…", picture: "task", run: async () => {
    const given = await askVerb(MOVE, queue, queue);
    if (given) await act(async () => moved(given.target, await api.change(connection, "move", queue, given)), then);
  } });
}

const MOVE = {
  label: "Move…", picture: "task", asks: "Move the messages of {it}?", warns: false,
  explains: "All messages of {queue} that no consumer holds go into another queue, with their ids, histories and delays; a new name makes a queue with the same settings. Deduplication keys stay. Publishers go on here: stop them first.",
  takes: [{ name: "target", help: "The name of the other queue.", kind: "str", required: true }],
};

function moved(target, { moved: many, missing, held }) {
  const lost = missing ? `; ${number(missing)} left this queue meanwhile, so both may have them` : "";
  return `Moved ${count(many, "message")} to ${target}${held ? `; ${count(held, "message")} held by consumers ${held === 1 ? "stays" : "stay"}` : ""}${lost}`;
}

/** A button for a verb. `lacks`: why the queue cannot do each verb that it cannot do. */
export function verbButton({ lacks, verb, label, picture, kind = "plain", name = null, run }) {
  const why = lacks[verb];
  return h(`button.${kind}${why ? ".cannot" : ""}`, {
    type: "button", "aria-label": name, "aria-disabled": why ? "true" : null, title: why ? `Not possible: ${why}` : null,
    onclick: (event) => {
      event.stopPropagation();
      if (why) toast(`Not possible: ${why}`, "failed");
      else run();
    },
  }, icon(picture), label);
}

/** Make a change, and tell what it did or why it failed; `then` runs after both. */
export async function act(change, then) {
  try {
    toast(await change());
  } catch (error) {
    toast(error.message, "failed");
  }
  await then?.();
}

/** Ask for a change of the messages in a state, or of those that match, with their number; make it after a yes. */
export async function asked(where, target, match, ask, make) {
  try {
    const many = await numberOf(where, target, match);
    if (many === 0) toast("There is no such message any more");
    if (many && (await ask(many))) await make();
  } catch (error) {
    toast(error.message, "failed");
  }
}

/** What the discipline of a queue cannot do, as a list that can be unfolded; nothing if it can do everything. */
export function cannotDo({ discipline, lacks }) {
  const reasons = new Set(Object.values(lacks));
  if (!reasons.size) return null;
  return h("details.cannot-do", {}, h("summary", {}, `What “${discipline}” queues cannot do (${reasons.size})`),
    h("ul", {}, [...reasons].map((reason) => h("li", {}, reason))));
}

const SHOW_MS = 600;

/** Repeat a change until it is complete, and return what it did; `step()` resolves to { changed, complete, scanned }. */
export async function change(step, words) {
  const { done, part, stopped } = await repeat(async () => {
    const { changed, complete, scanned } = await step();
    return { done: changed, over: complete || !changed, complete, scanned };
  }, words);
  if (part.complete) return words(done);
  if (stopped) return `Stopped: ${words(done)}`;
  return `${words(done)}; none of the first ${part.scanned} messages matches, use the command line for the rest`;
}

/** Count all messages in a state of a queue, or those that match; null if the user stops it. */
async function numberOf({ connection, queue }, target, match) {
  if (!match) return (await api.queue(connection, queue, 0, 1))[target];
  let next = { target };
  const { done, stopped } = await repeat(async () => {
    const part = await api.count(connection, queue, { ...next, where: match });
    next = part.next;
    return { done: part.count, over: !next };
  }, (found) => `${number(found)} found`);
  return stopped ? null : done;
}

/**
 * Repeat a step until it reports that it is over, showing how far it is and a button to stop.
 * `step()` resolves to { done, over }; `words(done)` says what was done so far.
 */
async function repeat(step, words) {
  let done = 0;
  let stopped = false;
  const text = h("span");
  const stop = h("button.plain", { type: "button", onclick: () => (stopped = stop.disabled = true) }, "Stop");
  const box = h("div.toast.working", { role: "status", hidden: true }, text, stop);
  text.textContent = "Working…";
  document.getElementById("toasts").append(box);
  const show = setTimeout(() => (box.hidden = false), SHOW_MS);
  try {
    for (;;) {
      const part = await step();
      done += part.done;
      if (part.over || stopped) return { done, part, stopped: !part.over };
      text.textContent = `${words(done)} so far`;
    }
  } finally {
    clearTimeout(show);
    box.remove();
  }
}
