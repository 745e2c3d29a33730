// Create elements and format numbers. Text is inserted as text: no code of the page sets HTML. What a reader could not
// see, such as a character that turns the order of the others, is shown escaped, as the command line shows it.

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  alert: "M12 8v5m0 3.5v.01M10.3 3.9 2.4 17.6A2 2 0 0 0 4.1 20.6h15.8a2 2 0 0 0 1.7-3L13.7 3.9a2 2 0 0 0-3.4 0z",
  apart: "M4 6h6M4 12h6M4 18h6M15 4v16M19 9v6",
  back: "m15 18-6-6 6-6",
  check: "m5 12.5 4.5 4.5L19 7.5",
  chevron: "m9 6 6 6-6 6",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3.5 2",
  down: "M12 4v11m0 0 4.5-4.5M12 15l-4.5-4.5M5 20h14",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  flag: "M6 21V4m0 1h11l-2 4 2 4H6",
  lock: "M7 11V8a5 5 0 0 1 10 0v3M6 11h12v9H6z",
  pause: "M9 5v14M15 5v14",
  play: "M7 5v14l11-7z",
  queue: "M4 4h16v4H4zM4 10h16v4H4zM4 16h9v4H4z",
  redrive: "M4 12a8 8 0 0 1 13.7-5.6L20 8.7M20 4v4.7h-4.7M20 12a8 8 0 0 1-13.7 5.6L4 15.3M4 20v-4.7h4.7",
  release: "M9 14 4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zm5.2-1.8L21 21",
  task: "M7 17 17 7M9 7h8v8",
  timeline: "M6 5h.01M6 12h.01M6 19h.01M10 5h10M10 12h10M10 19h6",
  trash: "M4 7h16M9 7V4h6v3M6.5 7l1 13h9l1-13M10 11v5m4-5v5",
};

const HIDDEN = /(?![\n\t ])[\p{C}\p{Z}]/gu;

/** A text with the characters escaped that have no shape of their own; line feeds and tabs stay. */
export const plain = (text) => text.replace(HIDDEN, (found) => {
  const code = found.codePointAt(0);
  const [mark, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${mark}${code.toString(16).padStart(digits, "0")}`;
});
const shown = (child) => (typeof child === "string" ? plain(child) : child);
const READ = new Set(["title", "aria-label"]);

/** `h("a.link", { href, onclick }, "text", child, …)`; attributes that are null or false are left out. */
export function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) set(element, key, value);
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false).map(shown));
  return element;
}

function set(element, key, value) {
  if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (value === true) element.setAttribute(key, "");
  else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, READ.has(key) ? shown(value) : value);
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.map(shown));
  return element;
}

export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);
export const short = (value) => (Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value));
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

/** Format seconds for people: `42 s`, `3 min`, `5 h 10 min`, `2 d 4 h`. */
export function duration(seconds) {
  const rest = Math.max(0, seconds);
  if (rest < 1) return "0 s";
  if (rest < 100) return `${Math.round(rest)} s`;
  const minutes = Math.round(rest / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${hours / 24} d`;
}

/** Format a span of time of any size: `250 ms`, `4.2 s`, `42 s`, `3 min`. */
export function span(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${seconds < 0.01 ? (seconds * 1000).toFixed(1) : Math.round(seconds * 1000)} ms`;
  return seconds < 10 ? `${Number(seconds.toFixed(1))} s` : duration(seconds);
}

export const ago = (ms) => `${duration((Date.now() - ms) / 1000)} ago`;

export function moment(ms) {
  return new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  const power = Math.min(3, Math.floor(Math.log10(size) / 3));
  return `${(size / 1000 ** power).toFixed(size < 10 * 1000 ** power ? 1 : 0)} ${["B", "kB", "MB", "GB"][power]}`;
}

export function perSecond(rate) {
  if (rate === null) return "–";
  const size = Math.abs(rate);
  if (size < 0.05) return "0/s";
  return `${rate > 0 ? "+" : "−"}${size < 10 ? size.toFixed(1) : short(Math.round(size))}/s`;
}
