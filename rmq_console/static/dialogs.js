// Dialogs that ask: with a button, with a name to type first, or with fields to fill in. One is open at a time.

import { h, plain } from "./dom.js";

let open = null;

/**
 * Resolve to true when the user presses the button. `typed`: what the user must enter first. `problem()`: what is wrong
 * with the fields of the body, or nothing; called at every input.
 */
export function ask({ title, body, action, kind = "primary", typed, problem }) {
  open?.close();
  return new Promise((resolve) => {
    const input = typed ? h("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", id: "typed" }) : null;
    const go = h(`button.${kind}`, { type: "button", disabled: Boolean(typed) }, action);
    const stop = h("button.plain", { type: "button" }, "Cancel");
    const wrong = h("p.problem", { role: "alert", hidden: true });
    const box = h(`dialog${problem ? ".wide" : ""}`, { "aria-labelledby": "question" },
      h("h2", { id: "question" }, title),
      body,
      typed ? h("label.typed", { for: "typed" }, "Type ", h("code", {}, typed), " to confirm", input) : null,
      wrong,
      h("div.buttons", {}, stop, go));
    const answer = (yes) => {
      box.close();
      resolve(yes);
    };
    const check = () => {
      const found = problem?.() ?? "";
      wrong.hidden = !found;
      wrong.textContent = plain(found);
      go.disabled = Boolean(found) || Boolean(typed && input.value !== typed);
    };
    box.addEventListener("input", check);
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.target.matches("input") || go.disabled) return;
      event.preventDefault(); // else the same key presses the button that gets the focus when the dialog closes
      answer(true);
    });
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
    check();
    (box.querySelector("textarea, input") ?? go).focus(); // typing must not press the button; Enter in a field does
  });
}

const KEYS = [
  ["/", "find a queue"],
  ["↑ ↓", "move through the rows"],
  ["Enter", "open a queue, a lease or a message"],
  ["1 … 7", "leases, ready, delayed, dead letters, search, history, groups"],
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
