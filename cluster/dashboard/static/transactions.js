// The view of transactions: which are open and what they hold back, other transactional ids, and the dialogs
// that explain and end them.

import { get, mayChange } from "./api.js";
import { confirmation } from "./change.js";
import { command, el, fill, growingTable, program, setText } from "./dom.js";
import { count, duration, moment, name, size } from "./format.js";
import { addressOf } from "./router.js";

const PERIOD_MS = 3000;
const TYPING_MS = 300;

/** The view; it asks brokers only while it is open. */
export function transactionsView({ options, setOptions }) {
  const filter = el("input", {
    type: "search", id: "filter", placeholder: "Filter by transactional id", "aria-label": "Filter transactional ids", value: options.get("filter"), maxlength: "1000", oninput: typed,
  });
  const summary = el("p", { class: "summary" }, "Reading …");
  const problem = el("div");
  const open = growingTable("Open transactions", ["Transactional id", "State", ["Open for", true, true], "Client", "Partitions", "Holds back", mayChange ? "End" : "Ended by"]);
  const held = growingTable("Held back by something else", ["Partition", "By", "Since", ["Records", true, true], ["Size", true], "Ends", mayChange ? "End" : "Ended by"]);
  const others = growingTable("Other transactional ids", ["Transactional id", ["State", false, true], "Last change", "Client"]);
  const root = el("section", { class: "with-filter", "aria-labelledby": "transactions-title" },
    el("div", { class: "bar" }, el("h2", { id: "transactions-title" }, "Transactions"), filter), summary, problem, open.root, held.root, others.root);
  let found = null;
  let holds = { held: [], left_out: 0 };
  let isOpen = true;
  let isFrozen = false;
  let timer = null;
  let asked = 0;

  async function ask() {
    const number = (asked += 1);
    clearTimeout(timer);
    try {
      if (!isFrozen && !document.hidden) {
        const search = filter.value.trim();
        const answer = await get("api/transactions", search === "" ? {} : { search });
        if (number !== asked) return;
        found = answer;
        draw();
        fill(problem, found.problems.map((text) => el("p", { class: "problem" }, text)));
      }
    } catch (wrong) {
      if (number === asked) fill(problem, el("p", { class: "problem" }, wrong.message));
    }
    if (isOpen && number === asked) timer = setTimeout(ask, PERIOD_MS);
  }

  async function askHeld() {
    if (!isOpen) return;
    try {
      if (!isFrozen && !document.hidden) {
        holds = await get("api/held-back");
        draw();
      }
    } catch {
      // no broker answers: `ask` has said so
    }
    if (isOpen) setTimeout(askHeld, PERIOD_MS);
  }

  function typed() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      setOptions({ filter: filter.value.trim() });
      ask();
    }, TYPING_MS);
  }

  function draw() {
    if (!isOpen || found === null) return;
    const listed = new Set(found.open.map((each) => each.transactional_id));
    const wanted = filter.value.trim().toLowerCase();
    const isFiltered = wanted !== "";
    // A filter leaves out transactions: what they hold back is not held back by something else.
    const elsewhere = holds.held.filter((each) => !listed.has(each.transactional_id) && (each.transactional_id ?? wanted).toLowerCase().includes(wanted));
    const ways = isFiltered ? "a longer filter finds them." : "the filter finds them.";
    setText(summary, summed(found, holds, isFiltered));
    open.draw(found.open.map((each) => openRow(each, holds.held)), isFiltered ? "No open transaction has such an id." : "No transaction is open.",
      found.open_left_out > 0 && `… and ${count(found.open_left_out)} younger ones: ${ways}`);
    held.root.hidden = elsewhere.length === 0;
    held.draw(elsewhere.map(heldRow), "", holds.left_out > 0 && ["… and ", count(holds.left_out), " more: ", command(`${program} transactions explain`)]);
    others.draw(found.others.map(otherRow), isFiltered ? "No other id matches." : "No other transactional id is known.",
      found.others_left_out > 0 && `… and ${count(found.others_left_out)} more, whose producers started earlier: ${ways}`);
  }

  ask();
  askHeld();
  window.addEventListener("cluster-changed", ask);
  return {
    root,
    update: () => {},
    freeze: (frozen) => { isFrozen = frozen; },
    focusFilter: () => filter.focus(),
    close: () => {
      isOpen = false;
      clearTimeout(timer);
      window.removeEventListener("cluster-changed", ask);
    },
  };
}

