// The leases of a queue: holder, deadline, progress and messages, and which programs use the queue. The countdowns keep
// running between two polls.

import { api } from "./api.js";
import { ago, count, duration, h, icon, number, plain } from "./dom.js";
import { messageHead, messageRows } from "./message.js";
import { pager } from "./pager.js";
import { owner } from "./parts.js";
import { verbButtons } from "./verbs.js";

const SOON_S = 15;
const PAGE = 25;

/** `where`: { connection, queue, verbs, lacks, mayRead, mayEdit, hrefOf }. */
export function leaseTable({ where, onChange }) {
  const { connection, queue, mayRead, mayEdit } = where;
  const body = h("tbody");
  const labels = ["Held by", "Messages", "Claimed", "Expires"].map((label) => h("th", { scope: "col" }, label));
  const head = h("tr", {}, labels, mayEdit ? h("th", { "aria-label": "Actions" }) : null);
  const element = h("div.card.scroll", {}, h("table.leases", {}, h("thead", {}, head), body));
  const owners = h("div.owners");
  const whole = h("div", {}, owners, element);
  const opened = new Map(); // by id: the row with the messages of a lease; it stays while the lease exists
  let leases = [];
  let written = "";

  function show(next) {
    leases = next;
    const now = JSON.stringify(leases.map(({ deadline, ...rest }) => rest));
    if (now !== written) {
      for (const id of opened.keys()) if (!leases.some((lease) => lease.id === id)) opened.delete(id);
      body.replaceChildren(...leases.flatMap((lease) => [row(lease), opened.get(lease.id)].filter(Boolean)));
    }
    if (now !== written && mayEdit) owners.replaceChildren(...severalOf(leases).map(ownerLine));
    written = now;
    tick();
  }

  /** A line with the verbs for all leases of an owner, where a page has several of them. */
  function ownerLine([name, some]) {
    const left = some.reduce((sum, { count: all, settled }) => sum + all - settled, 0);
    const buttons = verbButtons(where, "owner", { fields: { owner: name }, it: name, holder: holderOf(some[0]), whose: name, then: onChange });
    return h("div.card.owner-line", {}, h("span", {}, owner(some[0]), h("span.faint", {}, ` ${count(left, "message")} in ${count(some.length, "lease")} on this page${buttons.length ? "; the buttons end all that it has" : ""}`)), h("span.deeds", {}, buttons));
  }

  function tick() {
    const rows = body.querySelectorAll("tr.lease");
    leases.forEach((lease, at) => {
      const cell = rows[at].querySelector(".expires");
      const [text, kind] = expiry(lease.deadline);
      cell.toggleAttribute("data-label", kind !== "late");
      if (kind !== "late") cell.dataset.label = "Expires";
      cell.replaceChildren(h(`span.expiry.${kind}`, {}, text));
    });
  }

  function row(lease) {
    const again = lease.takeovers ? h("span.badge", { title: "Claimed again under the same id" }, count(lease.takeovers, "takeover")) : null;
    const open = mayRead ? { tabindex: 0, "aria-expanded": String(opened.has(lease.id)), onclick: (event) => toggle(event, lease) } : {};
    return h("tr.lease", open,
      h("td", {}, h("div.held", {}, mayRead ? h("span.turn", {}, icon("chevron")) : null, h("div", {}, owner(lease), again, lease.holder ? null : h("span.run", {}, lease.id)))),
      h("td", {}, progress(lease), lease.isolation ? h("p.apart", {}, h("span.badge.isolated", {}, "tried apart"), lease.isolation) : null),
      h("td", { "data-label": "Claimed", title: new Date(lease.claimed_at).toLocaleString("en-GB") }, ago(lease.claimed_at)),
      h("td.expires"),
      mayEdit ? h("td.right", {}, h("span.deeds", {}, deeds(lease))) : null);
  }

  function toggle(event, lease) {
    if (getSelection().toString() || event.target.closest("a, button")) return;
    const line = event.currentTarget;
    if (opened.has(lease.id)) {
      opened.get(lease.id).remove();
      opened.delete(lease.id);
    } else {
      opened.set(lease.id, messagesOf(lease));
      line.after(opened.get(lease.id));
    }
    line.setAttribute("aria-expanded", String(opened.has(lease.id)));
  }

  function messagesOf(lease) {
    const lines = h("tbody");
    const none = h("p.faint", {}, "Reading…");
    const pages = pager((offset) => load(offset));
    const list = h("div.card.scroll", { hidden: true }, h("table.messages.leased", {}, messageHead("leased"), lines));
    async function load(offset) {
      try {
        const { messages } = await api.lease(connection, queue, lease.id, offset, PAGE);
        lines.replaceChildren(...messages.flatMap((message) => messageRows("leased", message, { ...where, changed: onChange })));
        pages.show(offset, messages.length, Math.max(lease.count - lease.settled, offset + messages.length), PAGE);
        none.textContent = messages.length ? "" : "All of its messages are settled.";
        list.hidden = !messages.length;
      } catch (error) {
        none.textContent = plain(error.message);
      }
    }
    load(0);
    return h("tr.more.of-lease", {}, h("td", { colspan: 5 }, h("div.actions", {}, h("span.run", {}, `lease ${lease.id}`), pages.element), list, none));
  }

  function deeds(lease) {
    const left = lease.count - lease.settled;
    return verbButtons(where, "lease", {
      fields: { lease_id: lease.id, owner: lease.owner }, it: `the lease of ${left === 1 ? "this message" : count(left, "message")}`,
      holder: holderOf(lease), whose: `the lease of ${whoOf(lease)}`, then: onChange,
    });
  }

  return { element: whole, show, tick };
}

