// The view of changes: current quotas, a form for new ones, and brokers. Each action shows the command
// line that does the same before it is carried out.

import { get, mayChange, post } from "./api.js";
import { command, el, fill, program, setText, table } from "./dom.js";
import { isBytes, rate } from "./format.js";

const KEYS = [
  ["producer_byte_rate", "Produce, bytes per second", "produce"],
  ["consumer_byte_rate", "Fetch, bytes per second", "fetch"],
  ["request_percentage", "Request time, percent of a thread", "request"],
  ["controller_mutation_rate", "Changed partitions per second", "mutation"],
  ["connection_creation_rate", "New connections per second, of an address", "connection"],
];
const LABELS = { produce: "Produce", fetch: "Fetch", request: "Request time", mutation: "Partition changes", connection: "New connections" };
const UNITS = { "": 1, K: 1024, KIB: 1024, KB: 1000, M: 1024 ** 2, MIB: 1024 ** 2, MB: 1000 ** 2, G: 1024 ** 3, GIB: 1024 ** 3, GB: 1000 ** 3 };
const QUESTIONED = new Set(["kill", "kill-and-keep-down", "pause"]);
const LIST_MS = 5000;
const TYPING_MS = 200;
const ROWS = 100;

/** The view; it keeps the input while readings arrive. */
export function changeView() {
  const root = el("section", { "aria-labelledby": "change-title" }, el("h2", { id: "change-title" }, "Change"));
  const result = el("div", { role: "status", class: "result" });
  const list = quotaList(result);
  if (!mayChange) {
    root.append(el("p", {}, "This dashboard is read-only: it was started without --dashboard-actions."), list.root);
    return { root, update: () => {}, close: list.close };
  }
  const brokers = brokerCards(result);
  root.append(result,
    el("div", { class: "columns uneven" }, quotaForm(result, list.reload), list.root),
    el("h3", {}, "Brokers"), brokers.root);
  return { root, update: (_rows, reading) => brokers.update(reading.cluster?.brokers ?? []), close: list.close };
}

// ---- current quotas

/** Every configured quota, each with a way to remove it. */
function quotaList(result) {
  let found = { quotas: [], left_out: 0 };
  let drawn = "";
  let isOpen = true;
  const filter = el("input", {
    type: "search", id: "quota-filter", placeholder: "Filter by name", "aria-label": "Filter quotas", oninput: () => draw(),
  });
  const bar = el("div", { class: "bar", hidden: true }, filter);
  const place = el("div", { id: "quotas" }, el("p", { class: "empty" }, "Reading …"));
  const root = el("div", {}, el("h3", {}, "Current quotas"), bar, place);

  async function load() {
    try {
      found = await get("api/quotas");
      draw();
    } catch (problem) {
      drawn = "";
      fill(place, el("p", { class: "problem" }, problem.message));
    }
  }

  function draw() {
    const wanted = filter.value.toLowerCase();
    const limits = found.quotas.filter((each) => each.name.toLowerCase().includes(wanted))
      .flatMap((each) => each.limits.map((limit) => ({ ...limit, entity: each.entity, name: each.name })));
    const state = JSON.stringify([limits, found.left_out]);
    if (state === drawn) return;  // keeps the focus on a button
    drawn = state;
    bar.hidden = found.quotas.length <= 10 && wanted === "";
    const more = Math.max(0, limits.length - ROWS);
    fill(place,
      table("Current quotas", ["Applies to", "Quota", ["Limit", true], mayChange ? "Remove" : "Removed by"], limits.slice(0, ROWS).map(row),
        wanted === "" ? "No quota is set." : "No name matches the filter.", { isCaptionHidden: true }),
      more > 0 && el("p", {}, `… and ${more.toLocaleString("en")} more limits: the filter finds them.`),
      found.left_out > 0 && el("p", {}, `${found.left_out.toLocaleString("en")} more names are not read here: ${program} quotas list`));
  }

  function row(each) {
    const name = el("span", { class: "entity", title: each.name }, shortened(each.name));
    const remove = mayChange && el("button", {
      type: "button", class: "small", "data-remove": each.key, "aria-label": `Remove ${each.key} of ${shortened(each.name)}`,
      onclick: async () => {
        await act(result, "api/quotas", { entity: each.entity, changes: { [each.key]: null } });
        reload();
      },
    }, "Remove");
    return [name, el("span", { title: each.key }, LABELS[each.quota] ?? each.key), rate(each.quota, each.limit),
      el("div", { class: "action" }, remove, command(each.command))];
  }

  /** Brokers apply a change one after the other: the one that answers may be later. */
  function reload() {
    load();
    setTimeout(() => { if (isOpen) load(); }, 1000);
  }

  async function again() {
    if (!isOpen) return;
    if (!document.hidden) await load();
    setTimeout(again, LIST_MS);
  }

  again();
  return { root, reload, close: () => { isOpen = false; } };
}

const shortened = (text) => (text.length > 80 ? `${text.slice(0, 70)}…${text.slice(-9)}` : text);

// ---- the form for a quota

