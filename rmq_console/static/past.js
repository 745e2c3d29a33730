// The history of a queue: charts of the last hour, day or month, the marks of operators, and the numbers as a table.

import { api } from "./api.js";
import { ago, h, icon, moment, number, short, span } from "./dom.js";
import { graph } from "./graph.js";
import { empty } from "./parts.js";
import { askMark } from "./questions.js";
import { act } from "./verbs.js";

const SPANS = [["hour", "1 hour"], ["day", "24 hours"], ["month", "30 days"], ["range", "From … to"]];
const POINTS = 300; // more would only make the lines thicker
const ROWS = { hour: 60, day: 24, month: 30, range: 60 };
const RENEW_MS = 20_000;
const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 30, 60, 300, 900, 1800, 3600, 14400, 43200, 86400, 172800];
let chosen = "hour"; // kept until the page is reloaded

/** `where`: { connection, queue, discipline, lacks, mayEdit }. */
export function pastPanel({ where }) {
  const { connection, queue, discipline, lacks, mayEdit } = where;
  const choice = h("div.choice", { role: "group", "aria-label": "Time" }, SPANS.map(([id, label]) =>
    h("button.plain", { type: "button", "aria-pressed": String(id === chosen), "data-span": id, onclick: () => choose(id) }, label)));
  const mark = mayEdit ? h("button.plain", { type: "button", onclick: marking }, icon("flag"), "Mark…") : null;
  const [begin, end] = [["From", 1], ["To", 0]].map(([label, hours]) =>
    h("input", { type: "datetime-local", "aria-label": label, value: local(Date.now() - hours * 3_600_000), onchange: () => load().catch(failed) }));
  const range = h("span.range", { hidden: chosen !== "range" }, begin, "–", end);
  const time = h("span.faint.as-of");
  const body = h("div");
  const element = h("div", {}, h("div.actions", {}, choice, range, mark, time), body);
  let charts = [];
  let read = 0;

  function choose(id) {
    chosen = id;
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.span === id));
    range.hidden = id !== "range";
    load().catch(failed);
  }

  /** Say why there is nothing to draw, for example of a time that ends before it begins. */
  function failed(error) {
    for (const each of charts) each.stop();
    charts = [];
    body.replaceChildren(empty("clock", "No history of this time", error.message));
  }

  async function marking() {
    const text = await askMark();
    if (text) await act(async () => { await api.change(connection, "mark", queue, { text }); return "This moment is marked"; }, load);
  }

  async function load() {
    if (lacks.history) {
      choice.hidden = true;
      if (mark) mark.hidden = true;
      return body.replaceChildren(empty("queue", "No history", `Queues of the discipline “${discipline}” do not count what happens to their messages.`));
    }
    read = Date.now();
    const wanted = chosen;
    const asked = wanted === "range" ? { begin: Date.parse(begin.value), end: Date.parse(end.value) } : { span: wanted };
    if (Object.values(asked).some(Number.isNaN)) return undefined; // half of a time is filled in
    const found = await api.history(connection, queue, asked);
    if (wanted !== chosen) return undefined;
    const open = body.querySelector("details.numbers")?.open;
    for (const each of charts) each.stop();
    const marks = found.marks.map((each) => ({ ...each, at: Date.parse(each.at) }));
    charts = draw(found, marks);
    time.textContent = `as of ${new Date().toLocaleTimeString("en-GB")}`;
    return body.replaceChildren(...[h("div.charts", {}, charts.map((each) => each.element)), marked(marks), table(found, wanted, open)].filter(Boolean));
  }

  return { element, load, leave: () => charts.forEach((each) => each.stop()), tick: () => Date.now() - read > RENEW_MS && load().catch(() => {}) };
}

/** A time as an input of the kind `datetime-local` takes it. */
const local = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

