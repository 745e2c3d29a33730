// Lines over time, drawn as SVG: a sparkline for a row, and, for a queue, a chart with axes and a cursor.

import { duration, h, number, short, svg } from "./dom.js";

const PAD = { left: 46, right: 14, top: 12, bottom: 24 };
const HEIGHT = 200;
const LINES = [
  ["ready", "Ready"],
  ["leased", "Leased"],
  ["delayed", "Delayed"],
];

const path = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

export function sparkline(samples, line = "ready", width = 96, height = 26) {
  const drawing = svg("svg", { class: `spark ${line}`, width, height, viewBox: `0 0 ${width} ${height}` });
  drawing.setAttribute("aria-hidden", "true");
  const recent = samples.slice(-60);
  if (recent.length < 2) return drawing;
  const top = Math.max(1, ...recent.map((sample) => sample[line]));
  const from = recent[0].at;
  const span = recent.at(-1).at - from || 1;
  const y = (value) => height - 3 - (value / top) * (height - 6); // the axis starts at zero, so that a change from 1000 to 1001 draws no peak
  const points = recent.map((sample) => [2 + ((sample.at - from) / span) * (width - 4), y(sample[line])]);
  drawing.append(svg("path", { class: "area", d: `${path(points)}L${width - 2} ${height}L2 ${height}Z` }));
  drawing.append(svg("path", { class: "line", d: path(points) }));
  return drawing;
}

/** A chart that `draw(samples)` redraws; it adapts to its width, and shows the values under the pointer. */
export function chart() {
  const drawing = svg("svg", { class: "chart", role: "img", "aria-label": "Messages over time" });
  const tip = h("div.tip", { hidden: true });
  const element = h("div.chart-box", {}, drawing, tip);
  let samples = [];
  let place = null;
  const draw = (next = samples) => {
    samples = next;
    place = scaled(samples, element.clientWidth || 600);
    drawing.replaceChildren(...axes(place), ...lines(samples, place), ...ends(samples, place));
    drawing.setAttribute("viewBox", `0 0 ${place.width} ${HEIGHT}`);
  };
  drawing.addEventListener("pointermove", (event) => point(event, samples, place, drawing, tip));
  drawing.addEventListener("pointerleave", () => {
    tip.hidden = true;
    drawing.querySelector(".cross")?.remove();
  });
  new ResizeObserver(() => draw()).observe(element);
  return { element, draw };
}

export function legend() {
  return h("div.legend", {}, LINES.map(([line, label]) => h(`span.key.${line}`, {}, label)));
}

function scaled(samples, width) {
  const to = samples.at(-1)?.at ?? Date.now();
  const from = Math.min(samples[0]?.at ?? to, to - 60_000);
  const most = Math.max(4, ...samples.flatMap((sample) => LINES.map(([line]) => sample[line])));
  const step = nice(most / 4);
  const top = Math.ceil(most / step) * step;
  return {
    width, from, to, step, top,
    x: (at) => PAD.left + ((at - from) / (to - from)) * (width - PAD.left - PAD.right),
    y: (value) => HEIGHT - PAD.bottom - (value / top) * (HEIGHT - PAD.top - PAD.bottom),
  };
}

function nice(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].map((times) => times * power).find((size) => size >= step);
}

function axes({ width, from, to, step, top, x, y }) {
  const drawn = [];
  for (let value = 0; value <= top + step / 2; value += step) {
    drawn.push(svg("path", { class: "grid", d: `M${PAD.left} ${y(value)}H${width - PAD.right}` }));
    drawn.push(svg("text", { class: "label y", x: PAD.left - 8, y: y(value) + 4 }, short(value)));
  }
  const minutes = (to - from) / 60_000;
  const every = [0.25, 0.5, 1, 2, 5].find((size) => minutes / size <= 6) ?? 5;
  for (let back = 0; back <= minutes; back += every) {
    const text = back ? `−${duration(back * 60)}` : "now";
    drawn.push(svg("text", { class: "label x", x: x(to - back * 60_000), y: HEIGHT - 6 }, text));
  }
  return drawn;
}

/** A line that is always zero is not drawn: it would only cover the axis or another line. */
const drawnAtAll = (samples, line) => line === "ready" || samples.some((sample) => sample[line] > 0);

function lines(samples, { x, y }) {
  if (samples.length < 2) return [];
  return LINES.filter(([line]) => drawnAtAll(samples, line)).flatMap(([line]) => {
    const points = samples.map((sample) => [x(sample.at), y(sample[line])]);
    const under = `L${points.at(-1)[0]} ${y(0)}L${points[0][0]} ${y(0)}Z`;
    const area = svg("path", { class: `area ${line}`, d: path(points) + under });
    return [...(line === "ready" ? [area] : []), svg("path", { class: `line ${line}`, d: path(points) })];
  });
}

function ends(samples, { x, y }) {
  const last = samples.at(-1);
  if (!last) return [];
  return LINES.filter(([line]) => drawnAtAll(samples, line)).map(([line]) => svg("circle", { class: `end ${line}`, cx: x(last.at), cy: y(last[line]), r: 3 }));
}

function point(event, samples, place, drawing, tip) {
  if (!samples.length) return;
  const box = drawing.getBoundingClientRect();
  const at = place.from + ((event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right)) * (place.to - place.from);
  const near = samples.reduce((best, sample) => (Math.abs(sample.at - at) < Math.abs(best.at - at) ? sample : best));
  drawing.querySelector(".cross")?.remove();
  drawing.append(svg("path", { class: "cross", d: `M${place.x(near.at)} ${PAD.top}V${HEIGHT - PAD.bottom}` }));
  tip.replaceChildren(
    h("strong", {}, new Date(near.at).toLocaleTimeString("en-GB")),
    ...LINES.map(([line, label]) => h(`span.key.${line}`, {}, `${label} ${number(near[line])}`)),
  );
  tip.hidden = false;
  const x = place.x(near.at);
  tip.style.left = `${x > place.width - 170 ? x - 150 : x + 12}px`;
}
