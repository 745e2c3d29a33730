// Start the page, follow its address, poll for new numbers every few seconds, and show when a poll fails.

import { api } from "./api.js";
import { asking, showKeys } from "./dialogs.js";
import { duration, h, icon } from "./dom.js";
import { overview } from "./overview.js";
import { empty, toast, walk } from "./parts.js";
import { queueView } from "./queue.js";
import { airflow, followTheme } from "./theme.js";
import { words } from "./words.js";

const EVERY_MS = 2_500;
const SLOWEST_MS = 15_000;
const TABS = ["leases", "ready", "delayed", "dead", "search", "history", "groups", "shards", "why"];
const bar = document.getElementById("bar");
const banner = document.getElementById("banner");
const place = document.getElementById("view");
const state = { known: [], hidden: false, user: "", connection: "", server: "", live: true, failures: 0, shown: false, seen: 0, next: 0 };
let route = {};
let view = null;
let timer = 0;
let turn = 0;

const hrefOf = (connection, name, tab, rest) =>
  `#/${[connection, name, tab, rest].filter((part) => part !== undefined).map(encodeURIComponent).join("/")}`;

function parse() {
  const [connection, name, tab, rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const known = state.known.map(({ id }) => id);
  const fallback = known.includes(localStorage.getItem("rmq.connection")) ? localStorage.getItem("rmq.connection") : known[0];
  return { connection: connection || fallback, name: name || undefined, tab: TABS.includes(tab) ? tab : "leases", rest };
}

function navigate() {
  view?.leave?.();
  route = parse();
  rememberAddress();
  if (!state.known.length) return showNoConnection();
  localStorage.setItem("rmq.connection", route.connection);
  const { connection, name, tab, rest } = route;
  const common = { connection, refresh };
  view = name
    ? queueView({ ...common, name, tab, rest, mayRead: may("may_read", connection), mayEdit: may("may_edit", connection), hrefOf: (...parts) => hrefOf(connection, ...parts) })
    : overview({ ...common, hrefOf: (queue) => hrefOf(connection, queue), onServer: (server) => (state.server = server) });
  place.replaceChildren(view.element);
  place.classList.add("waiting");
  place.focus({ preventScroll: true }); // so that keys work at once, starting at the top
  if (state.connection !== connection) state.server = "";
  Object.assign(state, { connection, failures: 0, shown: false });
  banner.replaceChildren();
  showBar();
  refresh();
}

/** Copy the frame's address into that of Airflow's page, which Airflow itself does only when it loads the page. */
function rememberAddress() {
  const outer = airflow();
  if (!outer || !outer.location.pathname.endsWith(location.pathname)) return;
  outer.history.replaceState(outer.history.state, "", outer.location.pathname + location.hash);
}

const may = (right, connection) => state.known.some((each) => each.id === connection && each[right]);

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  const asked = view;
  try {
    await asked.refresh();
    if (mine !== turn) return;
    Object.assign(state, { failures: 0, shown: true, seen: Date.now() });
    banner.replaceChildren();
    if (asked.element && place.firstChild !== asked.element) place.replaceChildren(asked.element);
    place.classList.remove("waiting", "stale");
  } catch (error) {
    if (mine !== turn) return;
    if (!(error instanceof Error && "status" in error)) throw error;
    state.failures += 1;
    fail(error);
  }
  const pause = state.failures ? Math.min(SLOWEST_MS, EVERY_MS * 2 ** (state.failures - 1)) : EVERY_MS;
  state.next = Date.now() + pause;
  if (state.live && !document.hidden) timer = setTimeout(refresh, pause);
  showStatus();
}

function fail(error) {
  const unreachable = error.status === 503 || error.status === 0;
  const title = error.status === 503 ? "Redis does not answer" : unreachable ? "The server of this page does not answer" : "This cannot be shown";
  const text = error.message.replace("Redis did not answer: ", "");
  const note = h("span.retry", {}, "");
  const again = h("button.plain", { type: "button", onclick: refresh }, "Try again");
  place.classList.remove("waiting");
  place.classList.toggle("stale", state.shown);
  if (state.shown) {
    const since = `${text}. The numbers are from ${new Date(state.seen).toLocaleTimeString("en-GB")}.`;
    banner.replaceChildren(h("div.alert", {}, icon("alert"), h("div", {}, h("strong", {}, title), h("p", {}, since), note), again));
  } else {
    banner.replaceChildren();
    place.replaceChildren(empty("alert", title, text, again, note));
  }
}

