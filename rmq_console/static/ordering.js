// The order of the queues. The server sorts them, because it also knows the queues on other pages.

import { count, duration, h, number } from "./dom.js";

const ORDERS = {
  attention: "Attention first",
  name: "Name",
  ready: "Ready",
  oldest: "Oldest",
  leased: "Leased",
  delayed: "Delayed",
  dead: "Dead",
};
const OLD_S = 5;
const WHO = "those that cannot be read, have dead letters, failing consumers, an expired or a long lease, an old message, a growing backlog or no consumer, or are paused";
let chosen = { by: "attention", turn: "down" }; // kept until the page is reloaded

/** The control, the headers that sort, and a line that states which queues come first and how old the numbers are. */
export function ordering(onChange) {
  const heads = new Map();
  const options = Object.entries(ORDERS).map(([by, label]) => h("option", { value: by }, label));
  const select = h("select", { onchange: () => choose(select.value) }, options);
  const choice = h("label.sort-by", {}, h("span", {}, "Sort by"), select);
  const note = h("p.order-note");

  function choose(by) {
    chosen = { by, turn: by === "name" ? "up" : "down" };
    mark();
    onChange();
  }

  function turn(by) {
    if (chosen.by !== by) return choose(by);
    chosen.turn = chosen.turn === "down" ? "up" : "down";
    mark();
    return onChange();
  }

  function header(label, by = label.toLowerCase()) {
    const button = h("button.sort", { type: "button", onclick: () => turn(by) }, label);
    const element = h(by === "name" ? "th" : "th.right", { scope: "col" }, button);
    heads.set(by, element);
    mark();
    return element;
  }

  function mark() {
    select.value = chosen.by;
    for (const [by, element] of heads) {
      element.setAttribute("aria-sort", chosen.by !== by ? "none" : chosen.turn === "down" ? "descending" : "ascending");
    }
  }

  const tell = (found) => note.replaceChildren([first(found), honest(found)].filter(Boolean).join(" "));
  return { choice, header, note, tell, order: () => chosen };
}

function first({ attention: many }) {
  if (chosen.by !== "attention") return many ? `${count(many, "queue")} ${many === 1 ? "needs" : "need"} attention.` : "";
  const rest = "The queue whose oldest message has waited longest comes first.";
  if (!many) return `No queue needs attention. ${rest}`;
  return `${count(many, "queue")} ${many === 1 ? "needs attention and comes" : "need attention and come"} first: ${WHO}. The others follow, the longest wait first.`;
}

function honest({ counted, total, age }) {
  if (counted < total) return `${number(counted)} of ${number(total)} queues are counted so far; totals and order cover only these.`;
  return age > OLD_S ? `Totals and order use numbers up to ${duration(age)} old; the rows themselves are current.` : "";
}
