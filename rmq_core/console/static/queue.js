// One queue: its numbers, a live chart, its leases and its messages.

import { api } from "./api.js";
import { chart, legend } from "./chart.js";
import { count, duration, h, icon, number, perSecond, short } from "./dom.js";
import { rateOf, remember, samplesOf } from "./history.js";
import { leaseTable } from "./leases.js";
import { messageList } from "./messages.js";
import { badges } from "./overview.js";
import { pager } from "./pager.js";
import { empty, isolated } from "./parts.js";
import { words } from "./words.js";

const LEASES = 25;
const LEASES_LISTED = 1000;
const TABS = [
  ["leases", "Leases"],
  ["ready", "Ready"],
  ["delayed", "Delayed"],
  ["dead", "Dead letters"],
];

export function queueView({ connection, name, tab, mayRead, mayEdit, hrefOf, refresh }) {
  const tiles = h("section.tiles.five", { "aria-label": "Numbers" });
  const drawn = chart();
  const rate = h("span.rate");
  const tabs = new Map(TABS.map(([id, label]) => [id, tabLink(id, label, hrefOf(name, id), id === tab)]));
  const panel = h("section.panel");
  const note = h("div");
  const title = h("h1", {}, name);
  const element = h("div", {},
    h("div.heading", {}, title),
    tiles,
    note,
    h("section.card.chart-card", {}, h("div.chart-head", {}, h("h2", {}, "Messages"), legend(), rate), drawn.element),
    h("nav.tabs", { "aria-label": "Parts of the queue" }, [...tabs.values()].map(({ element: link }) => link)),
    panel);
  let offset = 0;
  let shown = null;
  let loading = null;
  let table = null;
  const none = empty("check", "No leases", "Leases appear here while tasks work on messages of this queue.");
  const pages = pager((next) => {
    offset = next;
    refresh();
  });

  async function show(queue) {
    remember(connection, name, queue);
    title.replaceChildren(name, ...badges(queue).filter(Boolean));
    tiles.replaceChildren(...tilesOf(connection, queue));
    note.replaceChildren(...isolated(queue));
    drawn.draw(samplesOf(connection, name));
    rate.textContent = forecast(rateOf(connection, name), queue);
    for (const [id, { number: cell }] of tabs) cell.textContent = short(queue[id]);
    if (tab === "leases") showLeases(queue);
    else if (shown) shown.count?.(queue[tab]);
    else await (loading ??= showMessages(queue).finally(() => (loading = null))); // a second load at the same time would replace the list
  }

  function showLeases(queue) {
    if (!queue.able.leases) return panel.replaceChildren(unlisted(`The discipline “${queue.discipline}” keeps no list of leases.`));
    table ??= leaseTable({ connection, queue: name, mayEdit: mayEdit && queue.able.release, onChange: refresh });
    if (!shown) panel.replaceChildren(h("div.actions", {}, pages.element), table.element, none);
    shown = table;
    table.show(queue.listed);
    table.element.hidden = !queue.listed.length;
    none.hidden = queue.listed.length > 0 || queue.leases > 0;
    pages.show(offset, queue.listed.length, Math.min(queue.leases, LEASES_LISTED), LEASES);
  }

  async function showMessages(queue) {
    if (!mayRead) {
      panel.replaceChildren(empty("lock", "You may not see messages", `You may see the numbers of this queue: ${words.no_messages}.`));
      shown = {};
      return;
    }
    if (!queue.able.list.includes(tab)) {
      panel.replaceChildren(unlisted(`The discipline “${queue.discipline}” can count these messages, but not list them.`));
      shown = {};
      return;
    }
    const list = messageList({ connection, queue: name, target: tab, mayEdit, able: queue.able, onChange: refresh });
    await list.load();
    shown = list;
    panel.replaceChildren(list.element);
  }

  return {
    element,
    refresh: async () => show(await api.queue(connection, name, tab === "leases" ? offset : 0, LEASES)),
    reload: async () => shown?.load?.(),
    tick: () => shown?.tick?.(),
    get keys() {
      const jumps = TABS.map(([id], at) => [String(at + 1), () => (location.hash = hrefOf(name, id))]);
      return { ...Object.fromEntries(jumps), "[": pages.back, "]": pages.forth, ...shown?.keys };
    },
  };
}

const unlisted = (text) => empty("queue", "There is no list of these", text);

function tabLink(id, label, href, current) {
  const cell = h("span.tab-number", {}, "");
  const element = h(`a.tab.${id}`, { href, "aria-current": current ? "page" : null }, label, cell);
  return { element, number: cell };
}

function tilesOf(connection, queue) {
  const oldest = queue.oldest_age === null ? "–" : duration(queue.oldest_age);
  const made = [
    ["ready", "Ready", short(queue.ready), trend(rateOf(connection, queue.name))],
    ["oldest", "Oldest ready", oldest, queue.ready ? "since it was published" : "nothing waits"],
    ["leased", "Leased", short(queue.leased), count(queue.leases, "lease")],
    ["delayed", "Delayed", short(queue.delayed), "until they are due"],
    ["dead", "Dead letters", short(queue.dead), queue.dead ? "failed too often" : "none failed for good"],
  ];
  return made.map(([kind, label, value, note]) =>
    h(`div.tile.card.${kind}${kind === "dead" && queue.dead ? ".alarm" : ""}`, {},
      h("span.tile-label", {}, label), h("span.tile-number", { title: title(queue[kind]) }, value), h("span.tile-note", {}, note)));
}

const title = (value) => (typeof value === "number" ? number(value) : null);

const trend = (rate) => (rate === null ? "measuring…" : Math.abs(rate) < 0.05 ? "steady" : `${perSecond(rate)} lately`);

function forecast(rate, queue) {
  const left = queue.ready + queue.leased + queue.delayed;
  if (rate === null) return "";
  if (rate < -0.05 && left) return `${perSecond(rate)}, empty in about ${duration(left / -rate)}`;
  return rate > 0.05 ? `${perSecond(rate)}, growing` : "steady";
}
