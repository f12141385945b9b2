// The view of changes: quotas and brokers, each with the command line that does the same.

import { mayChange, post } from "./api.js";
import { el, fill, setText } from "./dom.js";

const KEYS = [
  ["producer_byte_rate", "Produce, bytes per second"],
  ["consumer_byte_rate", "Fetch, bytes per second"],
  ["request_percentage", "Request time, percent of a thread"],
  ["controller_mutation_rate", "Changed partitions per second"],
];
const UNITS = { "": 1, K: 1024, KIB: 1024, KB: 1000, M: 1024 ** 2, MIB: 1024 ** 2, MB: 1000 ** 2, G: 1024 ** 3, GIB: 1024 ** 3, GB: 1000 ** 3 };

/** The view; it keeps what was entered while readings come. */
export function changeView() {
  const result = el("div", { role: "status", class: "result" });
  const rows = el("tbody");
  const root = el("section", { "aria-labelledby": "change-title" }, el("h2", { id: "change-title" }, "Change"));
  if (!mayChange) {
    root.append(el("p", {}, "This dashboard shows and changes nothing: it was started without --dashboard-actions."));
    return { root, update: () => {}, close: () => {} };
  }
  root.append(quotaForm(result),
    el("h3", {}, "Brokers"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Brokers" },
      el("table", {}, el("caption", { class: "hidden" }, "Brokers"),
        el("thead", {}, el("tr", {}, ["Broker", "State", "Actions"].map((text) => el("th", { scope: "col" }, text)))), rows)),
    result);
  const lines = new Map();

  function update(_rows, reading) {
    const brokers = reading.cluster?.brokers ?? [];
    for (const broker of brokers) {
      if (!lines.has(broker.id)) {
        const state = el("td");
        const button = (action, text, confirmation) => el("button", {
          type: "button", "data-action": action,
          onclick: () => { if (!confirmation || window.confirm(confirmation)) act(result, `api/brokers/${broker.id}/${action}`); },
        }, text);
        rows.append(el("tr", {}, el("td", {}, `broker ${broker.id}`), state, el("td", {},
          button("kill", "Kill", `Kill broker ${broker.id} with SIGKILL? The supervisor starts it again.`), " ",
          button("pause", "Pause"), " ", button("resume", "Resume"), " ", button("restart", "Restart"))));
        lines.set(broker.id, state);
      }
      setText(lines.get(broker.id), broker.state);
    }
  }
  return { root, update, close: () => {} };
}

function quotaForm(result) {
  const who = (label, key) => {
    const input = el("input", { id: `who-${key}`, autocomplete: "off", maxlength: "10000" });
    const isDefault = el("input", { type: "checkbox", id: `default-${key}`, onchange: () => { input.disabled = isDefault.checked; } });
    return { key, input, isDefault, row: el("div", { class: "field" }, el("label", { for: `who-${key}` }, label), input,
      el("label", { for: `default-${key}` }, isDefault, ` the default of every ${label.toLowerCase()}`)) };
  };
  const names = [who("User", "user"), who("Client id", "client-id")];
  const limits = KEYS.map(([key, text]) => ({ key, input: el("input", { id: `limit-${key}`, inputmode: "decimal", placeholder: "unchanged" }), text }));

  async function send(event) {
    event.preventDefault();
    const entity = {};
    for (const each of names) {
      if (each.isDefault.checked) entity[each.key] = null;
      else if (each.input.value !== "") entity[each.key] = each.input.value;
    }
    const changes = {};
    const isRemoval = event.submitter.value === "remove";
    try {
      for (const each of limits) {
        const text = each.input.value.trim();
        if (text !== "") changes[each.key] = isRemoval ? null : amount(text);
      }
      if (Object.keys(entity).length === 0) throw new Error("Name a user, a client id, or the default of either.");
      if (Object.keys(changes).length === 0) throw new Error(isRemoval ? "Write anything beside the limits to remove." : "Write a limit.");
      await act(result, "api/quotas", { entity, changes });
    } catch (problem) {
      fill(result, el("p", { class: "problem" }, problem.message));
    }
  }

  return el("form", { onsubmit: send, class: "quota" },
    el("h3", {}, "Quota"),
    names.map((each) => each.row),
    limits.map((each) => el("div", { class: "field" }, el("label", { for: each.input.id }, each.text), each.input)),
    el("p", {}, "Sizes may have a unit: 500K, 1MiB, 2MB. Limits are per broker."),
    el("div", { class: "bar" }, el("button", { type: "submit", value: "set" }, "Set"), el("button", { type: "submit", value: "remove" }, "Remove")));
}

function amount(text) {
  const matched = /^([0-9]+(?:\.[0-9]+)?)\s*([a-z]*?)(?:\/s)?%?$/i.exec(text);
  const factor = matched && UNITS[matched[2].toUpperCase()];
  if (!factor) throw new Error(`${text} is no amount: write 1048576 or 1MiB.`);
  return Math.round(Number(matched[1]) * factor * 1000) / 1000;
}

async function act(result, path, body) {
  fill(result, el("p", {}, "Asking …"));
  try {
    const done = await post(path, body);
    fill(result, el("p", {}, done.text), el("p", {}, "The same from a terminal: ", el("code", {}, done.command)));
  } catch (problem) {
    fill(result, el("p", { class: "problem" }, problem.message));
  }
}
