// The messages of a topic: read when asked for, a page at a time. What a user asks for is in the address.

import { get } from "./api.js";
import { el, fill, setText, trail } from "./dom.js";
import { count, moment, name, size } from "./format.js";
import { content } from "./message_value.js";
import { addressOf } from "./router.js";

const STARTS = [["newest", "Newest"], ["beginning", "Beginning"], ["offset", "Offset"], ["time", "Time"]];
const MATCHES = [["any", "anywhere"], ["key", "in keys"], ["value", "in values"], ["headers", "in headers"]];
const LIMITS = ["20", "50", "100", "200"];
const ASKED = ["partition", "from", "filter", "match", "isolation", "limit", "before", "after"];
const LISTED_BYTES = 64;
const LOADED_AT_ONCE = 128 * 1024;
const KINDS = { commit: "Commit of a transaction", abort: "Abort of a transaction", control: "Control record", damaged: "Damaged batch" };
const DATE_MAX_MS = 8.64e15;

/** The page of a topic's messages. */
export function messagesPage({ parts: [topic], options, setOptions }) {
  const told = el("p", { role: "status", class: "told", tabindex: "-1" });
  const notes = el("div");
  const list = el("ol", { class: "messages" });
  const pagers = [pager(), pager()];
  const place = el("div", { hidden: true }, el("div", { class: "message-heads", "aria-hidden": "true" },
    ["Partition", "Offset", "Time", "Key", "Value", "Size"].map((head) => el("span", {}, head))), list, pagers[1].root);
  const asking = form(Object.fromEntries(options), (chosen) => read(chosen));
  const root = el("section", { class: "message-page", "aria-labelledby": "messages-title" },
    trail("messages-title", [["Topics", addressOf("topics")], [name(topic, 249), addressOf("topics", [topic])]], "Messages"),
    asking.root, told, notes, pagers[0].root, place);
  let pending = null;  // what is being read

  async function read(changes) {
    const mine = pending = {};
    const chosen = { before: "", after: "", ...changes };
    setOptions(chosen);
    asking.complain(null, "");
    told.classList.remove("problem");
    setText(told, "Reading …");
    pagers.forEach((each) => each.wait());
    try {
      const found = await get("api/messages", { topic, ...chosen });
      if (pending === mine) draw(found, chosen);
    } catch (problem) {
      if (pending === mine) refuse(problem);
    }
  }

  function draw(found, chosen) {
    const shown = found.messages.length;
    const stopped = found.stopped === null ? "" : ` ${found.stopped}`;
    setText(told, `${shown === 1 ? "1 message" : `${count(shown)} messages`}; ${count(found.looked_through)} looked through.${stopped} ${found.held}`);
    const isBackward = chosen.before !== "" || (chosen.after === "" && found.is_newest_first);
    fill(notes, found.notes.map((note) => el("p", { class: "problem" }, note)));
    fill(list, found.messages.map((message) => row(topic, message)));
    place.hidden = shown === 0;
    const older = { label: "Older", go: found.older && (() => read({ ...chosen, after: "", before: found.older })), isStopped: found.stopped !== null && isBackward };
    const newer = { label: "Newer", go: found.has_newer && (() => read({ ...chosen, before: "", after: found.newer })), isStopped: found.stopped !== null && !isBackward };
    const [back, on] = found.is_newest_first ? [newer, older] : [older, newer];
    pagers.forEach((each) => each.offer(back, on));
    if (document.activeElement?.disabled) told.focus();
  }

  function refuse(problem) {
    fill(notes);
    fill(list);
    place.hidden = true;
    pagers.forEach((each) => each.offer({ label: "Newer" }, { label: "Older" }));
    const isOfField = problem.field && asking.complain(problem.field, sentence(problem.message));
    setText(told, isOfField ? "" : sentence(problem.message));
    told.classList.toggle("problem", !isOfField);
  }

  read(asking.chosen({ before: options.get("before") ?? "", after: options.get("after") ?? "" }));
  return {
    title: `messages of ${name(topic)}`,
    root,
    update: () => {},
    close: () => { pending = null; },
    focusFilter: () => asking.focusFilter(),
  };
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Two buttons, for the pages before and after this one. */
function pager() {
  const buttons = [0, 1].map(() => el("button", { type: "button", disabled: true }));
  const actions = [null, null];
  buttons.forEach((button, at) => button.addEventListener("click", () => actions[at]?.()));
  return {
    root: el("div", { class: "bar pager", role: "group", "aria-label": "Pages" }, buttons),
    wait() { actions.fill(null); },
    offer(...offers) {
      offers.forEach(({ label, go, isStopped }, at) => {
        actions[at] = go || null;
        buttons[at].disabled = !go;
        const text = isStopped ? `Go on: ${label.toLowerCase()}` : label;
        setText(buttons[at], at === 0 ? `← ${text}` : `${text} →`);
        buttons[at].classList.toggle("primary", Boolean(isStopped && go));
      });
    },
  };
}

// ---- the form

function form(given, onAsk) {
  const start = startOf(given.from ?? "newest");
  const from = select("messages-from", STARTS, start.kind, () => showStart());
  const offset = el("input", { id: "messages-offset", inputmode: "numeric", autocomplete: "off", "aria-label": "Offset", placeholder: "0", value: start.offset, maxlength: "19" });
  const time = el("input", { id: "messages-time", type: "datetime-local", step: "0.001", "aria-label": "Time", value: start.time });
  const partition = el("input", { id: "messages-partition", inputmode: "numeric", autocomplete: "off", placeholder: "all", value: given.partition ?? "", maxlength: "10" });
  const filter = el("input", { id: "messages-filter", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "Text, in any case", value: given.filter ?? "", maxlength: "500" });
  const match = select("messages-match", MATCHES, given.match ?? "any");
  match.setAttribute("aria-label", "Where to look for the text");
  const limit = select("messages-limit", LIMITS.map((each) => [each, each]), given.limit ?? (matchMedia("(max-width: 46rem)").matches ? "20" : "50"));
  const committed = el("input", { id: "messages-committed", type: "checkbox", checked: given.isolation === "read_committed" });
  const problem = el("p", { id: "messages-problem", class: "problem", hidden: true });
  const inputs = { partition, filter, offset, time };

  function showStart() {
    offset.hidden = from.value !== "offset";
    time.hidden = from.value !== "time";
  }

  function chosen(more = {}) {
    const begin = from.value === "offset" ? offset.value.trim() || "0" : from.value === "time" && time.value ? new Date(time.value).toISOString() : from.value;
    return {
      partition: partition.value.trim(), from: begin === "time" ? "newest" : begin, filter: filter.value, match: match.value,
      isolation: committed.checked ? "read_committed" : "", limit: limit.value, ...more,
    };
  }

  /** Whether there is such a field, which now has that problem. */
  function complain(which, text) {
    for (const input of Object.values(inputs)) {
      input.removeAttribute("aria-invalid");
      input.removeAttribute("aria-describedby");
    }
    setText(problem, text);
    problem.hidden = text === "";
    const wrong = inputs[which === "from" ? from.value : which];
    if (wrong === undefined) return text !== "";
    wrong.setAttribute("aria-invalid", "true");
    wrong.setAttribute("aria-describedby", problem.id);
    wrong.focus();
    return true;
  }

  showStart();
  const root = el("form", { class: "ask", role: "search", "aria-label": "Messages", novalidate: true, onsubmit: (event) => {
    event.preventDefault();
    if (from.value === "time" && time.value === "") complain("from", "Enter a time.");
    else onAsk(chosen());
  } },
    field("Read from", from, offset, time),
    field("Partition", partition),
    field("Filter", filter, match),
    field("Per page", limit),
    el("label", { class: "committed" }, committed, " Committed only"),
    el("button", { type: "submit", class: "primary" }, "Read"),
    problem);
  return { root, chosen, complain, focusFilter: () => filter.focus() };
}

function field(label, control, ...more) {
  return el("div", { class: "ask-field" }, el("label", { for: control.id }, label), el("span", { class: "controls" }, control, more));
}

function select(id, choices, chosen, onchange) {
  return el("select", { id, onchange }, choices.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
}

/** The start in an address, for the controls. */
function startOf(from) {
  if (/^\d+$/.test(from)) return { kind: "offset", offset: from, time: "" };
  const then = new Date(from);
  if (!from.includes("-") || Number.isNaN(then.getTime())) return { kind: from === "beginning" ? from : "newest", offset: "", time: "" };
  const local = new Date(then.getTime() - then.getTimezoneOffset() * 60_000).toISOString().slice(0, -1);
  return { kind: "time", offset: "", time: local };
}

// ---- one message

function row(topic, message) {
  const inside = el("div", { class: "message-parts" });
  const isRecord = message.kind === "record";
  const preview = isRecord ? oneLine(message.value) : KINDS[message.kind];
  const details = el("details", {
    "data-kind": message.kind, ontoggle: () => details.open && inside.childElementCount === 0 && open(topic, message, inside),
  }, el("summary", {},
    el("span", { class: "number" }, el("span", { class: "hidden" }, "partition "), message.partition),
    el("span", { class: "number" }, el("span", { class: "hidden" }, "offset "), message.offset),
    el("time", {}, when(message.timestamp)),
    el("span", { class: "key" }, isRecord ? oneLine(message.key) : ""),
    el("span", { class: "value" }, preview),
    el("span", { class: "number" }, size(isRecord ? message.size : message.batch.size))), inside);
  return el("li", {}, details);
}

/** A time on one line; any number may stand where a client should have put one. */
function when(timestamp) {
  if (timestamp === null) return "no time";
  return Math.abs(Number(timestamp)) <= DATE_MAX_MS ? moment(Number(timestamp)) : `${timestamp} ms`;
}

function exact(timestamp) {
  if (timestamp === null) return "none";
  return Math.abs(Number(timestamp)) <= DATE_MAX_MS ? `${new Date(Number(timestamp)).toISOString()} (${timestamp})` : `${timestamp}, which is no date`;
}

function oneLine({ kind, text, size: bytes }) {
  if (kind === "null" || kind === "empty") return el("span", { class: "soft" }, kind === "null" ? "null" : "(empty)");
  if (kind === "binary") return el("code", {}, firstBytes(text), bytes > LISTED_BYTES && " …");
  return name(text.slice(0, 400).replace(/\s+/g, " "), 300);
}

/** Of a dump: each line has its offset, up to 16 bytes in hex, and what is printable of them. */
const firstBytes = (dump) => dump.split("\n", LISTED_BYTES / 16).map((line) => line.slice(10, 58).trim().replace("  ", " ")).join(" ");

function open(topic, message, inside) {
  const where = { topic, partition: message.partition, offset: message.offset };
  const { batch, producer } = message;
  const facts = [
    ["Timestamp", `${exact(message.timestamp)}, ${message.timestamp_type}`],
    ["Batch", `offsets ${batch.first} to ${batch.last}, ${count(batch.records)} ${batch.records === 1 ? "record" : "records"}, ${size(batch.size)}, ${batch.compression === "none" ? "not compressed" : batch.compression}, leader epoch ${batch.leader_epoch}`],
    ["Producer", producer === null ? "without an id: not idempotent" : `${producer.is_transactional ? "transactional" : "idempotent"}, id ${producer.id}, epoch ${producer.epoch}${producer.sequence === null ? "" : `, sequence ${producer.sequence}`}`],
  ];
  const dl = el("dl", {}, facts.map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));
  if (message.kind === "damaged") {
    fill(inside, el("p", { class: "problem" }, `${sentence(message.problem)}.`), dl);
    return;
  }
  fill(inside,
    part("Value", "value", where, message.value),
    part("Key", "key", where, message.key),
    message.headers.length > 0 && el("div", { class: "message-part" }, el("h3", {}, "Headers"),
      el("dl", { class: "headers" }, message.headers.map(([key, value]) => [el("dt", {}, name(key, 200)), el("dd", {}, content(value))])),
      message.header_count > message.headers.length && el("p", { class: "soft" }, `… and ${count(message.header_count - message.headers.length)} more headers.`)),
    dl,
    el("p", {}, el("a", { href: addressOf("topics", [topic, "messages"], { partition: message.partition, from: message.offset }) }, "Read from this offset")));
}

/** The key or the value of a message, with ways to see all of it. */
function part(title, field, where, listed) {
  const body = el("div", {}, content(listed));
  const told = el("p", { class: "problem", role: "status" });
  const about = el("span", { class: "soft" });
  const bar = el("span", { class: "controls" });
  const has = listed.size > 0;
  let pending = null;  // what is being read: an earlier answer may come later

  async function load(as) {
    const mine = pending = {};
    setText(told, "");
    try {
      const found = await get("api/messages/one", { ...where, as });
      if (pending === mine) draw(found[field], as);
    } catch (problem) {
      if (pending === mine) setText(told, sentence(problem.message));
    }
  }

  function draw(shown, as) {
    setText(about, has ? `${shown.kind === "json" ? "JSON" : shown.kind}, ${size(shown.size)}` : field === "value" && shown.kind === "null" ? "null: a tombstone in a compacted topic" : "");
    fill(body, content(shown), shown.is_cut && el("p", { class: "soft" }, "Not all of it is shown here."));
    fill(bar,
      as === undefined && shown.is_cut && el("button", { type: "button", class: "small", onclick: () => load("whole") }, "Show all"),
      has && as !== "hex" && shown.kind !== "binary" && el("button", { type: "button", class: "small", onclick: () => load("hex") }, "As bytes"),
      as === "hex" && el("button", { type: "button", class: "small", onclick: () => load("whole") }, "As text"),
      has && el("a", { class: "button small", download: true, href: `api/messages/raw?${new URLSearchParams({ ...where, part: field })}` }, `Download ${field}`));
  }

  draw(listed);
  if (listed.is_cut && listed.size <= LOADED_AT_ONCE) load("whole");
  return el("div", { class: "message-part" }, el("div", { class: "part-head" }, el("h3", {}, title), about, bar), told, body);
}
