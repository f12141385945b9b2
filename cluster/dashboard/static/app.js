// Assembles the page: views, keys, the stream of readings.

import { follow } from "./api.js";
import { capacityView } from "./capacity.js";
import { changeView } from "./change.js";
import { clientsView } from "./clients.js";
import { clusterView } from "./cluster.js";
import { updateDetail } from "./detail.js";
import { el, fill, setText } from "./dom.js";
import { Clients, Past } from "./series.js";

const VIEWS = { clients: clientsView, cluster: clusterView, capacity: capacityView, change: changeView };
const main = document.getElementById("main");
const notice = document.getElementById("notice");
const line = document.getElementById("cluster-line");
const freezeButton = document.getElementById("freeze");
const past = new Past();
const clients = new Clients();

let view = null;
let sections = {};
let latest = null;
let isFrozen = false;

function show() {
  const name = location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "clients";
  view?.close();
  view = VIEWS[name](past);
  fill(main, view.root);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `Milena: ${name}`;
  view.freeze?.(isFrozen);
  if (latest !== null) view.update(latest.rows, latest.reading);
}

function onReading(news) {
  if (news.error) {
    say(news.error);
    return;
  }
  const rows = clients.take(news);
  // What has not changed is not told again.
  sections = { ...sections, ...news };
  past.add(sections.ts / 1000, rows);
  tellCluster(sections);
  if (isFrozen) return;
  latest = { rows, reading: sections };
  say(sections.clients_left_out > 0
    ? `${sections.clients_left_out.toLocaleString("en")} more rows are not shown, those farthest from their limits; the filter finds them.` : "");
  view.update(rows, sections);
  updateDetail(rows, past);
}

function tellCluster({ health }) {
  const { state, text } = health;
  if (line.dataset.told === `${state} ${text}`) return;
  line.dataset.told = `${state} ${text}`;
  fill(line, el("span", { class: "pill", "data-state": state }, state), " ", text);
}

function say(text) {
  setText(notice, text);
  notice.hidden = text === "";
}

function freeze() {
  isFrozen = !isFrozen;
  freezeButton.setAttribute("aria-pressed", String(isFrozen));
  setText(freezeButton, isFrozen ? "Go on" : "Freeze");
  view.freeze?.(isFrozen);
}

function changeTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // storage may be forbidden
  }
}

const KEYS = {
  1: () => { location.hash = "#clients"; },
  2: () => { location.hash = "#cluster"; },
  3: () => { location.hash = "#capacity"; },
  4: () => { location.hash = "#change"; },
  f: freeze,
  t: changeTheme,
  "/": () => view.focusFilter?.(),
};

document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  if (document.querySelector("dialog[open]")) return;
  event.preventDefault();
  KEYS[event.key]();
});
freezeButton.addEventListener("click", freeze);
document.getElementById("theme").addEventListener("click", changeTheme);
window.addEventListener("hashchange", show);

show();
follow(onReading, (isReached, why = "The dashboard does not answer") => {
  document.documentElement.dataset.reached = String(isReached);
  say(isReached ? "" : `${why}; trying again. What is shown is its last reading.`);
});
