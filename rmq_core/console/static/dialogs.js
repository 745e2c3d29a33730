// Confirmation dialogs. To delete, the user types the queue's name; to redrive or release, one click is enough.

import { count, h, icon, number } from "./dom.js";

let open = null;

/** Resolve to true when the user presses the button; if `typed` is given, the user must enter it first. */
function ask({ title, body, action, kind, typed }) {
  open?.close();
  return new Promise((resolve) => {
    const input = typed ? h("input", { type: "text", autocomplete: "off", spellcheck: "false", id: "typed" }) : null;
    const go = h(`button.${kind}`, { type: "button", disabled: Boolean(typed) }, action);
    const stop = h("button.plain", { type: "button" }, "Cancel");
    const box = h("dialog", { "aria-labelledby": "question" },
      h("h2", { id: "question" }, title),
      body,
      typed ? h("label.typed", { for: "typed" }, "Type ", h("code", {}, typed), " to confirm", input) : null,
      h("div.buttons", {}, stop, go));
    const answer = (yes) => {
      box.close();
      resolve(yes);
    };
    input?.addEventListener("input", () => (go.disabled = input.value !== typed));
    input?.addEventListener("keydown", (event) => event.key === "Enter" && !go.disabled && answer(true));
    go.addEventListener("click", () => answer(true));
    stop.addEventListener("click", () => answer(false));
    box.addEventListener("close", () => {
      box.remove();
      open = null;
      resolve(false);
    });
    document.body.append(box);
    open = box;
    box.showModal();
    (input ?? go).focus();
  });
}

export const askRedrive = (queue, many) =>
  ask({
    title: many === 1 ? "Redrive this dead letter?" : `Redrive ${count(many, "dead letter")}?`,
    body: h("p", {}, "A redriven message becomes ready again in ", h("strong", {}, queue),
      " with a fresh delivery budget, and keeps its history."),
    action: h("span", {}, icon("redrive"), "Redrive"),
    kind: "primary",
  });

export function askRelease(queue, { count: all, settled, owner, holder }) {
  const many = all - settled;
  const who = holder ? `${[holder.names.join(" › "), holder.attempt].filter(Boolean).join(", ")},` : owner || "The holder";
  return ask({
    title: many === 1 ? "Release this message?" : `Release ${number(many)} messages?`,
    body: h("p", {}, many === 1 ? "It becomes ready again in " : "They become ready again in ", h("strong", {}, queue),
      " at once, and no delivery is counted. ", h("strong", {}, who), " can no longer settle them: if it is still running, ",
      "another worker does the same work again."),
    action: h("span", {}, icon("release"), "Release"),
    kind: "primary",
  });
}

const WHAT = { ready: "ready message", delayed: "delayed message", dead: "dead letter" };

export const askPurge = (queue, target, many) =>
  ask({
    title: `Delete ${count(many, WHAT[target])}?`,
    body: h("p", {}, `This deletes all of the queue's ${WHAT[target]}s, including those that arrive before you confirm. `,
      h("strong", {}, "This cannot be undone.")),
    action: h("span", {}, icon("trash"), "Delete"),
    kind: "danger",
    typed: queue,
  });

const KEYS = [
  ["/", "find a queue"],
  ["↑ ↓", "move through the rows"],
  ["Enter", "open a queue or a message"],
  ["1 … 4", "leases, ready, delayed, dead letters"],
  ["[ ]", "previous and next page"],
  ["x", "choose the dead letter"],
  ["r", "refresh"],
  ["p", "pause or resume the live numbers"],
  ["Esc", "back to all queues"],
];

export function showKeys() {
  open?.close();
  const close = h("button.plain", { type: "button", onclick: () => open.close() }, "Close");
  const list = KEYS.map(([key, text]) => [h("dt", {}, key.split(" ").map((each) => h("kbd", {}, each))), h("dd", {}, text)]);
  open = h("dialog.keys", { "aria-label": "Keys" }, h("h2", {}, "Keys"), h("dl", {}, list), h("div.buttons", {}, close));
  open.addEventListener("close", (event) => {
    event.target.remove();
    open = null;
  });
  document.body.append(open);
  open.showModal();
}

export const asking = () => open !== null;
