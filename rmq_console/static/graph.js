// A chart of a history: lines over minutes or hours, from zero, with the marks of operators as vertical lines.

import { h, svg } from "./dom.js";

const HEIGHT = 170;
const PAD = { left: 58, right: 12, top: 22, bottom: 22 };
const LABEL_PX = 7;

/**
 * Return a chart. `lines`: [class, label, values] with null where nothing is known; `at`: the times in ms of the points;
 * `show(value)` formats a value; `least`: the smallest top of the axis.
 */
export function graph({ title, lines, at, marks, show, least = 4, steps }) {
  const drawing = svg("svg", { class: "chart past", role: "img", "aria-label": summary(title, lines, show) });
  const tip = h("div.tip", { hidden: true });
  const legend = h("div.legend", {}, lines.map(([kind, label]) => h(`span.key.${kind}`, {}, label)));
  const box = h("div.chart-box", {}, drawing, tip);
  const element = h("figure.card.chart-card", {}, h("figcaption.chart-head", {}, h("h3", {}, title), legend), box);
  let place = null;
  function draw() {
    place = scaled(lines, at, box.clientWidth || 480, least, steps);
    drawing.setAttribute("viewBox", `0 0 ${place.width} ${HEIGHT}`);
    drawing.replaceChildren(...axes(place, at, show), ...marking(place, marks), ...lines.flatMap((line) => drawn(line, at, place)));
  }
  drawing.addEventListener("pointermove", (event) => point(event, { at, lines, marks, show, place, drawing, tip }));
  drawing.addEventListener("pointerleave", () => {
    tip.hidden = true;
    drawing.querySelector(".cross")?.remove();
  });
  const watch = new ResizeObserver(() => requestAnimationFrame(draw));
  watch.observe(box);
  draw();
  return { element, stop: () => watch.disconnect() };
}

function summary(title, lines, show) {
  const last = lines.map(([, label, values]) => `${label} ${show(values.findLast((value) => value !== null) ?? 0)}`);
  return `${title}; last: ${last.join(", ")}`;
}

function scaled(lines, at, width, least, steps) {
  const most = Math.max(least, ...lines.flatMap(([, , values]) => values.map((value) => value ?? 0)));
  const step = steps ? steps.find((size) => size >= most / 4) ?? nice(most / 4) : nice(most / 4);
  const top = Math.ceil(most / step) * step;
  const [from, last] = [at[0], at.at(-1)];
  const to = Math.max(last, Math.min(Date.now(), 2 * last - (at.at(-2) ?? last))); // the last point is the beginning of the time that goes on
  return {
    width, from, to, step, top,
    x: (moment) => PAD.left + ((moment - from) / (to - from || 1)) * (width - PAD.left - PAD.right),
    y: (value) => HEIGHT - PAD.bottom - (value / top) * (HEIGHT - PAD.top - PAD.bottom),
  };
}

function nice(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].map((times) => times * power).find((size) => size >= step * 0.999);
}

function axes({ width, step, top, x, y, from, to }, at, show) {
  const made = [];
  for (let value = 0; value <= top + step / 2; value += step) {
    made.push(svg("path", { class: "grid", d: `M${PAD.left} ${y(value)}H${width - PAD.right}` }));
    made.push(svg("text", { class: "label y", x: PAD.left - 8, y: y(value) + 4 }, show(value)));
  }
  for (const moment of ticks(from, to, width)) made.push(svg("text", { class: "label x", x: x(moment), y: HEIGHT - 5 }, timeOf(moment, to - from)));
  return made;
}

const HOUR = 3_600_000;
const TICKS = [10 / 60, 0.5, 1, 3, 6, 12, 24, 72, 168].map((hours) => hours * HOUR);

/** Round times that are far enough apart to be read. */
function ticks(from, to, width) {
  const room = Math.max(2, Math.floor((width - PAD.left) / 84));
  const every = TICKS.find((size) => (to - from) / size <= room) ?? TICKS.at(-1);
  const shift = new Date(from).getTimezoneOffset() * 60_000;
  const first = Math.ceil((from - shift) / every) * every + shift;
  const found = [];
  for (let moment = first; moment <= to; moment += every) found.push(moment);
  return found;
}

function timeOf(moment, span) {
  const date = new Date(moment);
  return span > 48 * HOUR
    ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })
    : date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** Marks that are inside the chart; a text is left out where it would cover the one before. */
function marking({ x, from, to, width }, marks) {
  let free = 0;
  return marks.filter((mark) => mark.at >= from && mark.at <= to).flatMap((mark) => {
    const left = x(mark.at);
    const text = mark.said.length > 22 ? `${mark.said.slice(0, 21)}…` : mark.said;
    const wide = text.length * LABEL_PX;
    const start = left + wide > width ? left - wide : left + 3;
    const shown = start >= free;
    if (shown) free = start + wide;
    return [
      svg("path", { class: "mark-line", d: `M${left} ${PAD.top - 8}V${HEIGHT - PAD.bottom}` }),
      ...(shown ? [svg("text", { class: "label mark-text", x: start, y: 11 }, text)] : []),
    ];
  });
}

function drawn([kind, , values], at, { x, y }) {
  const parts = [];
  let points = [];
  const end = () => {
    if (points.length === 1) parts.push(svg("circle", { class: `end ${kind}`, cx: points[0][0], cy: points[0][1], r: 2.5 }));
    if (points.length > 1) parts.push(svg("path", { class: `line ${kind}`, d: points.map(([px, py], n) => `${n ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("") }));
    points = [];
  };
  values.forEach((value, n) => (value === null ? end() : points.push([x(at[n]), y(value)])));
  end();
  return parts;
}

function point(event, { at, lines, marks, show, place, drawing, tip }) {
  const box = drawing.getBoundingClientRect();
  const wanted = place.from + ((event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right)) * (place.to - place.from);
  const near = at.reduce((best, moment, n) => (Math.abs(moment - wanted) < Math.abs(at[best] - wanted) ? n : best), 0);
  const step = at.length > 1 ? at[1] - at[0] : 60_000;
  drawing.querySelector(".cross")?.remove();
  drawing.append(svg("path", { class: "cross", d: `M${place.x(at[near])} ${PAD.top}V${HEIGHT - PAD.bottom}` }));
  tip.replaceChildren(
    h("strong", {}, new Date(at[near]).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" })),
    ...lines.map(([kind, label, values]) => h(`span.key.${kind}`, {}, `${label} ${values[near] === null ? "–" : show(values[near])}`)),
    ...marks.filter((mark) => Math.abs(mark.at - at[near]) <= step).map((mark) => h("span.tip-mark", {}, mark.said)));
  tip.hidden = false;
  const left = place.x(at[near]);
  tip.style.left = `${left > place.width - 170 ? left - 150 : left + 12}px`;
}
