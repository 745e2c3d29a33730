// Who holds messages of a queue, until when, and how far they are. The times run by themselves between two answers.

import { ago, count, duration, h, number } from "./dom.js";
import { owner } from "./parts.js";

const SOON_S = 15;

export function leaseTable(base) {
  const body = h("tbody");
  const head = h("tr", {}, ["Held by", "Messages", "Claimed", "Expires"].map((label) => h("th", { scope: "col" }, label)));
  const element = h("div.card.scroll", {}, h("table.leases", {}, h("thead", {}, head), body));
  let leases = [];
  let written = "";

  function show(next) {
    leases = next;
    const now = JSON.stringify(leases.map(({ deadline, ...rest }) => rest));
    if (now !== written) body.replaceChildren(...leases.map((lease) => row(base, lease)));
    written = now;
    tick();
  }

  function tick() {
    leases.forEach((lease, at) => {
      const cell = body.children[at].lastElementChild;
      const [text, kind] = expiry(lease.deadline);
      cell.replaceChildren(h(`span.expiry.${kind}`, {}, text));
    });
  }

  return { element, show, tick };
}

function row(base, lease) {
  const again = lease.takeovers ? h("span.badge", { title: "Claimed again under the same id" }, count(lease.takeovers, "takeover")) : null;
  return h("tr", {},
    h("td", {}, owner(base, lease), again, lease.holder ? null : h("span.run", {}, lease.id)),
    h("td", {}, progress(lease)),
    h("td", { title: new Date(lease.claimed_at).toLocaleString("en-GB") }, ago(lease.claimed_at)),
    h("td"));
}

function progress({ count: all, settled, state }) {
  const words = state === "returning" ? "being given back" : `${number(settled)} of ${number(all)} settled`;
  const meter = h("progress", { max: Math.max(1, all), value: settled, "aria-label": words });
  return h("span.progress", {}, h("span", {}, count(all, "message")), meter, h("span.faint", {}, words));
}

function expiry(deadline) {
  if (deadline === null) return ["never", "calm"];
  const left = (deadline - Date.now()) / 1000;
  if (left <= 0) return ["expired, will be reclaimed", "late"];
  return [`in ${duration(left)}`, left < SOON_S ? "soon" : "calm"];
}
