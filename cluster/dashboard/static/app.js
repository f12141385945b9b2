// Assembles the page: views, keys, the stream of readings.

import { follow, get } from "./api.js";
import { openDialog } from "./dialog.js";
import { el, fill, setText } from "./dom.js";
import { addressOf, Router } from "./router.js";
import { Clients, Past } from "./series.js";
import { DIALOGS, PAGES, VIEWS } from "./views.js";

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

/** Shows the view, the page or the dialog of an address; a dialog is over what is shown. */
function visit(address) {
  const { name, parts, options } = address;
  dialog?.close();
  dialog = null;
  const opened = DIALOGS.find((each) => isOf(each, address));
  if (opened === undefined) {
    showAt(address);
    return;
  }
  const beneath = { name: opened.over, parts: parts.slice(0, opened.overParts ?? 0), options: new URLSearchParams() };
  if (view === null) showAt(beneath);
  dialog = openDialog(opened.make, contextOf(name, parts, options, tellTitle), () => router.leave(addressOf(beneath.name, beneath.parts)));
  refresh(dialog);
  if (name === "clients") loadPast(300, { user: parts[0], client_id: parts[1] });
}

const isOf = (entry, { name, parts }) =>
  entry.name === name && entry.parts === parts.length && (entry.last === undefined || entry.last === parts.at(-1));

/** The last samples of clients, so that their charts begin with a past. */
async function loadPast(seconds, client = {}) {
  try {
    past.load(await get("api/series/clients", { since_ms: Date.now() - seconds * 1000, ...client }));
  } catch {
    // the stream says when the dashboard does not answer; charts then begin now
  }
}

/** What a view or a dialog is made with. */
function contextOf(name, parts, options, setTitle, onAddress = () => {}) {
  let chosen = Object.fromEntries(options);
  const setOptions = (changes) => {
    chosen = { ...chosen, ...changes };
    const address = addressOf(name, parts, chosen);
    router.replace(address);
    onAddress(address);
  };
  return { past, parts, options, setOptions, setTitle };
}

function tellTitle(text) {
  document.title = `Milena: ${text}`;
}

/** Shows the page or the view of an address, else the first view. */
function showAt(address) {
  const page = PAGES.find((each) => isOf(each, address));
  if (page !== undefined) show(page, address.parts, address.options);
  else show(VIEWS.find((each) => each.name === address.name && address.parts.length === 0) ?? VIEWS[0], [], address.options);
}

function show({ name, title, make }, parts, options) {
  const address = addressOf(name, parts, Object.fromEntries(options));
  if (address !== viewAddress) {
    const isFirst = view === null;
    viewAddress = address;
    view?.close();
    const titleUnlessBeneath = (text) => { if (dialog === null) tellTitle(text); };
    view = make(contextOf(name, parts, options, titleUnlessBeneath, (changed) => { viewAddress = changed; }));
    fill(main, view.root);
    // What had the focus may be gone with the view before.
    if (!isFirst && document.activeElement === document.body) main.focus({ preventScroll: true });
    for (const link of document.querySelectorAll("nav a")) {
      if (link.hash !== `#${name}`) {
        link.removeAttribute("aria-current");
        continue;
      }
      link.setAttribute("aria-current", "page");
      // On a phone the navigation is wider than the screen.
      const nav = link.parentElement;
      nav.scrollLeft = link.offsetLeft - nav.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
    }
    refresh(view);
  }
  tellTitle(view.title ?? title);
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

const LISTED = VIEWS.filter((each) => !each.isUnlisted);
const KEYS = {
  ...Object.fromEntries(LISTED.map(({ name }, at) => [String(at + 1), () => { location.hash = addressOf(name); }])),
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
// With `./` they are pages for axe; addresses of a # alone would be skip links, which may not be out of sight.
fill(document.getElementById("views"), LISTED.map(({ name, title }) => el("a", { href: `./${addressOf(name)}` }, title)));
fill(document.getElementById("view-keys"), LISTED.map(({ title }, at) => [at > 0 && ", ", el("kbd", {}, at + 1), ` ${title.toLowerCase()}`]));

router.start();
loadPast(120);
follow(onReading, (isReached, why = "The dashboard does not answer") => {
  document.documentElement.dataset.reached = String(isReached);
  if (!isReached) tellCluster({ health: { state: "unknown", text: "no answer" } });
  say(isReached ? "" : `${why}; trying again. What is shown is its last reading.`);
});
