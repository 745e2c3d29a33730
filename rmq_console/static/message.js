// One message as a row of a table, its details, and what can be done to it. Reading it claims nothing.

import { api } from "./api.js";
import { ago, bytes, count, duration, h, icon, moment } from "./dom.js";
import { owner } from "./parts.js";
import { askDiscard, askEdit, askRedrive } from "./questions.js";
import { act, verbButton, verbButtons } from "./verbs.js";

const COLUMNS = {
  ready: ["Payload", "Published", "Deliveries", "Size"],
  isolated: ["Payload", "Published", "Deliveries", "Size"],
  leased: ["Payload", "Published", "Deliveries", "Size"],
  delayed: ["Payload", "Due", "Deliveries", "Size"],
  dead: ["Reason", "Payload", "Failed", "Deliveries"],
};

/** The head of a table of messages; `choice` is the box that chooses all, if there is one. */
export function messageHead(target, choice = null) {
  const columns = COLUMNS[target].map((label) => h(`th${["Deliveries", "Size"].includes(label) ? ".right" : ""}`, { scope: "col" }, label));
  return h("thead", {}, h("tr", {}, h("th.check", { "aria-label": choice ? null : "Open" }, choice), columns));
}

/**
 * The rows of a message: a line, and its details below it.
 * `where`: { connection, queue, verbs, lacks, mayEdit, hrefOf, changed(), around }; `around`: a text that the line shows
 * of the payload, if it has it; `box`: what chooses the message.
 */
export function messageRows(target, message, where, box = null) {
  const more = h("tr.more", { hidden: true });
  const line = h("tr", { tabindex: 0, "aria-expanded": "false", onclick: toggle });
  function toggle() {
    if (getSelection().toString()) return;
    more.hidden = !more.hidden;
    line.setAttribute("aria-expanded", String(!more.hidden));
    if (!more.hidden) more.replaceChildren(h("td", { colspan: 5 }, details(target, message, where)));
  }
  line.append(h("td.check", {}, h("span.marks", {}, box, h("span.turn", {}, icon("chevron")))), ...cells(target, message, where.around));
  return [line, more];
}

/** The beginning of a payload, or its part around a text. */
function excerpt(payload, around) {
  const at = around ? payload.indexOf(around) : -1;
  if (at < 0) return payload.slice(0, 300) || "(empty)";
  const from = Math.max(0, at - 24);
  return [from ? "…" : "", payload.slice(from, at), h("mark", {}, around), payload.slice(at + around.length, from + 300)];
}

function cells(target, message, around) {
  const payload = h("td.payload", {}, h("code", {}, excerpt(message.payload, around)), message.group ? h("span.badge.group", { title: "Its group" }, message.group) : null);
  const deliveries = h("td.right", { "data-label": "Deliveries" }, message.deliveries);
  if (target === "dead") {
    const { reason, kind, at } = message.history.at(-1) ?? { reason: "", kind: "", at: message.enqueued_at };
    const why = reason || (kind === "expired" ? "The lease expired" : "No reason was given");
    return [h("td.reason", { title: why }, why), payload, h("td.nowrap", { "data-label": "Failed", title: moment(at) }, ago(at)), deliveries];
  }
  const when = target === "delayed" ? [message.due, due(message.due)] : [message.enqueued_at, ago(message.enqueued_at)];
  return [payload, h("td.nowrap", { "data-label": COLUMNS[target][1], title: moment(when[0]) }, when[1]), deliveries, h("td.right.nowrap", { "data-label": "Size" }, bytes(message.size))];
}

const due = (at) => (at > Date.now() ? `in ${duration((at - Date.now()) / 1000)}` : "now");

function details(target, message, where) {
  const headers = Object.entries(message.headers);
  return h("div", {},
    h("div.details", {},
      h("section", {}, h("h3", {}, `Payload (${message.kind}, ${bytes(message.size)})`), h("pre.code", {}, pretty(message)),
        message.cut ? h("p.faint", {}, "Only the beginning is shown.") : null),
      h("section", {},
        h("h3", {}, "Message"),
        h("dl", {}, pair("Id", message.id), pair("Published", moment(message.enqueued_at)), message.due ? pair("Due", moment(message.due)) : null,
          message.lease ? pair("Lease", message.lease) : null, message.owner ? pair("Held by", message.owner) : null),
        h("h3", {}, "Headers"),
        headers.length ? h("dl", {}, headers.map(([name, value]) => pair(name, value))) : h("p.faint", {}, "none"),
        message.history.length ? [h("h3", {}, "History"), h("ol.history", {}, message.history.map((each) => failure(each)))] : null)),
    h("div.deeds", {}, explain(message, where), where.mayEdit ? deeds(target, message, where) : null));
}

const pair = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

function failure(each) {
  return h("li", {},
    h("span.when", { title: moment(each.at) }, h("span.badge", {}, each.kind === "expired" ? "lease expired" : each.kind), ago(each.at)),
    each.reason ? h("p.reason", {}, each.reason) : null,
    each.owner ? owner(each) : null);
}

function explain(message, { queue, lacks, hrefOf }) {
  if (lacks.why) return null;
  return h("a.button.plain", { href: hrefOf(queue, "why", message.id) }, icon("timeline"), "Why?");
}

function deeds(target, message, where) {
  const { connection, queue, lacks, changed } = where;
  const state = target === "isolated" ? "ready" : target;
  const buttons = verbButtons(where, "message", { state, fields: { message_id: message.id }, it: "this message", then: changed });
  if (target === "leased") return [h("a.button.plain", { href: where.hrefOf(queue, "leases") }, icon("release"), "Its lease"), ...buttons];
  if (target !== "dead") return buttons;
  const chosen = { message_ids: [message.id] };
  const button = (verb, label, picture, question, word, done) =>
    verbButton({ lacks, verb, label, picture, run: async () => {
      if (await question()) await act(async () => { await api.change(connection, word, queue, chosen); return done; }, changed);
    } });
  const uneditable = message.cut ? { edit: "only the beginning of this payload is shown; edit it with `rmq dlq edit`" } : {};
  const retried = count(1, "dead letter");
  return [
    button("redrive_some", "Retry", "redrive", () => askRedrive(queue, 1), "redrive", `${retried} is ready again`),
    editButton({ ...where, lacks: { ...lacks, ...uneditable } }, message),
    button("discard", "Delete…", "trash", () => askDiscard(1), "discard", `${retried} deleted`),
    ...buttons,
  ];
}

function editButton({ connection, queue, lacks, changed }, message) {
  return verbButton({ lacks, verb: "edit", label: "Edit and retry…", picture: "edit", run: async () => {
    const edit = await askEdit(queue, message);
    if (!edit) return;
    await act(async () => {
      await api.change(connection, "edit", queue, { message_id: message.id, ...edit });
      return "The message is ready again, with the changes";
    }, changed);
  } });
}

function pretty({ kind, payload, cut }) {
  if (kind !== "json" || cut) return payload || "(empty)";
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch {
    return payload;
  }
}
