// The leases of a queue: holder, deadline and progress. The countdowns keep running between two polls.

import { api } from "./api.js";
import { askRelease } from "./dialogs.js";
import { ago, count, duration, h, icon, number } from "./dom.js";
import { owner, toast } from "./parts.js";

const SOON_S = 15;

export function leaseTable({ connection, queue, mayEdit, onChange }) {
  const body = h("tbody");
  const labels = ["Held by", "Messages", "Claimed", "Expires"].map((label) => h("th", { scope: "col" }, label));
  const head = h("tr", {}, labels, mayEdit ? h("th", { "aria-label": "Release" }) : null);
  const element = h("div.card.scroll", {}, h("table.leases", {}, h("thead", {}, head), body));
  let leases = [];
  let written = "";

  function show(next) {
    leases = next;
    const now = JSON.stringify(leases.map(({ deadline, ...rest }) => rest));
    if (now !== written) body.replaceChildren(...leases.map((lease) => row(lease, mayEdit ? button(lease) : null)));
    written = now;
    tick();
  }

  function tick() {
    leases.forEach((lease, at) => {
      const cell = body.children[at].querySelector(".expires");
      const [text, kind] = expiry(lease.deadline);
      cell.toggleAttribute("data-label", kind !== "late");
      if (kind !== "late") cell.dataset.label = "Expires";
      cell.replaceChildren(h(`span.expiry.${kind}`, {}, text));
    });
  }

  function button(lease) {
    const who = lease.holder?.names.at(-1) ?? lease.owner;
    return h("button.plain", { type: "button", "aria-label": `Release the lease of ${who}`, onclick: () => release(lease) },
      icon("release"), "Release");
  }

  async function release(lease) {
    if (!(await askRelease(queue, lease))) return;
    try {
      const { released } = await api.release(connection, queue, lease.id, lease.owner);
      toast(`${count(released, "message")} ${released === 1 ? "is" : "are"} ready again`);
    } catch (error) {
      toast(error.message, "failed");
    }
    onChange();
  }

  return { element, show, tick };
}

function row(lease, button) {
  const again = lease.takeovers ? h("span.badge", { title: "Claimed again under the same id" }, count(lease.takeovers, "takeover")) : null;
  return h("tr", {},
    h("td", {}, owner(lease), again, lease.holder ? null : h("span.run", {}, lease.id)),
    h("td", {}, progress(lease), lease.isolation ? h("p.apart", {}, h("span.badge.isolated", {}, "tried apart"), lease.isolation) : null),
    h("td", { "data-label": "Claimed", title: new Date(lease.claimed_at).toLocaleString("en-GB") }, ago(lease.claimed_at)),
    h("td.expires"),
    button ? h("td.right", {}, button) : null);
}

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
