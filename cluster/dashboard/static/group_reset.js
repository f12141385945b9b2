// The dialog that sets the offsets of a group: each partition's offset before and after, first.

import { get, mayChange } from "./api.js";
import { act, READ_ONLY } from "./change.js";
import { choices, command, el, fill, setText, table } from "./dom.js";
import { count, name } from "./format.js";

const TYPING_MS = 250;
const AGAIN_MS = 4000;
const LAST_MS = Date.UTC(9999, 11, 31);  // a later year has no form in the field
const TARGETS = [
  { value: "to-earliest", text: "Earliest", help: "the beginning of each partition" },
  { value: "to-latest", text: "Latest", help: "the end: what is there now is skipped" },
  { value: "to-datetime", text: "Time", help: "the first record of this time or later", field: "datetime-local", label: "Time (of this browser)" },
  { value: "to-offset", text: "Offset", help: "the same in each partition", field: "number", label: "Offset", min: 0 },
  { value: "shift-by", text: "Shift", help: "this many records forward, or back with -", field: "number", label: "Records" },
];

/** The dialog `#groups/<group>/reset`; what is chosen is in the address. */
export function resetDialog({ parts: [group], options, setOptions }) {
  let target = TARGETS.find((each) => each.value === options.get("target")) ?? TARGETS[0];
  let amount = options.get("amount") ?? "";
  let topic = options.get("topic") ?? "";
  let timer = null;
  let asked = 0;
  let isOpen = true;
  let isBusy = false;
  let drawn = "";

  // The preview changes while the group consumes: a screen reader is told only what prevents a reset.
  const preview = el("div", { class: "preview" }, el("p", {}, "Reading …"));
  const obstacle = el("p", { role: "status", class: "problem", hidden: true });
  const result = el("div", { role: "status", class: "result" });
  const field = el("div", { class: "amount" });
  const help = el("p", { class: "soft" });
  const topics = el("select", { id: "reset-topic", onchange: () => change(() => { topic = topics.value; }) }, el("option", { value: "" }, "All topics of the group"));
  const confirm = mayChange && el("button", { type: "button", class: "primary", id: "confirm", disabled: true, onclick: send }, "Reset");
  const root = el("div", { class: "reset" },
    el("h3", { id: "target-title" }, "Set offsets to"),
    choices({ name: "reset-target", options: TARGETS.map((each) => [each.value, each.text, () => choose(each)]), chosen: target.value, labelledBy: "target-title" }),
    help, field, el("p", {}, el("label", { for: "reset-topic" }, "Topics "), topics),
    obstacle, preview, confirm || el("p", {}, READ_ONLY), result);

  const given = () => ({ group, target: target.value, ...(target.field ? { amount } : {}), ...(topic ? { topic } : {}) });

  const choose = (chosen) => change(() => {
    target = chosen;
    amount = target.field === "datetime-local" ? String(Date.now() - 3_600_000) : "";
    drawField();
  });

  function change(apply) {
    apply();
    setOptions({ target: target.value, amount: target.field ? amount : null, topic });
    if (confirm) confirm.disabled = true;
    clearTimeout(timer);
    timer = setTimeout(show, TYPING_MS);
  }

  function drawField() {
    fill(help, `${target.text}: ${target.help}.`);
    if (!target.field) {
      fill(field);
      return;
    }
    const isTime = target.field === "datetime-local";
    const input = el("input", {
      id: "reset-amount", type: target.field, step: 1, min: target.min, value: isTime ? localTime(parseInt(amount, 10)) : amount,
      oninput: () => change(() => { amount = isTime ? String(new Date(input.value).getTime()) : input.value; }),
    });
    fill(field, el("label", { for: "reset-amount" }, `${target.label} `), input);
  }

  async function show() {
    clearTimeout(timer);
    const number = (asked += 1);
    if (target.field && !/^[+-]?\d+$/.test(amount)) {
      drawn = "";
      say("");
      fill(preview, el("p", { class: "soft" }, `Enter ${target.field === "number" ? "a whole number" : "a time"}: what would be set is shown here then.`));
      return;
    }
    try {
      const found = await get("api/groups/reset", given());
      if (number !== asked || !isOpen) return;
      addTopics(topic === "" ? found.topics : [...found.topics, topic]);
      draw(found);
    } catch (wrong) {
      if (number !== asked || !isOpen) return;
      if (confirm) confirm.disabled = true;
      drawn = "";
      fill(preview);
      say(wrong.message);
    }
    timer = setTimeout(showAgain, AGAIN_MS);
  }

  function showAgain() {
    if (document.hidden) timer = setTimeout(showAgain, AGAIN_MS);
    else show();
  }

  function addTopics(names) {
    for (const each of names) {
      if (![...topics.options].some((option) => option.value === each)) topics.append(el("option", { value: each }, name(each)));
    }
    topics.value = topic;
  }

  function say(text) {
    obstacle.hidden = text === "";
    setText(obstacle, text);
  }

  function draw(found) {
    say(found.blocked);
    const told = JSON.stringify(found);
    if (told !== drawn) drawPreview(found);
    drawn = told;
    if (!confirm || isBusy) return;
    confirm.disabled = found.blocked !== "" || found.partitions === 0;
    confirm.textContent = found.partitions === 1 ? "Reset 1 partition" : `Reset ${count(found.partitions)} partitions`;
  }

  function drawPreview(found) {
    fill(preview,
      table("What would be set", ["Topic", ["Partition", true], ["From", true], ["To", true], ["Change", true]],
        found.rows.map((each) => [name(each.topic), each.partition, count(each.from), count(each.to), difference(each)]), "The group has no offsets to set."),
      found.left_out > 0 && el("p", {}, `… and ${count(found.left_out)} more partitions.`),
      found.warnings.slice(0, 5).map((each) => el("p", { class: "soft" }, `▲ ${each}.`)),
      el("p", {}, "From a terminal: ", command(found.command)));
  }

  async function send() {
    isBusy = confirm.disabled = true;
    await act(result, "api/groups/reset", given());
    isBusy = false;
    if (isOpen) show();
  }

  drawField();
  show();
  return {
    title: `Reset offsets of group ${name(group)}`,
    root,
    update: () => {},
    close: () => {
      isOpen = false;
      clearTimeout(timer);
    },
  };
}

function difference({ from, to }) {
  if (from === null) return "new";
  const by = to - from;
  return by === 0 ? "none" : `${by > 0 ? "+" : "−"}${count(Math.abs(by))}`;
}

/** A time as an input of a local time has it. */
function localTime(ms) {
  const then = new Date(ms);
  return Math.abs(ms) <= LAST_MS ? new Date(ms - then.getTimezoneOffset() * 60_000).toISOString().slice(0, 19) : "";
}
