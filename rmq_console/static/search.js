// Search of one state of a queue or of all, page by page until the end or until the user stops it. It claims nothing.

import { api } from "./api.js";
import { count, h, icon, number, plain } from "./dom.js";
import { messageHead, messageRows } from "./message.js";
import { empty, toast } from "./parts.js";
import { matchingButtons } from "./reasons.js";

const ANY = "any";
const STATES = [[ANY, "All states"], ["dead", "Dead letters"], ["ready", "Ready"], ["isolated", "Isolated"], ["delayed", "Delayed"], ["leased", "Leased"]];
const FIELDS = {
  text: ["Payload contains", "part of the payload, such as order 4711"],
  message_id: ["Id", "the whole id of a message"],
  header: ["Header", "name, or name=value"],
  reason: ["Reason of the failure", "a reason; * stands for any text, numbers do not matter"],
  group: ["Group of reasons", "a group, exactly as the dead letters are grouped"],
  dedup_key: ["Deduplication key", "the key that the queue's settings give its messages"],
};
const LISTED = 200;

/** `where`: { connection, queue, verbs, lacks, mayEdit, hrefOf }; `asked`: the search in the page's address. */
export function searchPanel({ where, asked, onChange }) {
  const { connection, queue, lacks, hrefOf } = where;
  const given = new URLSearchParams(asked ?? "");
  const state = h("select", { "aria-label": "In" }, STATES.map(([id, label]) => h("option", { value: id, selected: id === given.get("in") }, label)));
  const field = h("select", { "aria-label": "By" }, Object.entries(FIELDS).map(([id, [label]]) => h("option", { value: id, selected: id === given.get("by") }, label)));
  const input = h("input", { type: "search", "aria-label": "For", spellcheck: "false", value: given.get("for") ?? "" });
  const go = h("button.primary", { type: "submit" }, icon("search"), "Search");
  const stop = h("button.plain", { type: "button", hidden: true, onclick: () => (running = 0) }, "Stop");
  const explain = h("button.plain", { type: "button", onclick: () => input.value.trim() && (location.hash = hrefOf(queue, "why", input.value.trim())) }, icon("timeline"), "Why?");
  const form = h("form.search-form", {}, h("label", {}, "In", state), h("label", {}, "by", field), input, go, stop, explain);
  const meter = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Messages looked at" });
  const status = h("p.found", { role: "status" });
  const deeds = h("span.deeds");
  const results = h("div");
  const element = h("div", {}, form, h("div.search-line", {}, meter, status, deeds), results);
  let running = 0;

  function fit() {
    input.placeholder = FIELDS[field.value][1];
    explain.hidden = field.value !== "message_id" || Boolean(lacks.why);
  }
  field.addEventListener("change", fit);
  state.addEventListener("change", () => status.textContent && input.value.trim() && form.requestSubmit());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!input.value.trim()) return input.focus();
    const text = new URLSearchParams({ in: state.value, by: field.value, for: input.value }).toString();
    const href = hrefOf(queue, "search", text);
    if (location.hash !== href) history.replaceState(history.state, "", href); // so that a reload searches again
    return run(state.value, { [field.value]: input.value });
  });
  fit();

  async function run(target, match) {
    const mine = (running = Date.now() + Math.random());
    const seen = { scanned: 0, total: 0, found: 0, moved: false, states: [] };
    const targets = target === ANY ? STATES.map(([id]) => id).filter((id) => id !== ANY) : [target];
    results.replaceChildren();
    deeds.replaceChildren();
    stop.hidden = meter.hidden = false;
    try {
      for (const each of targets) if (running === mine) await look(mine, each, match, seen, targets.length > 1);
      if (!seen.found && running === mine) results.replaceChildren(empty("search", "Nothing found", nothing(target, match)));
      if (match.message_id && seen.found === 1) results.querySelector("tr[tabindex]").click();
      tell(seen, running === mine ? "done" : "stopped");
      const only = seen.states.length === 1 ? seen.states[0] : null;
      if (only) deeds.replaceChildren(...matchingButtons({ ...where, target: only, match, what: what(match), onChange: changed }));
    } catch (error) {
      toast(error.message, "failed");
      status.textContent = plain(error.message);
    }
    if (running === mine || !running) stop.hidden = meter.hidden = true;
  }

  /** Search one state to its end, add what it finds to `seen` and list it. */
  async function look(mine, target, match, seen, several) {
    const body = h("tbody");
    const heading = several ? h("h3.searched", {}, STATES.find(([id]) => id === target)[1]) : null;
    const list = h("div", { hidden: true }, heading, h("div.card.scroll", {}, h(`table.messages.${target}`, {}, messageHead(target), body)));
    results.append(list);
    const before = { ...seen };
    let after = null;
    do {
      const page = await api.search(connection, queue, { target, where: match, after });
      if (running !== mine) return;
      after = page.after;
      for (const message of page.messages.slice(0, Math.max(0, LISTED - seen.found))) body.append(...messageRows(target, message, { ...where, changed, around: match.text }));
      seen.moved ||= page.moved;
      seen.found += page.messages.length;
      seen.scanned = before.scanned + page.scanned;
      seen.total = before.total + Math.max(page.total, page.scanned);
      list.hidden = !body.children.length;
      if (page.messages.length && seen.states.at(-1) !== target) seen.states.push(target);
      meter.value = seen.total ? seen.scanned / seen.total : 1;
      tell(seen, "");
    } while (after !== null);
  }

  function tell({ scanned, total, found, moved }, how) {
    const seen = `${number(scanned)} of ${count(total, "message")} looked at`;
    const listed = found > LISTED ? `; the first ${LISTED} are listed` : "";
    const shaky = moved ? " Messages moved meanwhile: some may be missing or listed twice." : "";
    status.textContent = `${count(found, "message")} found${listed}; ${seen}${how === "stopped" ? ", then stopped" : ""}.${shaky}`;
  }

  /** What to try next. */
  function nothing(target, { text, reason }) {
    const which = target === ANY ? "message" : target === "dead" ? "dead letter" : `${target} message`;
    const where = target === ANY ? "It may have been acked already: search by Id, then Why?." : "It may be in another state, or done.";
    const how = reason && !reason.includes("*") ? ` A reason matches as a whole: try *${reason}*.` : text ? " JSON is stored without spaces, as in \"customer\":3." : "";
    return `No ${which} matches. ${where}${how}`;
  }
  const what = (match) => Object.entries(match).map(([name, value]) => (["reason", "group"].includes(name) ? value : `${FIELDS[name][0]}: ${value}`)).join("\n");

  async function changed() {
    onChange();
    await run(state.value, { [field.value]: input.value });
  }

  return {
    element,
    start: () => {
      if (lacks.search) return element.replaceChildren(empty("search", "No search", lacks.search));
      if (input.value.trim()) return run(state.value, { [field.value]: input.value });
      return input.focus();
    },
    leave: () => (running = 0),
  };
}
