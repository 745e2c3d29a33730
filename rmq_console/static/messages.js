// A page of the messages that no lease holds: ready, delayed or dead. Reading them claims nothing.

import { api } from "./api.js";
import { count, h, icon } from "./dom.js";
import { messageHead, messageRows } from "./message.js";
import { pager } from "./pager.js";
import { download, empty, toast } from "./parts.js";
import { askDiscard, askPurge, askRedrive } from "./questions.js";
import { asked, verbButton } from "./verbs.js";

const PAGE = 25;
const NOTHING = {
  ready: ["No ready message", "Every published message is leased, delayed, isolated, dead or done."],
  delayed: ["No delayed message", "Messages wait here for their due time, or for their next try after a nack."],
  dead: ["No dead letter", "Messages that failed too often are set aside here, with the reasons."],
};

/** `where`: { connection, queue, verbs, lacks, mayEdit, hrefOf }. */
export function messageList({ target, where, onChange }) {
  const { connection, queue, lacks, mayEdit } = where;
  const chosen = new Set();
  let total = 0;
  const all = target === "dead" && !lacks.redrive_some && mayEdit ? h("input", { type: "checkbox", "aria-label": "Choose all shown" }) : null;
  const body = h("tbody");
  const table = h("div.card.scroll", {}, h(`table.messages.${target}`, {}, messageHead(target, all), body));
  const nothing = h("div", { hidden: true }, empty("check", ...NOTHING[target]));
  const some = h("button.primary", { type: "button", hidden: true, onclick: () => redriveSome([...chosen]) });
  const drop = h("button.plain.wipe", { type: "button", hidden: true, onclick: () => discard([...chosen]) });
  const every = verbButton({ lacks, verb: "redrive", label: "Redrive all", picture: "redrive", run: () => redriveAll() });
  const wipe = verbButton({ lacks, verb: "purge", label: "Purge…", picture: "trash", kind: "plain.wipe.purge", run: () => purge() });
  const save = h("button.plain", { type: "button", title: "Download these messages as NDJSON, which `rmq import` reads", onclick: () => download(api.exported(connection, queue, target)) }, icon("down"), "Export");
  const pages = pager((next) => load(next));
  const time = h("span.faint");
  const again = h("button.quiet", { type: "button", hidden: true, onclick: () => load(), title: "Reload this page of messages (r)" }, "Refresh");
  const element = h("div", {}, h("div.actions", {}, some, drop, every, wipe, save, h("span.as-of", {}, time, again), pages.element), table, nothing);
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
    body.replaceChildren(...found.messages.flatMap((message) => messageRows(target, message, { ...where, changed }, all ? box(message) : null)));
    time.textContent = total ? `as of ${new Date().toLocaleTimeString("en-GB")}` : "";
    pages.show(found.offset, found.messages.length, total, PAGE);
    table.hidden = !found.messages.length;
    nothing.hidden = !table.hidden;
    buttons();
  }

  async function changed() {
    await load();
    onChange();
  }

  function buttons() {
    every.hidden = target !== "dead" || !total || !mayEdit;
    wipe.hidden = !total || !mayEdit;
    again.hidden = save.hidden = !total;
    some.hidden = drop.hidden = !chosen.size;
    some.replaceChildren(icon("redrive"), `Redrive ${chosen.size}`);
    drop.replaceChildren(icon("trash"), `Delete ${chosen.size}…`);
  }

  function choose(box, on) {
    box.checked = on;
    chosen[on ? "add" : "delete"](box.value);
    buttons();
  }

  function box(message) {
    const input = h("input", { type: "checkbox", value: message.id, "aria-label": "Choose this dead letter" });
    input.addEventListener("change", () => choose(input, input.checked));
    return h("label", { onclick: (event) => event.stopPropagation() }, input);
  }

  const redriven = (ids) => done(async () => {
    const { redriven: changed } = await api.change(connection, "redrive", queue, { message_ids: ids });
    return `${count(changed, "dead letter")} ${changed === 1 ? "is" : "are"} ready again`;
  });
  const redriveAll = () => asked(where, target, null, (many) => askRedrive(queue, many), () => redriven(null));
  const redriveSome = async (ids) => (await askRedrive(queue, ids.length)) && redriven(ids);

  async function discard(ids) {
    if (!(await askDiscard(ids.length))) return;
    await done(async () => `${count((await api.change(connection, "discard", queue, { message_ids: ids })).discarded, "dead letter")} deleted`);
  }

  const purge = () => asked(where, target, null, (many) => askPurge(queue, target, many), () => done(async () => {
    const { purged } = await api.change(connection, "purge", queue, { target, confirm: queue });
    return `${count(purged, target === "dead" ? "dead letter" : `${target} message`)} deleted`;
  }));

  async function done(change) {
    try {
      const done = await change();
      try {
        await load(); // first, or the next dialog would still count the messages that are gone
      } finally {
        toast(done);
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
