// All queues of a connection: numbers, a line of their depth, and the way in.

import { api } from "./api.js";
import { count, duration, h, icon, number, perSecond, short } from "./dom.js";
import { sparkline } from "./chart.js";
import { rateOf, remember, samplesOf } from "./history.js";
import { pager } from "./pager.js";
import { empty, isolated } from "./parts.js";

const TILES = [
  ["ready", "Ready"],
  ["leased", "Leased"],
  ["delayed", "Delayed"],
  ["dead", "Dead letters"],
];
const TOTAL = ""; // no queue has an empty name: under it, the sums of all of them are remembered

export function overview({ connection, hrefOf, refresh, onServer }) {
  let search = "";
  let offset = 0;
  const rows = new Map();
  const tiles = h("section.tiles", { "aria-label": "All queues" });
  const body = h("tbody");
  const table = h("div.card.scroll", {}, h("table", {}, head(), body));
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
  const top = h("div.heading", {}, heading, h("label.search-box", {}, icon("search"), input, h("kbd", {}, "/")));
  const note = h("div");
  const element = h("div", {}, top, tiles, note, table, nothing, pages.element);

  function show(found) {
    onServer(found.server);
    for (const queue of found.queues) if (!queue.error) remember(connection, queue.name, queue);
    const counted = found.queues.filter((queue) => !queue.error);
    const sums = Object.fromEntries(TILES.map(([line]) => [line, counted.reduce((sum, queue) => sum + queue[line], 0)]));
    if (!search && !offset) remember(connection, TOTAL, sums);
    tiles.replaceChildren(...TILES.map((tile) => total(tile, sums, found)));
    note.replaceChildren(...isolated({ isolated: counted.reduce((sum, queue) => sum + queue.isolated, 0), ready: sums.ready }));
    const wanted = found.queues.map((queue) => row(queue));
    for (const name of [...rows.keys()]) if (!found.queues.some((queue) => queue.name === name)) rows.delete(name);
    if (wanted.some((each, at) => body.children[at] !== each) || body.children.length !== wanted.length) {
      body.replaceChildren(...wanted);
    }
    pages.show(offset, found.queues.length, found.total, found.page);
    table.hidden = tiles.hidden = found.registered === 0;
    nothing.hidden = found.total > 0;
    nothing.replaceChildren(found.registered === 0 ? firstQueue() : noMatch(search));
    top.classList.toggle("bare", found.registered === 0);
  }

  function total([line, label], sums, found) {
    const holding = found.queues.filter((queue) => queue[line]).length;
    const part = `in ${number(holding)} of ${count(found.queues.length, "queue")}`;
    const place = found.queues.length < found.total ? " on this page" : "";
    return h(`div.tile.card.${line}`, {},
      h("span.tile-label", {}, label),
      h("span.tile-number", { title: number(sums[line]) }, short(sums[line])),
      h("span.tile-note", {}, part + place),
      search || offset ? null : sparkline(samplesOf(connection, TOTAL), line, 92, 30));
  }

  function row(queue) {
    if (!rows.has(queue.name)) {
      const link = h("a.name", { href: hrefOf(queue.name) }, queue.name);
      const element = h("tr", { tabindex: 0, onclick: () => link.click() });
      link.addEventListener("click", (event) => event.stopPropagation());
      rows.set(queue.name, { element, link });
    }
    const { element, link } = rows.get(queue.name);
    element.replaceChildren(...(queue.error ? broken(queue, link) : cells(connection, queue, link)));
    return element;
  }

  return {
    element,
    refresh: async () => show(await api.queues(connection, search, offset)),
    focus: () => input.focus(),
    keys: { "/": () => input.select() },
  };
}

function head() {
  const right = ["Ready", "Change", "Oldest", "Leased", "Delayed", "Dead"];
  const names = right.map((label) => h("th.right", { scope: "col" }, label));
  names.splice(1, 0, h("th.spark-head", { scope: "col" }, "Ready, lately"));
  return h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Queue"), names, h("th", { "aria-label": "Open" })));
}

function cells(connection, queue, link) {
  const rate = rateOf(connection, queue.name);
  const direction = rate === null || Math.abs(rate) < 0.05 ? "still" : rate > 0 ? "grows" : "shrinks";
  return [
    h("td", {}, link, badges(queue)),
    h("td.right.strong", { title: number(queue.ready) }, zero(queue.ready)),
    h("td.spark-cell", {}, sparkline(samplesOf(connection, queue.name))),
    h(`td.right.rate.${direction}`, {}, perSecond(rate)),
    h("td.right", {}, queue.oldest_age === null ? dash() : duration(queue.oldest_age)),
    h("td.right", { title: count(queue.leases, "lease") }, zero(queue.leased)),
    h("td.right", {}, zero(queue.delayed)),
    h("td.right", {}, queue.dead ? h("span.badge.dead", {}, short(queue.dead)) : dash()),
    h("td.open", {}, icon("chevron")),
  ];
}

const broken = (queue, link) => [
  h("td", {}, link, badges(queue)),
  h("td.broken", { colspan: 8 }, icon("alert"), queue.error),
];

const dash = () => h("span.faint", {}, "–");
const zero = (value) => (value ? short(value) : dash());

export function badges(queue) {
  return [
    queue.paused ? h("span.badge.paused", { title: "Claims get nothing until the queue is resumed" }, "paused") : null,
    queue.isolated ? h("span.badge.isolated", { title: "Ready messages that failed together before and are tried apart" }, `${short(queue.isolated)} isolated`) : null,
    queue.discipline === "leased" ? null : h("span.badge", {}, queue.discipline),
  ];
}

function firstQueue() {
  return empty("queue", "No queue yet", "A queue appears here with its first message. Publish one from a task:",
    h("pre.code", {}, 'RedisQueuePublishOperator(task_id="publish", redis_queue="work", messages=["hello"])'));
}

const noMatch = (search) => empty("search", "No queue of that name", `No queue's name holds “${search}”.`);
