// All queues of a connection, each with its numbers, a sparkline of its depth and a link.

import { api } from "./api.js";
import { count, duration, h, icon, number, perSecond, short } from "./dom.js";
import { sparkline } from "./chart.js";
import { rateOf, remember, samplesOf } from "./recent.js";
import { ordering } from "./ordering.js";
import { pager } from "./pager.js";
import { empty, isolated } from "./parts.js";
import { words } from "./words.js";

const TILES = [
  ["ready", "Ready"],
  ["leased", "Leased"],
  ["delayed", "Delayed"],
  ["dead", "Dead letters"],
];
const TOTAL = ""; // no queue has an empty name, so this key can hold the sums over all queues

export function overview({ connection, hrefOf, refresh, onServer }) {
  let search = "";
  let offset = 0;
  const rows = new Map();
  const tiles = h("section.tiles", { "aria-label": "All queues" });
  const body = h("tbody");
  const sorting = ordering(() => {
    offset = 0;
    refresh();
  });
  const table = h("div.card.scroll", {}, h("table.queues", {}, head(sorting), body));
  const nothing = h("div", { hidden: true });
  const pages = pager((next) => {
    offset = next;
    refresh();
  });
  const input = h("input.search", { type: "search", placeholder: "Find a queue", "aria-label": "Find a queue" });
  let typed = 0;
  input.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => {
      search = input.value.trim();
      offset = 0;
      refresh();
    }, 200);
  });
  const heading = h("h1", {}, "Queues");
  const box = h("label.search-box", {}, icon("search"), input, h("kbd", {}, "/"));
  const top = h("div.heading", {}, heading, h("div.finding", {}, sorting.choice, box));
  const note = h("div");
  const element = h("div", {}, top, tiles, note, sorting.note, table, nothing, pages.element);

  function show(found) {
    onServer(found.server);
    for (const queue of found.queues) if (!queue.error) remember(connection, queue.name, queue);
    if (!search && found.counted === found.total) remember(connection, TOTAL, found.sums);
    tiles.replaceChildren(...TILES.map((tile) => total(tile, found)));
    note.replaceChildren(...isolated(found.sums));
    sorting.tell(found);
    const focused = document.activeElement;
    const wanted = found.queues.map((queue) => row(queue));
    for (const name of [...rows.keys()]) if (!found.queues.some((queue) => queue.name === name)) rows.delete(name);
    if (wanted.some((each, at) => body.children[at] !== each) || body.children.length !== wanted.length) {
      body.replaceChildren(...wanted);
    }
    if (body.contains(focused)) focused.focus({ preventScroll: true }); // rows are created again, and move
    pages.show(offset, found.queues.length, found.total, found.page);
    table.hidden = sorting.note.hidden = found.total === 0;
    tiles.hidden = found.registered === 0;
    nothing.hidden = found.total > 0;
    nothing.replaceChildren(found.registered === 0 ? firstQueue() : noMatch(search));
    top.classList.toggle("bare", found.registered === 0);
  }

  function total([line, label], { sums, holding, counted, total: all }) {
    return h(`div.tile.card.${line}`, {},
      h("span.tile-label", {}, label),
      h("span.tile-number", { title: number(sums[line]) }, short(sums[line])),
      h("span.tile-note", {}, `in ${number(holding[line])} of ${count(counted, "queue")}`),
      search || counted < all ? null : sparkline(samplesOf(connection, TOTAL), line, 92, 30));
  }

  function row(queue) {
    if (!rows.has(queue.name)) {
      const link = h("a.name", { href: hrefOf(queue.name) }, queue.name);
      const element = h("tr", { tabindex: 0, onclick: () => link.click() });
      link.addEventListener("click", (event) => event.stopPropagation());
      rows.set(queue.name, { element, link });
    }
    const { element, link } = rows.get(queue.name);
    element.classList.toggle("alarm", queue.attention);
    element.replaceChildren(...(queue.error ? broken(queue, link) : cells(connection, queue, link)));
    return element;
  }

  return {
    element,
    refresh: async () => show(await api.queues(connection, search, offset, sorting.order())),
    focus: () => input.focus(),
    keys: { "/": () => input.select(), "[": pages.back, "]": pages.forth },
  };
}

function head({ header }) {
  const names = [header("Ready"), h("th.spark-head", { scope: "col" }, "Ready, recently"), h("th.right", { scope: "col" }, "Change")];
  const more = ["Oldest", "Leased", "Delayed", "Dead"].map((label) => header(label));
  return h("thead", {}, h("tr", {}, header("Queue", "name"), names, more, h("th", { "aria-label": "Open" })));
}

function cells(connection, queue, link) {
  const rate = rateOf(connection, queue.name);
  const direction = rate === null || Math.abs(rate) < 0.05 ? "still" : rate > 0 ? "grows" : "shrinks";
  const cell = (label, content, kind = "", title = null) => h(`td.right${kind}`, { "data-label": label, title }, content);
  return [
    h("td.title", {}, link, kinds(queue), reasonsOf(queue)),
    cell("Ready", zero(queue.ready), ".strong", number(queue.ready)),
    h("td.spark-cell", {}, sparkline(samplesOf(connection, queue.name))),
    cell("Change", perSecond(rate), `.rate.${direction}`),
    cell("Oldest", queue.oldest_age === null ? dash() : duration(queue.oldest_age)),
    cell("Leased", zero(queue.leased), "", count(queue.leases, "lease")),
    cell("Delayed", zero(queue.delayed)),
    cell("Dead", queue.dead ? h("span.badge.dead", {}, short(queue.dead)) : dash()),
    h("td.open", {}, icon("chevron")),
  ];
}

const broken = (queue, link) => [
  h("td.title", {}, link, kinds(queue)),
  h("td.broken", { colspan: 8 }, icon("alert"), queue.error),
];

const dash = () => h("span.faint", {}, "–");
const zero = (value) => (value ? short(value) : dash());

const kinds = ({ discipline }) => (discipline === "leased" ? null : h("span.badge", {}, discipline));

/**
 * Why a queue needs attention, in words, the most urgent reason first; `told`: the kinds that the page says otherwise;
 * `hrefOf`: the address of a message that may be killing its workers.
 */
export function reasonsOf({ signs, suspects = [] }, told = [], hrefOf) {
  const shown = (signs ?? []).filter(({ kind, text }) => text && !told.includes(kind));
  const suspect = ({ id, expired, owner }) => [" · ", h("a", { href: hrefOf(id) }, h("code", {}, id)), ` expired ${expired} times${owner ? ` at ${owner}, which may hang instead` : ""}`];
  return shown.length ? h("ul.signs", {}, shown.map(({ kind, text }) => h(`li.${kind}`, {}, text, kind === "crashing" ? suspects.flatMap(suspect) : null))) : null;
}

export function badges(queue) {
  return [
    queue.paused ? h("span.badge.paused", { title: "A claim returns no messages until the queue is resumed" }, "paused") : null,
    queue.late ? h("span.badge.dead", { title: "A lease has expired, and its messages are not reclaimed yet" }, "expired lease") : null,
    queue.isolated ? h("span.badge.isolated", { title: "Ready messages that failed together before and are tried apart" }, `${short(queue.isolated)} isolated`) : null,
    queue.discipline === "leased" ? null : h("span.badge", {}, queue.discipline),
  ];
}

function firstQueue() {
  const [text, example] = words.publish;
  return empty("queue", "No queue yet", text, h("pre.code", {}, example));
}

const noMatch = (search) => empty("search", "No queue of that name", `No queue has “${search}” in its name.`);
