// Assembles the page: views, keys, the stream of readings.

import { follow, get } from "./api.js";
import { openDialog } from "./dialog.js";
import { el, fill, setText } from "./dom.js";
import { addressOf, Router } from "./router.js";
import { Clients, Past } from "./series.js";
import { DIALOGS, VIEWS } from "./views.js";

const main = document.getElementById("main");
const notice = document.getElementById("notice");
const line = document.getElementById("cluster-line");
const freezeButton = document.getElementById("freeze");
const past = new Past();
const clients = new Clients();
const router = new Router(visit);

let view = null;
let viewAddress = "";
let dialog = null;
let sections = {};
let latest = null;
let isFrozen = false;

/** Shows the view or the dialog of an address; a dialog is over the view that is shown. */
function visit({ name, parts, options }) {
  dialog?.close();
  dialog = null;
  const opened = DIALOGS.find((each) => each.name === name && each.parts === parts.length);
  if (opened === undefined) {
    show(VIEWS.find((each) => each.name === name && parts.length === 0) ?? VIEWS[0], options);
    return;
  }
  if (view === null) show(VIEWS.find((each) => each.name === opened.over), new URLSearchParams());
  dialog = openDialog(opened.make, contextOf(name, parts, options), () => router.leave(addressOf(opened.over)));
  document.title = `Milena: ${document.getElementById("dialog-title").textContent}`;
  refresh(dialog);
  if (name === "clients") loadPast(300, { user: parts[0], client_id: parts[1] });
}

/** The last samples of clients, so that their charts begin with a past. */
async function loadPast(seconds, client = {}) {
  try {
    past.load(await get("api/series/clients", { since_ms: Date.now() - seconds * 1000, ...client }));
  } catch {
    // the stream says when the dashboard does not answer; charts then begin now
  }
}

/** What a view or a dialog is made with. */
function contextOf(name, parts, options, onAddress = () => {}) {
  let chosen = Object.fromEntries(options);
  const setOptions = (changes) => {
    chosen = { ...chosen, ...changes };
    const address = addressOf(name, parts, chosen);
    router.replace(address);
    onAddress(address);
  };
  return { past, parts, options, setOptions };
}

function show({ name, title, make }, options) {
  const address = addressOf(name, [], Object.fromEntries(options));
  document.title = `Milena: ${title}`;
  if (address === viewAddress) return;
  viewAddress = address;
  view?.close();
  view = make(contextOf(name, [], options, (changed) => { viewAddress = changed; }));
  fill(main, view.root);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  refresh(view);
}

function refresh(shown) {
  shown.freeze?.(isFrozen);
  if (latest !== null) shown.update(latest.rows, latest.reading);
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
  dialog?.update(rows, sections);
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
  dialog?.freeze(isFrozen);
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
  ...Object.fromEntries(VIEWS.map(({ key, name }) => [key, () => { location.hash = addressOf(name); }])),
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
fill(document.getElementById("views"), VIEWS.map(({ name, title }) => el("a", { href: addressOf(name) }, title)));
fill(document.getElementById("view-keys"), VIEWS.map(({ key, title }, at) => [at > 0 && ", ", el("kbd", {}, key), ` ${title.toLowerCase()}`]));

router.start();
loadPast(120);
follow(onReading, (isReached, why = "The dashboard does not answer") => {
  document.documentElement.dataset.reached = String(isReached);
  say(isReached ? "" : `${why}; trying again. What is shown is its last reading.`);
});
