// The list of topics.

import { get } from "./api.js";
import { el, setText } from "./dom.js";
import { count, name, perSecond, size } from "./format.js";
import { addressOf } from "./router.js";
import { rowsTable } from "./rows.js";

const PERIOD_MS = 3000;

const bytesPerSecond = (value) => (value === null ? "-" : `${size(value)}/s`);
const amount = (label, text, value, more = {}) => ({ label, text, value, isNumber: true, ...more });

const COLUMNS = [
  { name: "name", label: "Topic", text: (topic) => name(topic.name), value: (topic) => topic.name,
    href: (topic) => addressOf("topics", [topic.name]) },
  amount("Size", (topic) => size(topic.bytes), (topic) => topic.bytes, { name: "bytes" }),
  amount("In", (topic) => bytesPerSecond(topic.in), (topic) => topic.in, { name: "in" }),
  amount("Out", (topic) => bytesPerSecond(topic.out), (topic) => topic.out, { name: "out" }),
  amount("Records/s", (topic) => (topic.records === null ? "-" : perSecond(topic.records)), (topic) => topic.records, { name: "records" }),
  amount("Partitions", (topic) => count(topic.partitions), (topic) => topic.partitions, { name: "partitions" }),
  amount("Replication", (topic) => count(topic.replication_factor), (topic) => topic.replication_factor, { name: "replication" }),
  // Those that lack replicas first.
  amount("In sync", inSyncText, (topic) => topic.offline * 1e6 + topic.replicas - topic.in_sync, { name: "in_sync", isWrong: (topic) => topic.in_sync < topic.replicas || topic.offline > 0 }),
  { name: "policy", label: "Cleanup", text: (topic) => topic.policy || "-", value: (topic) => topic.policy || null },
];

/** `5 of 6`, and how many partitions have no leader. */
export function inSyncText(topic) {
  const offline = topic.offline > 0 ? `, ${count(topic.offline)} offline` : "";
  return `${count(topic.in_sync)} of ${count(topic.replicas)}${offline}`;
}

/** The view; filter, order and whether internal topics are shown are in the address. */
export function topicsView({ options, setOptions }) {
  let found = null;
  let isOpen = true;
  let isFrozen = false;
  let showsInternal = options.get("internal") === "1";

  const filter = el("input", { type: "search", id: "topic-filter", placeholder: "Filter by name  (/)", "aria-label": "Filter topics by name", value: options.get("filter"),
    oninput: () => { setOptions({ filter: filter.value }); draw(); } });
  const internal = el("button", { type: "button", id: "show-internal", hidden: true, onclick: () => {
    showsInternal = !showsInternal;
    setOptions({ internal: showsInternal ? "1" : null });
    draw();
  } });
  const problem = el("p", { class: "problem", role: "status", hidden: true });
  const summary = el("p", { class: "summary" }, "Reading …");
  const note = el("p", { class: "soft", hidden: true });
  const table = rowsTable({ caption: "Topics", columns: COLUMNS, keyOf: (topic) => topic.name, sort: options.get("sort") ?? "name", isReversed: options.get("reversed") === "1",
    onSort: (sort, isReversed) => setOptions({ sort, reversed: isReversed ? "1" : null }) });
  const root = el("section", { class: "topics", "aria-labelledby": "topics-title" },
    el("h2", { id: "topics-title" }, "Topics"), el("div", { class: "bar" }, filter, internal), problem, summary, table.root, note);

  async function ask() {
    if (!isOpen) return;
    if (!isFrozen && !document.hidden) {
      try {
        found = await get("api/topics");
        if (!isOpen) return;
        problem.hidden = true;
        draw();
      } catch (wrong) {
        setText(problem, found === null ? wrong.message : `${wrong.message} What is shown was read before.`);
        problem.hidden = false;
      }
    }
    setTimeout(ask, PERIOD_MS);
  }

  function draw() {
    if (found === null) return;
    const wanted = filter.value.trim().toLowerCase();
    const hidden = found.topics.filter((topic) => topic.internal).length;
    const shown = found.topics.filter((topic) => (showsInternal || !topic.internal) && topic.name.toLowerCase().includes(wanted));
    setText(internal, showsInternal ? "Hide internal topics" : `Show ${count(hidden)} internal topic${hidden === 1 ? "" : "s"}`);
    internal.hidden = hidden === 0;
    setText(summary, summaryOf(shown, found.topics.length, showsInternal ? 0 : hidden));
    setText(note, `A broker counts the rates of some of its topics only, if it has many: those of ${count(found.without_rates)} topics are not known.`);
    note.hidden = found.without_rates === 0;
    table.update(shown, wanted !== "" ? "No topic matches the filter." : "No topics yet.");
  }

  ask();
  return {
    root,
    update: () => {},
    freeze: (frozen) => { isFrozen = frozen; },
    focusFilter: () => filter.focus(),
    close: () => { isOpen = false; table.close(); },
  };
}

/** Home counts all topics: so that both agree, those that are not shown are counted here, too. */
function summaryOf(topics, all, hidden) {
  const sum = (key) => topics.reduce((total, topic) => total + (topic[key] ?? 0), 0);
  const late = topics.filter((topic) => topic.in_sync < topic.replicas).length;
  const offline = sum("offline");
  const shown = topics.length < all ? `${count(topics.length)} of ${count(all)}` : count(all);
  return [`${shown} topic${all === 1 ? "" : "s"} with ${count(sum("partitions"))} partitions, ${size(sum("bytes"))} in all replicas`,
    late > 0 ? `; ${count(late)} with replicas out of sync` : "", offline > 0 ? `; ${count(offline)} partitions are offline` : "",
    hidden > 0 ? `; ${count(hidden)} internal topic${hidden === 1 ? " is" : "s are"} hidden` : ""].join("");
}