function showNoConnection() {
  view = { element: null, refresh: async () => {}, keys: {} };
  bar.replaceChildren(h("h1", {}, "Queues"));
  place.replaceChildren(state.hidden
    ? empty("lock", "No connection that you may read", words.hidden)
    : empty("queue", "No queue connection yet",
      words.nothing[0], h("pre.code", {}, words.nothing[1])));
}

function showBar() {
  const { connection, name } = route;
  const choice = h("select", { "aria-label": "Connection", onchange: (event) => (location.hash = hrefOf(event.target.value)) },
    state.known.map(({ id }) => h("option", { value: id, selected: id === connection }, id)));
  if (!state.known.some(({ id }) => id === connection)) choice.append(h("option", { selected: true }, connection));
  const crumbs = name
    ? [h("a", { href: hrefOf(connection) }, icon("back"), "All queues")]
    : [h("span.server", { id: "server" }, "")];
  bar.replaceChildren(
    h("div.crumbs", {}, choice, crumbs),
    h("div.tools", {}, live(), leave(), h("button.quiet", { type: "button", title: "Keys", onclick: showKeys, "aria-label": "Keys" }, "?")));
  showStatus();
}

/** The button that logs the user out, where the host has a login of its own. */
function leave() {
  if (!words.logout) return null;
  const out = async () => {
    try {
      await api.leave(words.logout);
      location.reload();
    } catch (error) {
      toast(error.message, "failed");
    }
  };
  return h("button.quiet.leave", { type: "button", title: `Logged in as ${state.user}`, onclick: out }, "Log out");
}

function live() {
  return h(`button.quiet.live${state.live ? ".on" : ""}`, { type: "button", "aria-pressed": String(state.live), onclick: pauseOrGo },
    h("span.dot"), state.live ? "Live" : "Paused");
}

function pauseOrGo() {
  state.live = !state.live;
  clearTimeout(timer);
  showBar();
  if (state.live) refresh();
}

function showStatus() {
  const server = document.getElementById("server");
  if (server) server.textContent = state.server;
  const left = Math.max(0, state.next - Date.now()) / 1000;
  const retry = document.querySelector(".retry");
  if (retry) retry.textContent = state.live ? `Next try in ${duration(Math.ceil(left))}` : "Paused";
  document.querySelector(".live")?.classList.toggle("failing", state.failures > 0);
}

function onKey(event) {
  if (asking() || event.ctrlKey || event.metaKey || event.altKey || !view) return;
  const typing = event.target.matches?.("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && typing) return event.target.blur();
  if (typing || walk(event)) return typing ? undefined : event.preventDefault();
  const general = { r: renew, p: pauseOrGo, "?": showKeys, Escape: () => route.name && (location.hash = hrefOf(route.connection)) };
  const action = view.keys?.[event.key] ?? general[event.key];
  if (!action) return undefined;
  event.preventDefault();
  return action();
}

async function renew() {
  await refresh();
  await view.reload?.();
}

async function boot() {
  followTheme();
  place.classList.add("waiting");
  try {
    const found = await api.connections();
    Object.assign(state, { known: found.connections, hidden: found.hidden, user: found.user });
    Object.assign(words, found.words);
  } catch (error) {
    banner.replaceChildren(h("div.alert", {}, icon("alert"), h("div", {}, h("strong", {}, "This page cannot be shown"), h("p", {}, error.message))));
    return;
  } finally {
    place.classList.remove("waiting");
  }
  window.addEventListener("hashchange", navigate);
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", () => !document.hidden && state.live && view && refresh());
  setInterval(() => {
    showStatus();
    view?.tick?.();
  }, 1000);
  navigate();
}

boot();
