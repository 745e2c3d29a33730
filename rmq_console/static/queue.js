// One queue: its numbers, a live chart, its leases and its messages.

import { api } from "./api.js";
import { chart, legend } from "./chart.js";
import { ago, count, duration, h, icon, number, perSecond, short } from "./dom.js";
import { rateOf, remember, samplesOf } from "./recent.js";
import { groupsPanel, inGroups } from "./groups.js";
import { clientTable, leaseTable } from "./leases.js";
import { messageList } from "./messages.js";
import { badges, reasonsOf } from "./overview.js";
import { pager } from "./pager.js";
import { empty, isolated, owner } from "./parts.js";
import { pastPanel } from "./past.js";
import { reasonTable } from "./reasons.js";
import { searchPanel } from "./search.js";
import { away, incomplete, inShards, shardsPanel } from "./shards.js";
import { timelinePanel } from "./timeline.js";
import { cannotDo, moveButton, verbButtons } from "./verbs.js";
import { words } from "./words.js";

const LEASES = 25;
const LEASES_LISTED = 1000;
const TABS = [
  ["leases", "Leases"],
  ["ready", "Ready"],
  ["delayed", "Delayed"],
  ["dead", "Dead letters"],
  ["search", "Search"],
  ["history", "History"],
  ["groups", "Groups"],
  ["shards", "Shards"],
];
const ISOLATED = new URLSearchParams({ in: "isolated", by: "reason", for: "*" }).toString(); // all of them
const withId = (id) => new URLSearchParams({ in: "any", by: "message_id", for: id }).toString();
const TOLD = ["paused", "isolated"]; // by notes, with who did it and with a link
const COUNTED = new Set(["leases", "ready", "delayed", "dead"]);