/** The owners of several leases, with these, the one of the most first; at most three. */
function severalOf(leases) {
  const found = Object.groupBy(leases.filter((lease) => lease.owner), (lease) => lease.owner);
  return Object.entries(found).filter(([, some]) => some.length > 1).sort((one, other) => other[1].length - one[1].length).slice(0, 3);
}

/** Which programs consume from a queue and publish to it. */
export function clientTable() {
  const body = h("tbody");
  const labels = ["Program", "Host", "Version", "Last seen", "Settings that it passes"].map((label) => h("th", { scope: "col" }, label));
  const about = h("p.order-note", {}, "Consumers that wait or work, and publishers, record themselves once a minute. A consumer not seen for two minutes, or a third of a long lease, is gone or hangs. A publisher not seen for two minutes is idle, or has ended.");
  const element = h("section.of-groups.clients", { hidden: true, "aria-label": "Clients" }, h("h2", {}, "Clients"), about, h("div.card.scroll", {}, h("table.clients", {}, h("thead", {}, h("tr", {}, labels)), body)));

  function show(clients = []) {
    element.hidden = !clients.length;
    body.replaceChildren(...clients.map(clientRow));
  }

  return { element, show };
}

const clientRow = ({ role, name, host, pid, processes, version, settings, at, there }) =>
  h("tr", {},
    h("td.named", {}, role, name ? h("span.run", {}, name) : null, there ? null : h("span.badge", {}, role === "consumer" ? "not there" : "idle")),
    h("td", { "data-label": "Host" }, `${host}, pid ${pid}${processes > 1 ? ` and ${number(processes - 1)} more` : ""}`),
    h("td", { "data-label": "Version" }, version),
    h("td.nowrap", { "data-label": "Last seen" }, ago(at)),
    h("td", { "data-label": "Settings" }, settings || h("span.faint", {}, "defaults")));

const holderOf = ({ owner, holder }) =>
  holder ? `${[holder.names.join(" › "), holder.attempt].filter(Boolean).join(", ")},` : owner || "The holder";
const whoOf = (lease) => lease.holder?.names.at(-1) ?? lease.owner;

function progress({ count: all, settled, state }) {
  const words = state === "returning" ? "being returned" : `${number(settled)} of ${number(all)} settled`;
  const meter = h("progress", { max: Math.max(1, all), value: settled, "aria-label": words });
  return h("span.progress", {}, h("span", {}, count(all, "message")), meter, h("span.faint", {}, words));
}

function expiry(deadline) {
  if (deadline === null) return ["never", "calm"];
  const left = (deadline - Date.now()) / 1000;
  if (left <= 0) return ["expired, will be reclaimed", "late"];
  return [`in ${duration(left)}`, left < SOON_S ? "soon" : "calm"];
}