function draw({ seconds, columns }, marks) {
  const size = Math.max(1, Math.ceil(columns.at.length / POINTS));
  const at = grouped(columns.at.map((text) => Date.parse(text)), size, (values) => values[0]);
  const unit = seconds === 3600 ? "hour" : "minute";
  const over = Date.parse(columns.at.at(-1)) + seconds * 1000 <= Date.now();
  const rates = (...names) => grouped((over ? (all) => all : finished)(added(names.map((name) => columns[name]))), size, mean);
  const most = (name) => grouped(columns[name], size, (values) => largest(values));
  const counts = (title, lines) => graph({ title, lines, at, marks, show: (value) => short(Number(value.toFixed(value < 10 ? 1 : 0))) });
  const times = (title, lines) => graph({ title, lines, at, marks, show: span, least: 0.004, steps: SECONDS });
  return [
    counts(`Messages per ${unit}`, [["published", "Published", rates("published")], ["claimed", "Claimed", rates("claimed")], ["acked", "Acked", rates("acked")]]),
    counts(`Failures per ${unit}`, [["failed", "Failed or expired", rates("nacked", "reclaimed")], ["dead", "Dead letters", rates("dead")], ["redriven", "Redriven", rates("redriven")]]),
    counts("Ready", [["ready", "Most ready messages", most("ready_max")]]),
    times("Age of the oldest ready message", [["oldest", "Oldest", most("oldest_age_max")]]),
    times("From published to claimed", [["p50", "Half of them within", most("wait_p50")], ["p95", "95 % within", most("wait_p95")]]),
    times("From claimed to settled", [["p50", "Half of them within", most("processing_p50")], ["p95", "95 % within", most("processing_p95")]]),
  ];
}

/** Leave out the minute or hour that is not over, which would look like a collapse, unless nothing else is known. */
const finished = (values) => (sum(values.slice(0, -1)) ? [...values.slice(0, -1), null] : values);

function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? sum(known) / known.length : null;
}

const sum = (values) => values.reduce((whole, value) => whole + (value ?? 0), 0);
const added = (lists) => lists[0].map((_, n) => sum(lists.map((list) => list[n])));

function largest(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? Math.max(...known) : null;
}

/** Put neighbours together, so that the last group is whole: it is the newest. */
function grouped(values, size, join) {
  const first = values.length % size;
  const made = first ? [join(values.slice(0, first))] : [];
  for (let n = first; n < values.length; n += size) made.push(join(values.slice(n, n + size)));
  return made;
}

function marked(marks) {
  if (!marks.length) return null;
  const rows = marks.toReversed().map((mark) => h("li", {}, h("span.when", { title: ago(mark.at) }, moment(mark.at)), h("strong", {}, mark.said), h("span.faint", {}, `by ${mark.by}`)));
  return h("section.marks-list", {}, h("h3", {}, "Marks"), h("ul", {}, rows));
}

const COLUMNS = [
  ["Published", ["published"], sum, number], ["Claimed", ["claimed"], sum, number], ["Acked", ["acked"], sum, number],
  ["Failed", ["nacked", "reclaimed"], sum, number], ["Dead", ["dead"], sum, number], ["Ready", ["ready_max"], largest, number],
  ["Oldest", ["oldest_age_max"], largest, span], ["Wait p50", ["wait_p50"], largest, span], ["Wait p95", ["wait_p95"], largest, span],
  ["Work p50", ["processing_p50"], largest, span], ["Work p95", ["processing_p95"], largest, span],
];

function table({ columns, seconds }, chosenSpan, open) {
  const size = Math.max(1, Math.round(columns.at.length / ROWS[chosenSpan]));
  const times = grouped(columns.at, size, (values) => values[0]).map((text) => moment(Date.parse(text)));
  const cells = COLUMNS.map(([, names, join, show]) => grouped(names.length > 1 ? added(names.map((name) => columns[name])) : columns[names[0]], size, join).map((value) => (value === null ? "–" : show(value))));
  const rows = times.map((text, n) => h("tr", {}, h("th", { scope: "row" }, text), cells.map((column, at) => h("td.right", { "data-label": COLUMNS[at][0] }, column[n])))).toReversed();
  const head = h("tr", {}, h("th", { scope: "col" }, "From"), COLUMNS.map(([label]) => h("th.right", { scope: "col" }, label)));
  const every = { 60: "a minute", 3600: "an hour", 86400: "a day" }[size * seconds] ?? span(size * seconds);
  return h("details.numbers", { open: Boolean(open) }, h("summary", {}, "The same as a table"),
    h("p.faint", {}, `Each row covers ${every}. Times are the largest of its minutes or hours.`),
    h("div.card.scroll", {}, h("table", {}, h("thead", {}, head), h("tbody", {}, rows))));
}
