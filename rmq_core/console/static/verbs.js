// Buttons that change something. What the discipline of a queue cannot do stays visible, and says why not.

import { h, icon } from "./dom.js";
import { toast } from "./parts.js";

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

/** What the discipline of a queue cannot do, as a list that can be unfolded; nothing if it can do everything. */
export function cannotDo({ discipline, lacks, past }) {
  const reasons = new Set(Object.values(lacks));
  if (!past.history) reasons.add(`the discipline '${discipline}' keeps no history`);
  if (!past.why) reasons.add(`the discipline '${discipline}' has no way to explain a message`);
  if (!reasons.size) return null;
  return h("details.cannot-do", {}, h("summary", {}, `What “${discipline}” queues cannot do (${reasons.size})`),
    h("ul", {}, [...reasons].map((reason) => h("li", {}, reason))));
}

const SHOW_MS = 600;

/**
 * Repeat a step until it reports that it is complete, showing how far it is and a button to stop.
 * `step()` resolves to { changed, complete, scanned, total }; `words(changed)` says what was done so far.
 */
export async function repeat(step, words) {
  let changed = 0;
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
      changed += part.changed;
      if (part.complete) return words(changed);
      if (stopped) return `Stopped: ${words(changed)}`;
      if (!part.changed) return `${words(changed)}; none of the first ${part.scanned} messages matches, use the command line for the rest`;
      text.textContent = `${words(changed)} so far`;
    }
  } finally {
    clearTimeout(show);
    box.remove();
  }
}