/** Both lists in one sentence. */
function summed({ open, open_left_out: more, others, others_left_out: left }, holds, isFiltered) {
  const number = open.length + more;
  const oldest = number > 0 ? `, the oldest for ${duration(open[0]?.age_ms)}` : "";
  const waiting = holds.held.length + holds.left_out;
  const other = count(others.length + left);
  if (isFiltered) return `Ids that match: ${count(number)} open${oldest}; ${other} without an open transaction.`;
  return `${count(number)} open${oldest}; ${waiting === 0 ? "no partition is known to be held back" : `${count(waiting)} ${waiting === 1 ? "partition is" : "partitions are"} held back`};`
    + ` ${other} other transactional ${others.length + left === 1 ? "id" : "ids"}.`;
}

const idLink = (id) => el("a", { class: "link", "data-id": id, href: addressOf("transactions", [id]) }, name(id));

function openRow(each, held) {
  const more = each.partition_count - each.partitions.length;
  return [idLink(each.transactional_id), each.state, el("span", { class: "nowrap", title: `since ${moment(each.since_ms)}` }, duration(each.age_ms)), each.client ?? "-",
    each.partition_count === 0 ? "none yet" : `${each.partitions.map((one) => name(one)).join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`,
    holdsBack(held.filter((one) => one.transactional_id === each.transactional_id)),
    ending(each.command, addressOf("terminate", [each.transactional_id]), "Terminate", each.transactional_id)];
}

/** The records behind a transaction, by partition. */
function holdsBack(held) {
  if (held.length === 0) return "nothing known";
  return held.map((each) => el("div", {}, `${count(each.records)} records in ${partition(each)}`));
}

function heldRow(each) {
  const by = each.transactional_id === null ? (each.producer_id === null ? "-" : `producer id ${each.producer_id}`) : idLink(each.transactional_id);
  const isHanging = each.verdict === "hanging";
  return [partition(each), by, each.since_ms === null ? "-" : `${moment(each.since_ms)}, ${duration(each.age_ms)} ago`, count(each.records), size(each.bytes), each.ends,
    each.command === null ? "" : ending(each.command, isHanging ? addressOf("abort", [each.topic, each.partition, each.first_offset]) : addressOf("terminate", [each.transactional_id]),
      isHanging ? "Abort" : "Terminate", partition(each))];
}

const otherRow = (each) => [idLink(each.transactional_id), each.state, moment(each.updated_ms), each.client ?? "-"];

const partition = (each) => `${name(each.topic)}-${each.partition}`;

/** The button that ends a transaction; the command line where the page may not. */
function ending(line, href, label, what) {
  return mayChange ? el("a", { class: "button small", href, "aria-label": `${label} ${name(what)}` }, `${label} …`) : command(line);
}

// ---- dialogs

/** `#transactions/payments-1`: what `transactions explain` prints, again and again. */
export function transactionDialog({ parts: [id] }) {
  const root = el("div", {}, el("p", {}, "Reading …"));
  const sentence = el("p", { class: "sentence" });
  const text = el("pre", { class: "printed" });
  const problem = el("p", { class: "problem", hidden: true });
  const line = el("p");
  let isOpen = true;
  let isFrozen = false;

  async function ask() {
    if (!isOpen) return;
    try {
      if (!isFrozen && !document.hidden) {
        const found = await get("api/transactions/explain", { transactional_id: id });
        if (!isOpen) return;
        setText(sentence, found.sentence);
        setText(text, found.text);
        if (!line.hasChildNodes()) fill(line, "From a terminal: ", command(found.command));
      }
      problem.hidden = true;
    } catch (wrong) {
      setText(problem, wrong.message);
      problem.hidden = false;
    }
    if (!root.contains(line)) fill(root, problem, sentence, text, line);
    sentence.hidden = text.hidden = sentence.textContent === "";
    if (isOpen) setTimeout(ask, PERIOD_MS);
  }

  ask();
  return { title: name(id), root, update: () => {}, freeze: (frozen) => { isFrozen = frozen; }, close: () => { isOpen = false; } };
}

/** `#terminate/payments-1` */
export function terminateDialog({ parts: [id] }) {
  return confirmation(`terminate the transaction of ${name(id)}`, async () => {
    const { question, command: line } = await get("api/transactions/terminate", { transactional_id: id });
    return { question, line, label: "Terminate", path: "api/transactions/terminate", body: { transactional_id: id } };
  });
}

/** `#abort/orders/0/4711` */
export function abortDialog({ parts: [topic, number, offset] }) {
  return confirmation(`abort a hanging transaction in ${name(topic)}-${number}`, async () => {
    const { question, command: line } = await get("api/transactions/abort", { topic, partition: number, offset });
    return { question, line, label: "Abort", path: "api/transactions/abort", body: { topic, partition: number, offset } };
  });
}
