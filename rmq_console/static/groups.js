// The groups of a queue in which messages wait, its publications, and the policy that all its clients follow.

import { api } from "./api.js";
import { ago, count, duration, h, moment, number } from "./dom.js";
import { empty } from "./parts.js";

const LISTED = 25;

/** Whether messages of a queue wait in groups. */
export const inGroups = ({ settings }) => Boolean(settings?.in_force?.groups);

/** `where`: { connection, queue, hrefOf }. */
export function groupsPanel({ where }) {
  const { connection, queue: name } = where;
  const policy = h("p.faint.policy");
  const groups = section("Groups", "groups", ["Group", "Waiting", "Leases", "Can be claimed"]);
  const publications = section("Publications", "publications", ["Publication", "Done", "Waiting", "Leased", "Dead", "Ended"]);
  const nothing = h("div");
  const element = h("div.of-groups", {}, policy, nothing, groups.element, publications.element);

  async function load(queue) {
    const found = await api.groups(connection, name, LISTED);
    policy.textContent = policyOf(queue);
    groups.show(found.groups.map((group) => groupRow(group, where)), `The ${LISTED} in which the most messages wait are listed; the command rmq groups lists more.`);
    publications.show(found.publications.map((each) => publicationRow(each, where)), `The first ${LISTED} are listed; the command rmq publications lists more.`);
    const none = !found.groups.length && !found.publications.length;
    const why = inGroups(queue) ? "No messages wait in groups, and no publication is counted." : "Messages of this queue wait in one line. The setting groups gives each tenant or table a line of its own.";
    nothing.replaceChildren(...(none ? [empty("queue", "No groups", why)] : []));
  }

  return { element, load };
}

/** A table with a heading, hidden without rows; a note says so when there may be more rows. */
function section(title, kind, labels) {
  const body = h("tbody");
  const head = h("tr", {}, labels.map((label, at) => h(at && !["Can be claimed", "Ended", "Done"].includes(label) ? "th.right" : "th", { scope: "col" }, label)));
  const note = h("p.order-note");
  const element = h("section", { hidden: true, "aria-label": title }, h("h2", {}, title), note, h("div.card.scroll", {}, h(`table.${kind}`, {}, h("thead", {}, head), body)));
  let written = "";

  function show(rows, more) {
    element.hidden = !rows.length;
    note.textContent = rows.length < LISTED ? "" : more;
    const now = rows.map((row) => row.textContent).join("\n");
    if (now !== written) body.replaceChildren(...rows); // else a link would lose the focus
    written = now;
  }

  return { element, show };
}

function groupRow(group, where) {
  const label = group.name || "without a group";
  const named = group.name ? messagesOf(where, `rmq-group=${group.name}`, label) : h("span.faint", {}, label);
  return h("tr", {},
    h("td.named", {}, named, group.priority ? h("span.badge", {}, `priority ${group.priority}`) : null, group.isolated ? h("span.badge.isolated", {}, "tried apart") : null),
    h("td.right.strong", { "data-label": "Waiting" }, number(group.waiting)),
    h("td.right", { "data-label": "Leases" }, number(group.leases)),
    h("td.nowrap", { "data-label": "Can be claimed" }, claimable(group)));
}

function claimable({ ready, until, leases, waiting }) {
  if (ready) return "now";
  if (until) return `in ${duration((until - Date.now()) / 1000)}`;
  return leases && waiting ? "when a lease ends" : "–";
}

function publicationRow(each, where) {
  const done = each.messages - each.waiting - each.leased;
  const open = each.publishers ? h("span.badge", { title: "Publishers still add messages" }, count(each.publishers, "publisher")) : null;
  return h("tr", {},
    h("td.named", {}, messagesOf(where, `rmq-publication=${each.name}`, each.name), open),
    h("td", { "data-label": "Done" }, h("span.progress", {}, h("span", {}, `${number(done)} of ${number(each.messages)}`), h("progress", { max: Math.max(1, each.messages), value: done, "aria-label": `Done of ${each.name}` }))),
    h("td.right", { "data-label": "Waiting" }, number(each.waiting)),
    h("td.right", { "data-label": "Leased" }, number(each.leased)),
    h(`td.right${each.dead ? ".strong" : ""}`, { "data-label": "Dead" }, number(each.dead)),
    h("td.nowrap", { "data-label": "Ended", title: each.ended && moment(each.ended) }, each.ended ? ago(each.ended) : "not yet"));
}

/** A link to the ready messages with this header. */
function messagesOf({ queue, hrefOf }, header, label) {
  const href = hrefOf(queue, "search", new URLSearchParams({ in: "ready", by: "header", for: header }).toString());
  return h("a.name", { href, title: "Show its ready messages" }, label);
}

function policyOf(queue) {
  const { groups, rate, group_rate, dedup_until, pause_after_dead } = queue.settings?.in_force ?? {};
  if (!groups) return "";
  const [, limit] = /^concurrent (\d+)/.exec(groups) ?? [];
  const weights = /\{.*/.exec(groups)?.[0];
  return [
    groups.startsWith("exclusive") ? "One lease at a time may hold messages of a group, in their order (exclusive)." : limit ? `At most ${count(Number(limit), "lease")} at a time may hold messages of a group.` : "Groups take turns, and any number of leases may hold messages of one (fair).",
    weights ? `Weights: ${weights}.` : "",
    rate ? `Claims get at most ${rate} from the queue.` : "",
    group_rate ? `Claims get at most ${group_rate} from each group.` : "",
    dedup_until === "settled" ? "A deduplication key is taken until its message is settled." : "",
    pause_after_dead ? `The queue pauses itself after ${pause_after_dead.replace(" in ", " dead letters in ")}.` : "",
  ].filter(Boolean).join(" ");
}
