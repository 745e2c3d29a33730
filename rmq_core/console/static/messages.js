// A page of the messages that no lease holds: ready, delayed or dead. Reading them claims nothing.

import { api } from "./api.js";
import { ago, bytes, count, duration, h, icon, moment } from "./dom.js";
import { askPurge, askRedrive } from "./dialogs.js";
import { pager } from "./pager.js";
import { empty, owner, toast } from "./parts.js";

const PAGE = 25;
const NOTHING = {
  ready: ["No ready message", "Every published message is leased, delayed, dead or done."],
  delayed: ["No delayed message", "Messages wait here for their due time, or for their next try after a nack."],
  dead: ["No dead letter", "Messages that failed too often are set aside here, with the reasons."],
};
const COLUMNS = {
  ready: ["Payload", "Published", "Deliveries", "Size"],
  delayed: ["Payload", "Due", "Deliveries", "Size"],
  dead: ["Reason", "Payload", "Failed", "Deliveries"],
};

export function messageList({ connection, queue, target, mayEdit, able, onChange }) {
  const chosen = new Set();
  let total = 0;
  const columns = COLUMNS[target].map((label) => h(`th${["Deliveries", "Size"].includes(label) ? ".right" : ""}`, { scope: "col" }, label));
  const all = target === "dead" && able.choose && mayEdit ? h("input", { type: "checkbox", "aria-label": "Choose all shown" }) : null;
  const body = h("tbody");
  const head = h("tr", {}, h("th.check", { "aria-label": all ? null : "Open" }, all), columns);
  const table = h("div.card.scroll", {}, h(`table.messages.${target}`, {}, h("thead", {}, head), body));
  const nothing = h("div", { hidden: true }, empty("check", ...NOTHING[target]));
  const some = h("button.primary", { type: "button", hidden: true, onclick: () => redrive([...chosen]) });
  const every = h("button.plain", { type: "button", hidden: true, onclick: () => redrive(null) }, icon("redrive"), "Redrive all");
  const wipe = h("button.plain.wipe", { type: "button", hidden: true, onclick: purge }, icon("trash"), "Purge…");
  const pages = pager((next) => load(next));
  const time = h("span.faint");
  const again = h("button.quiet", { type: "button", hidden: true, onclick: () => load(), title: "Reload this page of messages (r)" }, "Refresh");
  const element = h("div", {}, h("div.actions", {}, some, every, wipe, h("span.as-of", {}, time, again), pages.element), table, nothing);
  all?.addEventListener("change", () => {
    for (const box of body.querySelectorAll("input[type=checkbox]")) choose(box, all.checked);
  });

  let last = 0;

  async function load(offset = last) {
    let found = await api.messages(connection, queue, target, offset, PAGE);
    if (!found.messages.length && found.total && offset) found = await api.messages(connection, queue, target, 0, PAGE);
    last = found.offset;
    chosen.clear();
    if (all) all.checked = false;
    total = found.total;
    body.replaceChildren(...found.messages.flatMap(rows));
    time.textContent = total ? `as of ${new Date().toLocaleTimeString("en-GB")}` : "";
    pages.show(found.offset, found.messages.length, total, PAGE);
    table.hidden = !found.messages.length;
    nothing.hidden = !table.hidden;
    buttons();
  }

  function buttons() {
    every.hidden = target !== "dead" || !total || !mayEdit;
    wipe.hidden = !total || !mayEdit;
    again.hidden = !total;
    some.hidden = !chosen.size;
    some.replaceChildren(icon("redrive"), `Redrive ${chosen.size}`);
  }

  function choose(box, on) {
    box.checked = on;
    chosen[on ? "add" : "delete"](box.value);
    buttons();
  }

  function rows(message) {
    const more = h("tr.more", { hidden: true });
    const line = h("tr", { tabindex: 0, "aria-expanded": "false", onclick: toggle });
    function toggle() {
      if (getSelection().toString()) return;
      more.hidden = !more.hidden;
      line.setAttribute("aria-expanded", String(!more.hidden));
      if (!more.hidden) more.replaceChildren(h("td", { colspan: 5 }, details(message)));
    }
    line.append(h("td.check", {}, h("span.marks", {}, all ? box(message) : null, h("span.turn", {}, icon("chevron")))), ...cells(target, message));
    return [line, more];
  }

  function box(message) {
    const input = h("input", { type: "checkbox", value: message.id, "aria-label": "Choose this dead letter" });
    input.addEventListener("change", () => choose(input, input.checked));
    return h("label", { onclick: (event) => event.stopPropagation() }, input);
  }

  async function redrive(ids) {
    if (!(await askRedrive(queue, ids ? ids.length : total))) return;
    await done(async () => {
      const { redriven } = await api.redrive(connection, queue, ids);
      return `${count(redriven, "dead letter")} ${redriven === 1 ? "is" : "are"} ready again`;
    });
  }

  async function purge() {
    if (!(await askPurge(queue, target, total))) return;
    await done(async () => {
      const { purged } = await api.purge(connection, queue, target, queue);
      return `${count(purged, target === "dead" ? "dead letter" : `${target} message`)} deleted`;
    });
  }

  async function done(change) {
    try {
      const told = await change();
      try {
        await load(); // first, or the next dialog would still count the messages that are gone
      } finally {
        toast(told);
      }
    } catch (error) {
      toast(error.message, "failed");
    }
    onChange();
  }

  const pick = () => {
    const focused = document.activeElement.closest?.("tr")?.querySelector("input[type=checkbox]");
    if (focused) choose(focused, !focused.checked);
  };
  /** The listed messages stay until they are loaded again; only the total follows the queue. */
  function follow(now) {
    if (now === total) return;
    total = now;
    pages.count(total);
    buttons();
  }

  return { element, load, count: follow, keys: { x: pick, "[": pages.back, "]": pages.forth } };
}

function cells(target, message) {
  const payload = h("td.payload", {}, h("code", {}, message.payload.slice(0, 300) || "(empty)"));
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

function details(message) {
  const headers = Object.entries(message.headers);
  return h("div.details", {},
    h("section", {}, h("h3", {}, `Payload (${message.kind}, ${bytes(message.size)})`), h("pre.code", {}, pretty(message)),
      message.cut ? h("p.faint", {}, "Only the beginning is shown.") : null),
    h("section", {},
      h("h3", {}, "Message"),
      h("dl", {}, pair("Id", message.id), pair("Published", moment(message.enqueued_at)), message.due ? pair("Due", moment(message.due)) : null),
      h("h3", {}, "Headers"),
      headers.length ? h("dl", {}, headers.map(([name, value]) => pair(name, value))) : h("p.faint", {}, "none"),
      message.history.length ? [h("h3", {}, "History"), h("ol.history", {}, message.history.map((each) => failure(each)))] : null));
}

const pair = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

function failure(each) {
  return h("li", {},
    h("span.when", { title: moment(each.at) }, h("span.badge", {}, each.kind === "expired" ? "lease expired" : each.kind), ago(each.at)),
    each.reason ? h("p.reason", {}, each.reason) : null,
    each.owner ? owner(each) : null);
}

function pretty({ kind, payload, cut }) {
  if (kind !== "json" || cut) return payload || "(empty)";
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch {
    return payload;
  }
}