function quotaForm(result, onDone) {
  const preview = el("div", { class: "preview", id: "quota-command" });
  let timer = null;
  let asked = 0;

  const who = (label, key) => {
    const input = el("input", { id: `who-${key}`, autocomplete: "off", maxlength: "10000", spellcheck: "false" });
    const isDefault = el("input", { type: "checkbox", id: `default-${key}`, onchange: () => { input.disabled = isDefault.checked; } });
    return { key, input, isDefault, row: el("div", { class: "field" }, el("label", { for: `who-${key}` }, label), input,
      el("label", { for: `default-${key}`, class: "check" }, isDefault, ` all other ${{ User: "users", "Client id": "client ids", Address: "addresses" }[label]} (default)`)) };
  };
  const names = [who("User", "user"), who("Client id", "client-id"), who("Address", "ip")];
  const limits = KEYS.map(([key, text, quota]) => ({
    key, text, input: el("input", { id: `limit-${key}`, autocomplete: "off", placeholder: isBytes(quota) ? "unchanged, or 1MiB" : "unchanged" }) }));

  /** The input of the form; throws an Error that names what is missing. */
  function entered(isRemoval) {
    const entity = {};
    for (const each of names) {
      if (each.isDefault.checked) entity[each.key] = null;
      else if (each.input.value !== "") entity[each.key] = each.input.value;
    }
    const changes = {};
    for (const each of limits) {
      const text = each.input.value.trim();
      if (text !== "") changes[each.key] = isRemoval ? null : amount(text);
    }
    if (Object.keys(entity).length === 0) throw new Error("Enter a user, a client id or an address, or choose a default.");
    if (Object.keys(changes).length === 0) throw new Error(isRemoval ? "Enter any text beside the limits to remove." : "Enter a limit.");
    return { entity, changes };
  }

  async function show() {
    const number = (asked += 1);
    const lines = [];
    try {
      for (const [isRemoval, text] of [[false, "Set"], [true, "Remove"]]) {
        lines.push([text, (await post("api/quotas/command", entered(isRemoval))).command]);
      }
      if (number === asked) fill(preview, lines.map(([text, line]) => el("p", {}, el("span", { class: "soft" }, `${text}: `), command(line))));
    } catch (problem) {
      if (number === asked) fill(preview, el("p", { class: "soft" }, problem.message, " The command line is shown here then."));
    }
  }

  async function send(event) {
    event.preventDefault();
    try {
      await act(result, "api/quotas", entered(event.submitter?.value === "remove"));
      onDone();
    } catch (problem) {
      fill(result, el("p", { class: "problem" }, problem.message));
    }
  }

  const form = el("form", {
    onsubmit: send, class: "quota card", "aria-labelledby": "quota-title",
    oninput: () => { clearTimeout(timer); timer = setTimeout(show, TYPING_MS); },
  },
    el("h3", { id: "quota-title" }, "A quota"),
    names.map((each) => each.row),
    limits.map((each) => el("div", { class: "field" }, el("label", { for: each.input.id }, each.text), each.input)),
    el("p", { class: "soft" }, "Sizes may have a unit: 500K, 1MiB, 2MB. Limits are per broker."),
    el("div", { class: "bar" }, el("button", { type: "submit", value: "set", class: "primary" }, "Set"), el("button", { type: "submit", value: "remove" }, "Remove")),
    preview);
  show();
  return form;
}

function amount(text) {
  const matched = /^([0-9]+(?:\.[0-9]+)?)\s*([a-z]*?)(?:\/s)?%?$/i.exec(text);
  const factor = matched && UNITS[matched[2].toUpperCase()];
  if (!factor) throw new Error(`${text} is no amount: write 1048576 or 1MiB.`);
  return Math.round(Number(matched[1]) * factor * 1000) / 1000;
}

// ---- brokers

function brokerCards(result) {
  const root = el("div", { class: "cards" });
  const cards = new Map();

  async function addCards(ids) {
    for (const id of ids) cards.set(id, null);
    try {
      const { actions } = await get("api/actions");
      for (const id of ids) cards.set(id, card(id, actions.filter((each) => each.broker === id)));
      fill(root, [...cards.values()].map((each) => each?.element));
    } catch {
      for (const id of ids) cards.delete(id);  // asked for again with the next reading
    }
  }

  function card(id, actions) {
    const state = el("span", { class: "pill" });
    const buttons = {};
    const lines = actions.map((each) => {
      buttons[each.action] = el("button", {
        type: "button", class: "small", "data-action": each.action,
        onclick: () => {
          const isSure = !QUESTIONED.has(each.action) || window.confirm(each.confirm);
          if (isSure) act(result, `api/brokers/${id}/${each.action}`);
        },
      }, each.label);
      return el("div", { class: "action" }, buttons[each.action], command(each.command));
    });
    const element = el("article", { class: "card", "data-broker": id }, el("h4", {}, `Broker ${id} `, state), lines);
    return {
      element,
      update(broker) {
        setText(state, broker.state);
        state.dataset.state = broker.state;
        buttons.pause.disabled = broker.state === "paused";
        buttons.resume.disabled = broker.state !== "paused";
      },
    };
  }

  return {
    root,
    async update(brokers) {
      const unknown = brokers.filter((broker) => !cards.has(broker.id)).map((broker) => broker.id);
      if (unknown.length > 0) await addCards(unknown);
      for (const broker of brokers) cards.get(broker.id)?.update(broker);
    },
  };
}

async function act(result, path, body) {
  fill(result, el("p", {}, "Asking …"));
  try {
    const done = await post(path, body);
    fill(result, el("p", {}, "✓ ", done.text, " The same from a terminal:"), el("p", {}, command(done.command)));
  } catch (problem) {
    fill(result, el("p", { class: "problem" }, problem.message));
  }
}
