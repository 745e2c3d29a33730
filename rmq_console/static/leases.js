// The leases of a queue: holder, deadline, progress and messages. The countdowns keep running between two polls.

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
    written = now;
    tick();
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

  return { element, show, tick };
}

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