export function queueView({ connection, name, tab, rest, mayRead, mayEdit, hrefOf, refresh }) {
  const tiles = h("section.tiles.five", { "aria-label": "Numbers" });
  const drawn = chart();
  const rate = h("span.rate");
  const current = tab === "why" ? "search" : tab;
  const tabs = new Map(TABS.map(([id, label]) => [id, tabLink(id, label, hrefOf(name, id), id === current)]));
  const panel = h("section.panel");
  const why = h("div.attention", { role: "group", "aria-label": "Why it needs attention" });
  const note = h("div");
  const title = h("h1", {}, name);
  const verbs = h("div.deeds");
  const lacking = h("div");
  const live = h("section.card.chart-card", { hidden: ["search", "history", "groups", "shards", "why"].includes(tab) }, h("div.chart-head", {}, h("h2", {}, "Messages"), legend(), rate), drawn.element);
  const element = h("div", {},
    h("div.heading", {}, title, verbs),
    why,
    note,
    tiles,
    live,
    h("nav.tabs", { "aria-label": "Parts of the queue" }, [...tabs.values()].map(({ element: link }) => link)),
    panel,
    lacking);
  let offset = 0;
  let shown = null;
  let loading = null;
  let table = null;
  const only = tab === "leases" ? rest : undefined; // the id of the one lease that the address names
  const ended = h("div");
  const clients = clientTable();
  const none = empty("check", "No leases", "Leases appear here while tasks work on messages of this queue.");
  const pages = pager((next) => {
    offset = next;
    refresh();
  });

  async function show(queue) {
    remember(connection, name, queue);
    title.replaceChildren(name, ...badges(queue).filter(Boolean));
    tiles.replaceChildren(...tilesOf(connection, queue));
    why.replaceChildren(...[reasonsOf(queue, TOLD, (id) => hrefOf(name, "search", withId(id)))].filter(Boolean));
    note.replaceChildren(...paused(queue), ...incomplete(queue, tab === "shards" ? null : hrefOf(name, "shards")), ...isolated(queue, mayRead ? hrefOf(name, "search", ISOLATED) : null), ...stored(queue));
    if (!live.hidden) drawn.draw(samplesOf(connection, name));
    rate.textContent = forecast(rateOf(connection, name), queue);
    for (const [id, { number: cell }] of tabs) if (COUNTED.has(id)) cell.textContent = short(queue[id]);
    tabs.get("groups").element.hidden = tab !== "groups" && !inGroups(queue);
    tabs.get("shards").element.hidden = tab !== "shards" && !inShards(queue);
    pauses(queue);
    if (!lacking.firstChild) lacking.replaceChildren(...[cannotDo(queue), mayEdit ? null : lookingOnly()].filter(Boolean));
    if (tab === "leases") showLeases(queue);
    else if (tab === "shards") showShards(queue);
    else if (tab === "groups" && shown?.load) await shown.load(queue);
    else if (shown) shown.count?.(queue[tab]);
    else await (loading ??= showPanel(queue).finally(() => (loading = null))); // a second load at the same time would replace the list
  }

  const whereOf = (queue) => ({ connection, queue: name, discipline: queue.discipline, verbs: queue.verbs, lacks: queue.lacks, mayRead, mayEdit, hrefOf });

  function pauses(queue) {
    const stated = `${queue.paused} ${queue.settings?.settings}`;
    if (!mayEdit || verbs.dataset.stated === stated) return;
    verbs.dataset.stated = stated;
    const state = queue.paused ? "paused" : "running";
    const filled = { settings: settingsOf(queue) };
    const move = queue.paused && queue.discipline === "leased" ? moveButton(whereOf(queue), refresh) : "";
    verbs.replaceChildren(...verbButtons(whereOf(queue), "queue", { state, it: "this queue", filled, then: refresh }), move);
  }

  async function showPanel(queue) {
    if (tab === "history") return showPast(queue);
    if (!mayRead) {
      panel.replaceChildren(empty("lock", "You may not see messages", `You may see the numbers of this queue: ${words.no_messages}.`));
      shown = {};
      return undefined;
    }
    if (tab === "groups") return showGroups(queue);
    if (tab === "search") return showSearch(queue);
    return tab === "why" ? showStory(queue) : showMessages(queue);
  }

  /** Load a panel; if that fails, the next refresh tries again. */
  async function loaded(load) {
    try {
      await load();
    } catch (error) {
      shown = null;
      throw error;
    }
  }

  async function showPast(queue) {
    const past = pastPanel({ where: whereOf(queue) });
    shown = { load: past.load, tick: past.tick, leave: past.leave };
    panel.replaceChildren(past.element);
    await loaded(past.load);
  }

  async function showGroups(queue) {
    if (queue.lacks.groups) {
      panel.replaceChildren(unlisted(`Messages of the discipline “${queue.discipline}” do not wait in groups.`));
      shown = {};
      return;
    }
    const groups = groupsPanel({ where: whereOf(queue) });
    shown = { load: groups.load };
    panel.replaceChildren(groups.element);
    await loaded(() => groups.load(queue));
  }

  function showShards(queue) {
    if (!shown) panel.replaceChildren((shown = shardsPanel()).element);
    shown.show(queue);
  }

  async function showSearch(queue) {
    const search = searchPanel({ where: whereOf(queue), asked: rest, onChange: refresh });
    shown = { leave: search.leave };
    panel.replaceChildren(search.element);
    search.start();
  }

  async function showStory(queue) {
    const timeline = timelinePanel({ where: whereOf(queue), id: rest });
    shown = { load: timeline.load };
    panel.replaceChildren(timeline.element);
    await loaded(timeline.load);
  }

  function showLeases(queue) {
    if (queue.lacks.leases) return panel.replaceChildren(unlisted(`The discipline “${queue.discipline}” keeps no list of leases.`));
    table ??= leaseTable({ where: whereOf(queue), onChange: refresh });
    if (!shown) panel.replaceChildren(only ? onlyLease(only, hrefOf(name, "leases")) : h("div.actions", {}, pages.element), table.element, only ? ended : none, only ? "" : clients.element);
    shown = table;
    table.show(queue.listed);
    clients.show(queue.clients);
    table.element.hidden = !queue.listed.length;
    if (only) return ended.replaceChildren(...(queue.listed.length || away(queue).length ? [] : [lastOf(queue.acked)]));
    none.hidden = queue.listed.length > 0 || queue.leases > 0;
    return pages.show(offset, queue.listed.length, Math.min(queue.leases, LEASES_LISTED), LEASES);
  }

  async function showMessages(queue) {
    if (tab === "delayed" && queue.lacks.browse) {
      panel.replaceChildren(unlisted(`The discipline “${queue.discipline}” can count these messages, but not list them.`));
      shown = {};
      return;
    }
    const where = whereOf(queue);
    const reasons = tab === "dead" ? reasonTable({ where, onChange: () => [list.load(), refresh()] }) : null;
    const list = messageList({ target: tab, where, onChange: () => [reasons?.load(), refresh()] });
    await Promise.all([list.load(), reasons?.load()]);
    shown = { ...list, load: () => Promise.all([list.load(), reasons?.load()]) };
    panel.replaceChildren(...[reasons?.element, list.element].filter(Boolean));
  }

  return {
    element,
    refresh: async () => show(await api.queue(connection, name, tab === "leases" ? offset : 0, LEASES, only)),
    reload: async () => tab !== "groups" && shown?.load?.(), // the groups are read at each refresh
    tick: () => shown?.tick?.(),
    leave: () => shown?.leave?.(),
    get keys() {
      const jumps = TABS.map(([id], at) => [String(at + 1), () => (location.hash = hrefOf(name, id))]);
      return { ...Object.fromEntries(jumps), "[": pages.back, "]": pages.forth, ...shown?.keys };
    },
  };
}

/** The settings that are stored with the queue, as a text; empty without any. */
const settingsOf = ({ settings }) => (Object.keys(settings?.stored ?? {}).length ? settings.settings : "");

function paused({ pause }) {
  if (!pause) return [];
  return [h("p.note.pause", {}, icon("pause"), h("span", {}, h("strong", {}, `This queue is ${pause}. `), "Claims return no messages until it is resumed."))];
}

function stored(queue) {
  const text = settingsOf(queue);
  return text ? [h("p.faint.settings", {}, `Stored with the queue: ${text}`)] : [];
}

const lookingOnly = () => h("p.faint", {}, `You may look, but not change anything: ${words.no_change}.`);

const onlyLease = (id, href) =>
  h("div.actions", {}, h("a.button.quiet", { href }, icon("back"), "All leases"), h("h2", {}, "Lease ", h("code", {}, id)));

function lastOf(acked) {
  if (!acked) return empty("check", "This lease has ended", "It was settled, released or has expired, or there never was a lease of this id. Search for one of its messages and choose “Why?”.");
  return empty("check", "This lease was acked", `${count(acked.acked, "message")} ${acked.acked === 1 ? "was" : "were"} acked ${ago(acked.at)}.`, h("p", {}, owner(acked)));
}

const unlisted = (text) => empty("queue", "There is no list of these", text);

function tabLink(id, label, href, current) {
  const cell = h("span.tab-number", {}, "");
  const element = h(`a.tab.${id === "history" ? "past" : id}`, { href, "aria-current": current ? "page" : null }, label, cell);
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
