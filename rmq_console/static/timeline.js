// Why a message is where it is: what happened to it, step by step, and what cannot be known.

import { api } from "./api.js";
import { ago, h, icon, moment } from "./dom.js";
import { empty, owner } from "./parts.js";

const PLACES = {
  ready: "ready", isolated: "ready, and tried apart from others", delayed: "delayed", leased: "leased",
  dead: "a dead letter", completed: "completed", failed: "failed", gone: "not in the queue any more",
};
const BAD = new Set(["nacked", "expired", "dead"]);

/** `where`: { connection, queue, lacks, hrefOf }. */
export function timelinePanel({ where: { connection, queue, hrefOf, lacks }, id }) {
  const back = h("a.button.quiet", { href: hrefOf(queue, "search", new URLSearchParams({ in: "dead", by: "message_id", for: id }).toString()) }, icon("back"), "Search");
  const title = h("h2", {}, "Why? ", h("code", {}, id));
  const body = h("div");
  const element = h("section.timeline", {}, h("div.actions", {}, back, title), body);

  async function load() {
    if (lacks.why) return body.replaceChildren(empty("timeline", "No way to explain a message", "The discipline of this queue does not note what happens to its messages."));
    const timeline = await api.why(connection, queue, id);
    return body.replaceChildren(...[
      h("p.verdict", {}, "This message is ", h("strong", {}, PLACES[timeline.state] ?? timeline.state),
        `; ${timeline.verdict}.`),
      timeline.acks > 1 ? h("p.note", {}, icon("alert"), h("span", {}, h("strong", {}, "It was acked more than once. "), "See the steps below for who did it.")) : null,
      timeline.steps.length ? h("ol.history.steps", {}, timeline.steps.map((each) => step(each, (lease) => hrefOf(queue, "leases", lease)))) : empty("timeline", "Nothing is known", "Neither the queue nor its journal has this id."),
      timeline.unknown.length ? h("div.unknown", {}, h("h3", {}, "What is not known"), h("ul", {}, timeline.unknown.map((text) => h("li", {}, text)))) : null,
    ].filter(Boolean));
  }

  return { element, load };
}

function step({ at, what, who, holder, lease_id: lease, detail, source }, hrefOfLease) {
  const when = at ? Date.parse(at) : null;
  return h(`li${BAD.has(what) ? ".bad" : ""}`, {},
    h("span.when", { title: when ? moment(when) : null }, h(`span.badge${BAD.has(what) ? ".dead" : ""}`, {}, what), when ? `${moment(when)} (${ago(when)})` : "time unknown"),
    detail ? h("p.reason", {}, detail) : null,
    who ? owner({ owner: who, holder }) : null,
    lease ? h("a.run", { href: hrefOfLease(lease) }, `lease ${lease}`) : null,
    h("span.source", {}, { message: "noted in the message", lease: "noted in the lease", journal: "from the journal" }[source] ?? source));
}
