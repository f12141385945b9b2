// The view of changes: current quotas, a form for new ones, and brokers. Each action says what will
// happen, with the command line that does the same, before it is carried out.

import { get, mayChange, post } from "./api.js";
import { QUOTA_NAMES } from "./client_list.js";
import { command, el, fill, program, setText, table } from "./dom.js";
import { isBytes, rate } from "./format.js";
import { addressOf } from "./router.js";

const KEYS = [
  ["producer_byte_rate", "Produce, bytes per second", "produce"],
  ["consumer_byte_rate", "Fetch, bytes per second", "fetch"],
  ["request_percentage", "Request time, percent of a thread", "request"],
  ["controller_mutation_rate", "Changed partitions per second", "mutation"],
  ["connection_creation_rate", "New connections per second, of an address", "connection"],
];
const NOUNS = { user: "user", "client-id": "client id", ip: "address" };
const OTHERS = { user: "all other users (default)", "client-id": "all other client ids (default)", ip: "all other addresses (default)" };
const CHANGED = "cluster-changed";
const UNITS = { "": 1, K: 1024, KIB: 1024, KB: 1000, M: 1024 ** 2, MIB: 1024 ** 2, MB: 1000 ** 2, G: 1024 ** 3, GIB: 1024 ** 3, GB: 1000 ** 3 };
export const READ_ONLY = "This dashboard is read-only: it was started without --dashboard-actions.";
const LIST_MS = 5000;
const TYPING_MS = 200;
const ROWS = 100;

/** The view; it keeps the input while readings arrive. The address may fill in the form. */
export function changeView({ options }) {
  const root = el("section", { "aria-labelledby": "change-title" }, el("h2", { id: "change-title" }, "Change"));
  const list = quotaList();
  if (!mayChange) {
    root.append(el("p", {}, READ_ONLY), list.root);
    return { root, update: () => {}, close: list.close };
  }
  const brokers = brokerActions();
  root.append(el("div", { class: "columns uneven" }, quotaForm(options), list.root), el("h3", {}, "Brokers"), brokers.root);
  return { root, update: (_rows, reading) => brokers.update(reading.cluster?.brokers ?? []), close: list.close };
}

// ---- current quotas

/** Every configured quota, each with a way to remove it. */
function quotaList() {
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
      table("Current quotas", ["Applies to", "Quota", ["Limit per broker", true], mayChange ? "Remove" : "Removed by"], limits.slice(0, ROWS).map(row),
        wanted === "" ? "No quota is set." : "No name matches the filter.", { isCaptionHidden: true }),
      more > 0 && el("p", {}, `… and ${more.toLocaleString("en")} more limits: the filter finds them.`),
      found.left_out > 0 && el("p", {}, `${found.left_out.toLocaleString("en")} more names are not read here: ${program} quotas list`));
  }

  function row(each) {
    const name = whose(each.entity);
    const remove = mayChange && el("a", {
      class: "button small", "data-remove": each.key, "aria-label": `Remove ${each.key} of ${name}`,
      href: addressOf("remove-quota", [each.key], Object.fromEntries(Object.entries(each.entity).map(entry))),
    }, "Remove");
    return [el("span", { class: "entity", title: each.name }, name), el("span", { title: each.key }, QUOTA_NAMES[each.quota] ?? each.key), rate(each.quota, each.limit),
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
  window.addEventListener(CHANGED, reload);
  return { root, close: () => { isOpen = false; window.removeEventListener(CHANGED, reload); } };
}

/** `user alice with all other client ids (default)`. */
function whose(entity) {
  return Object.entries(entity).map(([key, name]) => (name === null ? OTHERS[key] : `${NOUNS[key]} ${shortened(name)}`)).join(" with ");
}

/** A part of an entity in an address, where the default has no name. */
const entry = ([key, name]) => (name === null ? [`default-${key}`, "1"] : [key, name]);

function entityIn(options) {
  return Object.fromEntries(Object.keys(NOUNS).filter((key) => options.has(key) || options.has(`default-${key}`))
    .map((key) => [key, options.has(key) ? options.get(key) : null]));
}

const shortened = (text) => (text.length > 80 ? `${text.slice(0, 70)}…${text.slice(-9)}` : text);

// ---- the form for a quota

function quotaForm(options) {
  const result = el("div", { role: "status", class: "result" });
  const preview = el("div", { class: "preview", id: "quota-command" });
  let timer = null;
  let asked = 0;

  const given = entityIn(options);
  const who = (label, key) => {
    const input = el("input", { id: `who-${key}`, autocomplete: "off", maxlength: "10000", spellcheck: "false", value: given[key], disabled: given[key] === null });
    const isDefault = el("input", { type: "checkbox", id: `default-${key}`, checked: given[key] === null, onchange: () => { input.disabled = isDefault.checked; } });
    return { key, input, isDefault, row: el("div", { class: "field" }, el("label", { for: `who-${key}` }, label), input,
      el("label", { for: `default-${key}`, class: "check" }, isDefault, ` ${OTHERS[key]}`)) };
  };
  const names = [who("User", "user"), who("Client id", "client-id"), who("Address", "ip")];
  const limits = KEYS.map(([key, text, quota]) => ({
    key, text, input: el("input", { id: `limit-${key}`, autocomplete: "off", value: options.get(key), placeholder: isBytes(quota) ? "unchanged, or 1MiB" : "unchanged" }) }));

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
      window.dispatchEvent(new Event(CHANGED));
    } catch (problem) {
      fill(result, el("p", { class: "problem" }, problem.message));
    }
  }

  const form = el("form", {
    onsubmit: send, class: "quota card", "aria-labelledby": "quota-title",
    oninput: () => { clearTimeout(timer); timer = setTimeout(show, TYPING_MS); },
  },
    el("h3", { id: "quota-title" }, "Set a limit"),
    el("h4", {}, "Applies to"), names.map((each) => each.row),
    el("h4", {}, "Limit per broker"), limits.map((each) => el("div", { class: "field" }, el("label", { for: each.input.id }, each.text), each.input)),
    el("p", { class: "soft" }, "Sizes may have a unit: 500K, 1MiB, 2MB."),
    el("div", { class: "bar" }, el("button", { type: "submit", value: "set", class: "primary" }, "Set"), el("button", { type: "submit", value: "remove" }, "Remove")),
    result, preview);
  show();
  return form;
}

