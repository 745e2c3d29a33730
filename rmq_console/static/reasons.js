// Dead letters by the reasons of their failures: what to show, redrive or delete together.

import { api } from "./api.js";
import { ago, count, h, icon, moment, number } from "./dom.js";
import { download } from "./parts.js";
import { askPurgeMatching, askRedriveMatching } from "./questions.js";
import { act, asked, change, verbButton } from "./verbs.js";

const FEW = 8;

/** `where`: { connection, queue, lacks, mayEdit, hrefOf }. `onChange` runs after a change. */
export function reasonTable({ where, onChange }) {
  const { connection, queue } = where;
  const body = h("tbody");
  const head = h("tr", {}, ["Reason", "Dead letters", "Newest", "Oldest"].map((label) => h(`th${label === "Dead letters" ? ".right" : ""}`, { scope: "col" }, label)), h("th", { "aria-label": "Actions" }));
  const note = h("p.order-note");
  const all = h("button.quiet", { type: "button", hidden: true, onclick: () => show(groups, true) });
  const element = h("section.by-reason", { hidden: true, "aria-label": "Dead letters by reason" },
    h("h2", {}, "By reason"), note, h("div.card.scroll", {}, h("table.reasons", {}, h("thead", {}, head), body)), all);
  let groups = [];

  async function load() {
    if (where.lacks.dead_reasons) return;
    const found = await api.reasons(connection, queue);
    groups = found.groups;
    element.hidden = !groups.length;
    note.textContent = found.counted < found.total ? `Of the newest ${number(found.counted)} of ${number(found.total)} dead letters; there are too many to group all of them here.` : "";
    show(groups, false);
  }

  function show(found, whole) {
    const listed = whole ? found : found.slice(0, FEW);
    all.hidden = listed.length === found.length;
    all.textContent = `Show all ${number(found.length)} reasons`;
    body.replaceChildren(...listed.map(row));
  }

  function row(group) {
    const match = { group: group.reason };
    const href = where.hrefOf(queue, "search", new URLSearchParams({ in: "dead", by: "group", for: group.reason }).toString());
    return h("tr", {},
      h("td.reason-name", { title: `For example ${group.example}` }, group.reason),
      h("td.right.strong", { "data-label": "Dead letters" }, number(group.count)),
      h("td.nowrap", { "data-label": "Newest", title: group.newest && moment(group.newest) }, group.newest ? ago(group.newest) : "–"),
      h("td.nowrap", { "data-label": "Oldest", title: group.oldest && moment(group.oldest) }, group.oldest ? ago(group.oldest) : "–"),
      h("td.right", {}, h("span.deeds", {},
        h("a.button.plain", { href, "aria-label": `Show ${group.reason}` }, icon("search"), "Show"),
        ...matchingButtons({ ...where, target: "dead", match, what: group.reason, onChange: changed }))));
  }

  async function changed() {
    await load();
    onChange();
  }

  return { element, load };
}

/** Buttons that redrive, delete or export all messages in a state that meet conditions. */
export function matchingButtons({ connection, queue, lacks, mayEdit, target, match, what, onChange }) {
  const save = h("button.plain", { type: "button", title: "Download these messages as NDJSON", "aria-label": `Export ${what}`, onclick: () => download(api.exported(connection, queue, target, match)) }, icon("down"), "Export");
  if (!mayEdit) return [save];
  const redrive = () => asked({ connection, queue }, target, match, (many) => askRedriveMatching(queue, what, many), async () => {
    const step = async () => {
      const { redriven: changed, ...rest } = await api.change(connection, "redrive", queue, { where: match });
      return { changed, ...rest };
    };
    await act(() => change(step, (changed) => `${count(changed, "dead letter")} ${changed === 1 ? "is" : "are"} ready again`), onChange);
  });
  const purge = () => asked({ connection, queue }, target, match, (many) => askPurgeMatching(queue, target, what, many), async () => {
    const step = async () => {
      const { purged: changed, ...rest } = await api.change(connection, "purge", queue, { target, confirm: queue, where: match });
      return { changed, ...rest };
    };
    await act(() => change(step, (changed) => `${count(changed, target === "dead" ? "dead letter" : `${target} message`)} deleted`), onChange);
  });
  return [
    target === "dead" ? verbButton({ lacks, verb: "redrive_where", label: "Redrive", picture: "redrive", name: `Redrive ${what}`, run: redrive }) : null,
    ["ready", "delayed", "dead"].includes(target) ? verbButton({ lacks, verb: "purge_where", label: "Purge…", picture: "trash", kind: "plain.wipe", name: `Purge ${what}`, run: purge }) : null,
    save,
  ].filter(Boolean);
}
