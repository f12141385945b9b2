// What if: other brokers, traffic, retention or quotas, applied to the history when the button is pressed.
// It changes nothing in the cluster.

import { get } from "./api.js";
import { command, el, explained, fill, setText } from "./dom.js";

const FIELDS = [
  { name: "brokers", label: "Brokers", hint: "+1 for one more, -1 for one fewer, 4 for four in all" },
  { name: "growth", label: "Traffic of clients", hint: "30% for more, -20% for less" },
  { name: "retention", label: "Retention", hint: "3d for all topics, orders=7d for one; several with blanks between", isList: true },
  { name: "quota", label: "Quota of each client id", hint: "producer_byte_rate=2MB, on each broker; several with blanks between", isList: true },
];

/** The form, and the result below it. */
export function whatIf() {
  const fields = FIELDS.map(field);
  const told = el("p", { role: "status", class: "told" });
  const result = el("div", { class: "supposed" });
  let pending = null;  // the question that is being answered

  async function ask(event) {
    event.preventDefault();
    if (pending !== null) return;
    const mine = pending = {};
    fields.forEach((each) => each.complain(""));
    say("Computing …");
    try {
      const found = await get("api/capacity/what-if", fields.flatMap((each) => each.parameters()));
      if (pending === mine) draw(found);
    } catch (problem) {
      if (pending === mine) refuse(problem);
    } finally {
      if (pending === mine) pending = null;
    }
  }

  function draw(found) {
    say(`Supposed: ${found.supposed}. ${found.first}`);
    fill(result,
      el("p", { class: "soft" }, `From ${found.period}.`),
      found.what_if.notes.map((note) => el("p", { class: "soft" }, `Note: ${note}.`)),
      found.tables.map(explained),
      el("p", {}, "The same from a terminal: ", command(found.command)));
  }

  function refuse(problem) {
    const wrong = fields.find((each) => each.name === problem.field);
    fill(result);
    if (wrong === undefined) {
      say(problem.message, true);
      return;
    }
    say("");
    wrong.complain(problem.message);
    wrong.input.focus();
  }

  function say(text, isProblem = false) {
    setText(told, isProblem ? sentence(text) : text);
    told.classList.toggle("problem", isProblem);
  }

  function clear() {
    pending = null;
    fields.forEach((each) => each.complain(""));
    say("");
    fill(result);
  }

  const form = el("form", { class: "what-if card", "aria-labelledby": "what-if-title", onsubmit: ask, onreset: clear, novalidate: true },
    el("h3", { id: "what-if-title" }, "What if"),
    el("div", { class: "fields" }, fields.map((each) => each.root)),
    el("div", { class: "bar" }, el("button", { type: "submit", class: "primary" }, "Compute"), el("button", { type: "reset" }, "Clear")),
    told);
  return { root: el("div", { hidden: true }, form, result) };
}

function field({ name, label, hint, isList }) {
  const id = `what-if-${name}`;
  const input = el("input", { id, autocomplete: "off", spellcheck: "false", maxlength: "2000", "aria-describedby": `${id}-hint ${id}-problem` });
  const problem = el("p", { id: `${id}-problem`, class: "problem", hidden: true });
  return {
    name,
    input,
    root: el("div", {}, el("label", { for: id }, label), input, problem, el("p", { id: `${id}-hint`, class: "soft" }, hint)),
    parameters() {
      const text = input.value.trim();
      if (text === "") return [];
      return isList ? text.split(/\s+/).map((each) => [name, each]) : [[name, text]];
    },
    complain(text) {
      setText(problem, sentence(text));
      problem.hidden = text === "";
      if (text === "") input.removeAttribute("aria-invalid");
      else input.setAttribute("aria-invalid", "true");
    },
  };
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