function amount(text) {
  const matched = /^([0-9]+(?:\.[0-9]+)?)\s*([a-z]*?)(?:\/s)?%?$/i.exec(text);
  const factor = matched && UNITS[matched[2].toUpperCase()];
  if (!factor) throw new Error(`Not a size: ${text}. Write 1048576 or 1MiB.`);
  return Math.round(Number(matched[1]) * factor * 1000) / 1000;
}

// ---- brokers

/** A row of each broker: its state, and links to the dialogs of its actions. */
function brokerActions() {
  const root = el("div", { class: "broker-actions card" });
  const lines = new Map();

  async function addLines(ids) {
    for (const id of ids) lines.set(id, null);
    try {
      const { actions } = await get("api/actions");
      for (const id of ids) lines.set(id, line(id, actions.filter((each) => each.broker === id)));
      fill(root, [...lines.values()].map((each) => each?.element));
    } catch {
      for (const id of ids) lines.delete(id);  // asked for again with the next reading
    }
  }

  function line(id, actions) {
    const state = el("span", { class: "pill" });
    const links = Object.fromEntries(actions.map(({ action, label }) => [action, el("a", {
      class: "button small", "data-action": action, href: addressOf("brokers", [id, action]), "aria-label": `${label} broker ${id}`,
    }, `${label} …`)]));
    const element = el("div", { class: "bar", "data-broker": id }, el("strong", {}, `Broker ${id}`), state, Object.values(links));
    return {
      element,
      update(broker) {
        setText(state, broker.state);
        state.dataset.state = broker.state;
        links.pause.hidden = broker.state === "paused";
        links.resume.hidden = broker.state !== "paused";
      },
    };
  }

  return {
    root,
    async update(brokers) {
      const unknown = brokers.filter((broker) => !lines.has(broker.id)).map((broker) => broker.id);
      if (unknown.length > 0) await addLines(unknown);
      for (const broker of brokers) lines.get(broker.id)?.update(broker);
    },
  };
}

// ---- confirmations: what will happen, and the command line that does the same

/** `#brokers/1/kill` */
export function actionDialog({ parts: [broker, action] }) {
  return confirmation(`${action.replaceAll("-", " ")} broker ${broker}`, async () => {
    const { actions } = await get("api/actions");
    const row = actions.find((each) => String(each.broker) === broker && each.action === action);
    if (row === undefined) throw new Error(`There is no broker ${broker}, or no action ${action}.`);
    return { question: row.confirm, label: row.label, line: row.command, path: `api/brokers/${broker}/${action}` };
  });
}

/** `#remove-quota/producer_byte_rate?client-id=...` */
export function removalDialog({ parts: [key], options }) {
  const entity = entityIn(options);
  return confirmation("remove a limit", async () => {
    const found = (await get("api/quotas")).quotas.find((each) => sameEntity(each.entity, entity));
    const limit = found?.limits.find((each) => each.key === key);
    if (limit === undefined) throw new Error("This limit is not set, or no longer.");
    return {
      question: `Remove the limit of ${rate(limit.quota, limit.limit)} (${key}) of ${whose(entity)}? The next less specific limit applies at once, if there is one.`,
      label: "Remove", line: limit.command, path: "api/quotas", body: { entity, changes: { [key]: null } },
    };
  });
}

const sameEntity = (one, other) => Object.keys(NOUNS).every((key) => one[key] === other[key]);

/** A dialog that asks, and then says what was done. `read` gives { question, label, line, path, body }. */
export function confirmation(title, read) {
  const result = el("div", { role: "status", class: "result" });
  const question = el("div", {}, el("p", {}, "Reading …"));
  const root = el("div", {}, question, result);
  read().then(({ question: text, label, line, path, body }) => {
    const confirm = mayChange && el("button", {
      type: "button", class: "primary", id: "confirm",
      onclick: async () => {
        confirm.disabled = true;
        confirm.disabled = await act(result, path, body);
        window.dispatchEvent(new Event(CHANGED));
      },
    }, label);
    fill(question, el("p", {}, text), el("p", {}, "From a terminal: ", command(line)), confirm || el("p", {}, READ_ONLY));
  }, (problem) => fill(question, el("p", { class: "problem" }, problem.message)));
  return { title: title.charAt(0).toUpperCase() + title.slice(1), root, update: () => {}, close: () => {} };
}

/** Carries out a change, says what was done, and whether it was. */
export async function act(result, path, body) {
  fill(result, el("p", {}, "Asking …"));
  const isDone = await acted(result, path, body);
  // The button that was pressed is disabled and has lost the focus.
  if (document.activeElement === document.body && result.isConnected) {
    result.tabIndex = -1;
    result.focus();
  }
  return isDone;
}

async function acted(result, path, body) {
  try {
    const done = await post(path, body);
    fill(result, el("p", {}, "✓ ", done.text, " The same from a terminal:"), el("p", {}, command(done.command)));
    return true;
  } catch (problem) {
    fill(result, el("p", { class: "problem" }, problem.message));
    return false;
  }
}
