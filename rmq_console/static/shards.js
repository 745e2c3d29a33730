// The shards of a queue that is stored in several slots of a Redis Cluster, and what each of them holds.

import { count, duration, h, icon, number } from "./dom.js";
import { empty } from "./parts.js";

const LABELS = ["Shard", "Ready", "Oldest", "Leased", "Delayed", "Dead"];
const SKEWED = 2;

/** Whether a queue is in shards. */
export const inShards = ({ shards }) => Boolean(shards?.length);

/** The shards that do not answer. */
export const away = ({ shards }) => (shards ?? []).filter((each) => each.error);

/** Return a note if shards do not answer, so that the numbers lack what these hold; `href` leads to the list of shards. */
export function incomplete(queue, href) {
  const lost = away(queue);
  if (!lost.length) return [];
  const all = queue.shards.length;
  return [h("p.note.away", {}, icon("alert"), h("span", {}, h("strong", {}, `${all - lost.length} of ${count(all, "shard")} answer. `),
    `The numbers lack what ${lost.length === 1 ? "the other one holds" : "the others hold"}, and leases cannot be listed. `, href ? h("a.isolated-list", { href }, "Show the shards") : null))];
}

export function shardsPanel() {
  const body = h("tbody");
  const head = h("tr", {}, LABELS.map((label, at) => h(at ? "th.right" : "th", { scope: "col" }, label)));
  const note = h("p.faint.policy");
  const table = h("div.card.scroll", {}, h("table.shards", {}, h("thead", {}, head), body));
  const none = empty("queue", "No shards", "This queue is stored in one slot. The setting shards stores it in several slots of a Redis Cluster.");
  const element = h("section.of-shards", { "aria-label": "Shards" }, note, table, none);

  function show(queue) {
    const has = inShards(queue);
    table.hidden = !has;
    none.hidden = has;
    note.textContent = has ? summary(queue.shards) : "";
    body.replaceChildren(...(queue.shards ?? []).map(shardRow));
  }

  return { element, show };
}

function summary(shards) {
  const draining = shards.filter((each) => each.draining).length;
  const getting = `New messages go to ${count(shards.length - draining, "shard")}.`;
  return draining ? `${getting} ${draining === 1 ? "One more only has its" : `${number(draining)} more only have their`} messages claimed.` : getting;
}

function shardRow({ name, slot, draining, skew, stats, error }) {
  const badges = [
    draining ? h("span.badge", { title: "It gets no more messages; claims empty it" }, "draining") : null,
    error ? h("span.badge.dead", {}, "away") : null,
  ];
  const named = h("td.named", {}, h("strong", {}, name), h("span.faint", {}, ` slot ${slot}`), badges);
  if (!stats) return h("tr.alarm", {}, named, h("td.why", { colspan: LABELS.length - 1 }, error));
  const times = skew === null || skew === undefined ? "" : `${skew.toFixed(1)}× the mean`;
  return h("tr", {},
    named,
    h("td.right", { "data-label": "Ready" }, h("span.strong", {}, number(stats.ready)), times && stats.ready ? h(skew >= SKEWED ? "span.skew.high" : "span.skew", {}, ` ${times}`) : null),
    h("td.right.nowrap", { "data-label": "Oldest" }, stats.oldest_age === null ? "–" : duration(stats.oldest_age)),
    h("td.right", { "data-label": "Leased" }, number(stats.leased)),
    h("td.right", { "data-label": "Delayed" }, number(stats.delayed)),
    h("td.right", { "data-label": "Dead" }, number(stats.dead)));
}
