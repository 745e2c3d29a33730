// Small parts that several views share.

import { h, icon, number } from "./dom.js";
import { airflow } from "./theme.js";

export function empty(picture, title, text, ...more) {
  return h("div.empty.card", {}, h("div.picture", {}, icon(picture)), h("h2", {}, title), h("p", {}, text), more);
}

/** Return a note if ready messages are isolated, else nothing; `href` leads to a list of them. */
export function isolated({ isolated: many, ready }, href = null) {
  if (!many) return [];
  const whom = many === ready ? (many === 1 ? "The ready message is" : "All ready messages are") : `${number(many)} of the ready messages ${many === 1 ? "is" : "are"}`;
  return [h("p.note", {}, icon("apart"), h("span", {}, h("strong", {}, `${whom} isolated. `),
    "They failed together before and are tried apart from the others, in ever smaller groups, until the message that fails is found. " +
    "A claim of them returns fewer messages than it requests. See “Messages that are tried apart” in the how-to of this page. ", href ? h("a.isolated-list", { href }, "Show them") : null))];
}

/** A link to a page outside the console. The console's frame may not open it, so the surrounding page of Airflow does. */
function outside(href, ...children) {
  const open = (event) => {
    const outer = airflow();
    if (!outer) return;
    event.preventDefault();
    event.stopPropagation();
    const link = outer.document.createElement("a");
    link.href = href;
    if (event.ctrlKey || event.metaKey || event.button === 1) link.target = "_blank";
    outer.document.body.append(link);
    link.click();
    link.remove();
  };
  return h("a.task", { href, rel: "noreferrer", onclick: open, onauxclick: open }, ...children);
}

/** Download what an address answers. The console's frame may not do that, so the surrounding page of Airflow does. */
export function download(href) {
  const page = airflow()?.document ?? document;
  const link = page.createElement("a");
  link.href = href;
  link.download = "";
  page.body.append(link);
  link.click();
  link.remove();
}

/** The work that holds a lease or caused a failure, with a link to its page; any other owner as plain text. */
export function owner({ owner: name, holder }) {
  if (!holder) return h("span.owner", { title: name }, name || "unnamed");
  const { names, run, attempt, href } = holder;
  const shown = [...names.slice(0, -1).map((each) => [h("span.dag", {}, each), h("span.sep", {}, "›")]).flat(), h("strong", {}, names.at(-1))];
  return h("span.holder", {},
    href ? outside(href, ...shown, icon("task")) : h("span.task", {}, ...shown),
    h("span.run", { title: run }, [run, attempt].filter(Boolean).join(" · ")));
}

export function toast(text, kind = "done") {
  const element = h(`div.toast.${kind}`, {}, icon(kind === "done" ? "check" : "alert"), h("span", {}, text));
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), kind === "done" ? 5_000 : 12_000);
}

/** Move the focus up and down between the rows that can be opened; Enter opens a row. */
export function walk(event) {
  const row = event.target.closest?.("tr[tabindex]");
  const rows = [...document.querySelectorAll("tr[tabindex]")].filter((each) => each.offsetParent);
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (step && rows.length) {
    rows[row ? Math.min(Math.max(0, rows.indexOf(row) + step), rows.length - 1) : 0].focus();
    return true;
  }
  if (event.key === "Enter" && row && event.target === row) {
    row.click();
    return true;
  }
  return false;
}
