// The dialog that produces one message.

import { get, mayChange, post } from "./api.js";
import { command, el, fill, program } from "./dom.js";
import { count, name } from "./format.js";
import { addressOf } from "./router.js";

const TYPING_MS = 200;

/** `#topics/<name>/produce` */
export function produceDialog({ parts: [topic] }) {
  const title = `Produce a message to ${name(topic)}`;
  if (!mayChange) {
    return { title, root: el("p", {}, `This dashboard is read-only: it was started without --dashboard-actions. From a terminal: ${program} produce --help`), update: () => {}, close: () => {} };
  }
  let timer = null;
  let asked = 0;
  let isWriting = false;
  const result = el("div", { role: "status", class: "result" });
  const preview = el("div", { class: "preview", id: "produce-command" });
  const key = el("textarea", { id: "message-key", rows: 1, spellcheck: "false" });
  const hasKey = el("input", { type: "checkbox", id: "message-has-key" });
  const value = el("textarea", { id: "message-value", rows: 6, spellcheck: "false" });
  const isTombstone = el("input", { type: "checkbox", id: "message-tombstone", onchange: () => { value.disabled = isTombstone.checked; } });
  const partition = el("select", { id: "message-partition" }, el("option", { value: "" }, "by the key, or any without one"));
  const headers = el("div", { class: "header-list" });
  const addHeader = el("button", { type: "button", class: "small", onclick: () => {
    const number = headers.childElementCount + 1;
    const row = el("div", { class: "header-row" },
      el("input", { "aria-label": `Name of header ${number}`, placeholder: "name", "data-header": "name", autocomplete: "off", spellcheck: "false" }),
      el("input", { "aria-label": `Value of header ${number}`, placeholder: "value", "data-header": "value", autocomplete: "off", spellcheck: "false" }),
      el("button", { type: "button", class: "small", "aria-label": `Remove header ${number}`, onclick: () => { row.remove(); addHeader.focus(); later(); } }, "Remove"));
    headers.append(row);
    row.querySelector("input").focus();
  } }, "Add a header");
  key.addEventListener("input", () => { if (key.value !== "") hasKey.checked = true; });

  function entered() {
    const rows = [...headers.children].map((row) => ["name", "value"].map((part) => row.querySelector(`[data-header=${part}]`).value)).filter(([first, second]) => first !== "" || second !== "");
    if (rows.some(([first]) => first === "")) throw new Error("A header has a value, but no name.");
    return {
      topic, key: hasKey.checked ? key.value : null, value: isTombstone.checked ? null : value.value,
      headers: rows, partition: partition.value === "" ? null : Number(partition.value),
    };
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(show, TYPING_MS);
  }

  async function show() {
    const number = (asked += 1);
    try {
      const found = await post("api/topic/produce/command", entered());
      if (number === asked) fill(preview, el("p", {}, "From a terminal: ", found.command === null ? found.reason : command(found.command)));
    } catch (problem) {
      if (number === asked) fill(preview, el("p", { class: "soft" }, problem.message));
    }
  }

  async function send(event) {
    event.preventDefault();
    if (isWriting) return;
    isWriting = true;  // a disabled button would lose the focus
    fill(result, el("p", {}, "Writing …"));
    try {
      const written = await post("api/topic/produce", entered());
      const href = addressOf("topics", [topic, "messages"], { partition: written.partition, from: written.offset });
      fill(result, el("p", {}, "✓ Written to ", el("a", { href, id: "written" }, `partition ${written.partition} at offset ${count(written.offset)}`), ", on all in-sync replicas."));
    } catch (problem) {
      fill(result, el("p", { class: "problem" }, problem.message,
        problem.isUnanswered && " The message may have been written: look for it before you send it again."));
    }
    isWriting = false;
  }

  async function listPartitions() {
    try {
      const found = await get("api/topic", { name: topic });
      if (found.is_missing) throw new Error(`There is no topic ${name(topic)}.`);
      partition.append(...Array.from({ length: found.partitions }, (_, at) => el("option", { value: at }, `partition ${at}`)));
    } catch (problem) {
      fill(result, el("p", { class: "problem" }, problem.message));
    }
  }

  const submit = el("button", { type: "submit", class: "primary", id: "produce" }, "Produce");
  const field = (label, input, ...more) => el("div", { class: "message-field" }, el("label", { for: input.id }, label), input, more);
  const check = (input, text) => el("label", { for: input.id, class: "check" }, input, ` ${text}`);
  const root = el("form", { class: "produce", onsubmit: send, oninput: later, onchange: later },
    field("Key", key, check(hasKey, "has a key (without: null)")),
    field("Value", value, check(isTombstone, "tombstone: no value (null), which deletes the key in a compacted topic")),
    el("div", { class: "message-field" }, el("span", { id: "headers-label" }, "Headers"), headers, addHeader),
    field("Partition", partition),
    el("p", { class: "soft" }, "Texts are written as UTF-8, acknowledged by all in-sync replicas (acks=all)."),
    el("div", { class: "bar" }, submit), result, preview);
  listPartitions();
  show();
  return { title, root, update: () => {}, close: () => clearTimeout(timer) };
}
