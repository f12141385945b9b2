// The view of clients: one row per client with its quotas beneath it, those that matter first.

import { get } from "./api.js";
import { sparkline } from "./chart.js";
import { grouped, hiddenWords, NEAR, ORDERS, QUOTA_NAMES, rankOf, sorted, stateOf } from "./client_list.js";
import { el, fill, program, setText } from "./dom.js";
import { count, duration, name, percent, rate } from "./format.js";
import { addressOf } from "./router.js";
import { Clients } from "./series.js";

const LOOK_MS = 3000;
/** So long a client keeps its place unless it becomes throttled or near its limit, or is so no longer. */
const ORDERED_MS = 5000;
/** So long after a user scrolled no client changes its place for its rate alone. */
const SCROLLED_MS = 1000;
/** Clients that a browser lays out and paints together: one by one, hundreds make scrolling slow. */
const BLOCK = 8;
/** Clients on a phone until more are asked for. */
const FEW = 20;

const COLUMNS = [
  { key: "who", text: "Client", order: "name", hint: "The client id, the user if anybody has logged in, the library and its connections" },
  { key: "state", text: "What happens to it", order: "urgency", hint: "Throttled clients first, then those near a limit, then by rate. A client that ignores throttle time is muted by the broker" },
  { key: "quota", text: "Quota", hint: "What it uses, and what limits it" },
  { key: "chart", text: "Last 2 minutes", hint: "Rate on its busiest broker; the dashed line is the limit" },
  { key: "total", text: "All brokers", order: "rate", isNumber: true, hint: "The rate on all brokers together" },
  { key: "rate", text: "Busiest broker", isNumber: true, hint: "The rate on the broker where it is nearest to its limit" },
  { key: "limit", text: "Limit per broker", isNumber: true, hint: "Each broker applies the limit on its own" },
  { key: "used", text: "Used", order: "used", isNumber: true, hint: "The share of the limit used on the busiest broker" },
];
const OF_QUOTA = COLUMNS.slice(2);

/** The view; `update` takes each reading's rows. */
export function clientsView({ past, options, setOptions }) {
  let rows = [];
  let leftOut = 0;
  let hasUsers = false;
  let further = { filter: "", rows: [], askedAt: 0 };
  let filter = options.get("filter") ?? "";
  let order = options.get("sort") in ORDERS ? options.get("sort") : "urgency";
  let isReversed = options.get("reversed") === "1";
  let isAll = options.get("all") === "1";
  let few = FEW;
  let scrolledAt = 0;
  let placed = { signature: "", at: 0, keys: new Map() };
  let lines = new Map();
  const blocks = [];
  const isPhone = matchMedia("(max-width: 46rem)");

  const summary = el("p", { class: "summary" });
  const search = el("input", {
    type: "search", id: "filter", placeholder: "Filter by client id, user, quota, rule, library", "aria-label": "Filter clients", value: filter,
    oninput: () => { filter = search.value; few = FEW; setOptions({ filter }); lookFurther(); draw(); },
  });
  const sorting = el("select", { id: "sort", onchange: () => sortBy(sorting.value) },
    Object.entries(ORDERS).map(([key, { text }]) => el("option", { value: key }, text)));
  const heads = new Map();
  const head = el("div", { role: "row" }, COLUMNS.map((column) => {
    const cell = el("div", { role: "columnheader", class: column.isNumber ? "number" : null, title: column.hint });
    if (column.order) {
      cell.append(el("button", { type: "button", class: "sort", onclick: () => sortBy(column.order) }, column.text));
      heads.set(column.order, cell);
    } else {
      cell.append(column.text);
    }
    return cell;
  }));
  const headings = el("div", { role: "rowgroup", class: "client headings" }, head);
  const list = el("div", { role: "table", class: "clients", "aria-label": "Clients and their quotas" }, headings);
  const hiddenLine = el("p", { class: "soft" });
  const showAll = el("button", { type: "button", class: "small", id: "show-hidden", onclick: () => { isAll = !isAll; setOptions({ all: isAll ? "1" : "" }); draw(); } });
  const hidden = el("div", { class: "bar hidden-clients" }, hiddenLine, showAll);
  const more = el("button", { type: "button", class: "more", onclick: () => { few += 50; draw(); } });
  const empty = el("p", { class: "empty" });
  const explained = el("details", { class: "how" }, el("summary", {}, "What the columns mean"),
    el("dl", {}, COLUMNS.map(({ text, hint }) => [el("dt", {}, text), el("dd", {}, `${hint}.`)])));
  const root = el("section", { "aria-labelledby": "clients-title" },
    el("h2", { id: "clients-title" }, "Clients"), summary,
    el("div", { class: "bar" }, search, el("label", { class: "narrow" }, "Sort by ", sorting)), list, empty, more, hidden, explained);

  // Only what is in sight is brought up to date.
  const inSight = new Set();
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) inSight.add(target);
      else inSight.delete(target);
    }
    for (const { target, isIntersecting } of entries) if (isIntersecting) linesOf(target).forEach((line) => line.update(hasUsers));
    for (const { target, isIntersecting } of entries) if (isIntersecting) linesOf(target).forEach((line) => line.draw(past));
  }, { rootMargin: "200px" });
  const linesOf = (block) => [...block.children].flatMap(({ dataset }) => lines.get(dataset.key) ?? []);

  function sortBy(chosen) {
    isReversed = order === chosen && !isReversed;
    order = chosen;
    setOptions({ sort: order === "urgency" ? "" : order, reversed: isReversed ? "1" : "" });
    draw();
  }

  /** Readings have the rows nearest to their limits; the dashboard is asked for other rows that match. */
  async function lookFurther() {
    if (filter === "" || leftOut === 0) return;
    if (filter === further.filter && Date.now() - further.askedAt < LOOK_MS) return;
    const asked = { filter, rows: filter === further.filter ? further.rows : [], askedAt: Date.now() };
    further = asked;
    try {
      asked.rows = new Clients().take(await get("api/found", { search: filter }));
      if (further === asked) draw();
    } catch {
      // the stream says when the dashboard does not answer
    }
  }

  /** The rows of the reading, and those found by the filter. */
  function known() {
    if (filter === "" || further.filter !== filter) return rows;
    const keys = new Set(rows.map((row) => row.key));
    return [...rows, ...further.rows.filter((row) => !keys.has(row.key))];
  }

  function matches(client) {
    const wanted = filter.toLowerCase();
    const told = [client.client_id, client.user, client.software, ...client.rows.flatMap((row) => [row.quota, row.rule])];
    return told.some((text) => (text ?? "").toLowerCase().includes(wanted));
  }

  /** In the order of the last seconds, unless another client matters now. */
  function ordered(clients) {
    const signature = JSON.stringify([order, isReversed, filter, isAll, clients.map((each) => [each.key, rankOf(each)])]);
    const isOld = Date.now() - placed.at > ORDERED_MS && Date.now() - scrolledAt > SCROLLED_MS;
    if (signature !== placed.signature || isOld) {
      const keys = new Map(sorted(clients, order, isReversed).map((client, at) => [client.key, at]));
      placed = { signature, at: Date.now(), keys };
    }
    return clients.sort((one, other) => placed.keys.get(one.key) - placed.keys.get(other.key));
  }

  function draw() {
    const all = grouped(known());
    const found = ordered(all.filter((client) => (filter === "" ? isAll || client.hidden === null : matches(client))));
    sorting.value = order;
    for (const [key, cell] of heads) {
      const isDown = isReversed === (key === "name");
      cell.setAttribute("aria-sort", key !== order ? "none" : isDown ? "descending" : "ascending");
    }
    const shown = isPhone.matches ? found.slice(0, few) : found;
    place(shown);
    list.hidden = shown.length === 0;
    empty.hidden = shown.length > 0;
    setText(empty, rows.length === 0 ? `No client has used a quota yet. Start one: ${program} load-test --duration 30`
      : filter !== "" ? "No client matches the filter." : "No client has sent a request in the last minute.");
    more.hidden = shown.length === found.length;
    setText(more, `Show ${Math.min(50, found.length - shown.length)} more of ${found.length}`);
    tellHidden(all);
    setText(summary, summaryOf(all.filter((client) => client.hidden === null)));
  }

  function place(shown) {
    const kept = new Map();
    const focused = document.activeElement;
    shown.forEach((client, at) => {
      const isNew = !lines.has(client.key);
      const line = isNew ? newLine(client) : lines.get(client.key);
      kept.set(client.key, line);
      line.client = client;
      const block = blocks[Math.floor(at / BLOCK)] ?? newBlock();
      const there = block.children[at % BLOCK] ?? null;
      if (there !== line.element) block.insertBefore(line.element, there);
      if (isNew || inSight.has(block)) line.update(hasUsers);
    });
    for (const [key, line] of lines) if (!kept.has(key)) line.element.remove();
    lines = kept;
    for (const block of blocks.splice(Math.ceil(shown.length / BLOCK))) {
      sight.unobserve(block);
      inSight.delete(block);
      block.remove();
    }
    for (const block of inSight) linesOf(block).forEach((line) => line.draw(past));
    // A row that is moved loses the focus, which whoever uses the keyboard would have to look for again.
    if (focused !== document.activeElement && list.contains(focused)) focused.focus({ preventScroll: true });
  }

  function newBlock() {
    const block = el("div", { role: "none", class: "block" });
    list.append(block);
    blocks.push(block);
    sight.observe(block);
    return block;
  }

  function tellHidden(all) {
    const others = all.filter((client) => client.hidden !== null);
    hidden.hidden = others.length === 0 || filter !== "";
    setText(hiddenLine, hiddenWords(others));
    setText(showAll, isAll ? `Hide these ${others.length}` : `Show ${others.length} more`);
  }

  const onScroll = () => { scrolledAt = Date.now(); };
  isPhone.addEventListener("change", draw);
  window.addEventListener("scroll", onScroll, { passive: true });
  return {
    root,
    focusFilter: () => search.focus(),
    update(newRows, reading) {
      rows = newRows;
      leftOut = reading.clients_left_out;
      hasUsers = reading.has_users;
      lookFurther();
      draw();
    },
    close: () => {
      isPhone.removeEventListener("change", draw);
      window.removeEventListener("scroll", onScroll);
      sight.disconnect();
    },
  };
}

/** How many clients are throttled now, and which is nearest to its limit. */
function summaryOf(clients) {
  if (clients.length === 0) return "";
  const number = (rank) => clients.filter((client) => rankOf(client) === rank).length;
  const [throttled, near] = [number(0), number(1)];
  const all = `${count(clients.length)} client${clients.length === 1 ? "" : "s"}`;
  const first = throttled === 0 ? `${all}, 0 throttled now` : `${all}, ${count(throttled)} throttled now`;
  return near > 0 ? `${first}, ${count(near)} near a limit.` : `${first}.`;
}

/** The elements of one client. */
function newLine(first) {
  const link = el("a", { class: "link", "data-client": first.client_id, href: addressOf("clients", [first.user, first.client_id]) }, name(first.client_id, 40));
  const user = el("span", { class: "user" });
  const software = el("small", { class: "soft" });
  const word = el("strong", { class: "verdict" });
  const text = el("span");
  const who = el("div", { role: "rowheader", class: "who" }, link, user, software);
  const state = el("div", { role: "cell", class: "state" }, word, text);
  const nothing = el("div", { role: "cell", class: "nothing", "aria-colspan": OF_QUOTA.length }, "no use now");
  const element = el("div", { role: "rowgroup", class: "client", "data-key": first.key });
  const quotas = new Map();
  let drawn = "";

  function arrange(shown) {
    const keys = shown.map((row) => row.quota);
    const isFree = shown.map((row) => row.limit === null);
    if (drawn === JSON.stringify([keys, isFree])) return;
    drawn = JSON.stringify([keys, isFree]);
    const spanned = Math.max(1, shown.length);
    for (const cell of [who, state]) {
      cell.setAttribute("aria-rowspan", spanned);
      cell.style.gridRow = `1 / span ${spanned}`;
    }
    const cells = keys.length > 0 ? keys.map((key) => quotas.get(key).cells) : [[nothing]];
    fill(element, cells.map((each, at) => el("div", { role: "row", "data-quota": keys[at], "data-free": isFree[at] }, at === 0 && [who, state], each)));
  }

  return {
    element,
    client: first,
    update(hasUsers) {
      const { client } = this;
      setText(user, hasUsers ? ` as ${name(client.user, 30)}` : "");
      const connections = client.connections > 0 ? `${client.connections} connection${client.connections > 1 ? "s" : ""}` : "";
      setText(software, [client.software === null ? "" : name(client.software, 28), connections].filter(Boolean).join(", "));
      const told = stateOf(client, duration);
      setText(word, told.word);
      setText(text, told.word && told.text ? `: ${told.text}` : told.text);
      element.dataset.rank = client.isLive ? rankOf(client) : "dead";
      for (const row of client.quotas) {
        if (!quotas.has(row.quota)) quotas.set(row.quota, newQuota(row));
        quotas.get(row.quota).update(row);
      }
      arrange(client.quotas);
    },
    draw: (past) => { for (const quota of quotas.values()) quota.draw(past); },
  };
}

/** The cells of one quota of a client. */
function newQuota(first) {
  const chart = sparkline();
  const bar = el("span", { class: "bar-fill" });
  const used = el("span");
  const frame = el("span", { class: "bar-frame", "aria-hidden": "true" }, bar);
  const cells = Object.fromEntries(OF_QUOTA.map(({ key, isNumber }) => [key, el("div", { role: "cell", class: isNumber ? "number" : null, "data-cell": key })]));
  cells.quota.append(QUOTA_NAMES[first.quota]);
  cells.chart.append(chart.root);
  cells.used.append(frame, used);
  return {
    cells: Object.values(cells),
    update(row) {
      setText(cells.total, rate(row.quota, row.total));
      setText(cells.rate, rate(row.quota, row.rate));
      setText(cells.limit, row.limit === null ? "no limit" : rate(row.quota, row.limit));
      cells.limit.title = row.rule === null ? "" : `Rule: ${row.rule}`;
      cells.limit.classList.toggle("soft", row.limit === null);
      frame.hidden = row.utilisation === null;
      setText(used, row.utilisation === null ? "" : percent(row.utilisation));
      bar.style.width = `${Math.min(1, row.utilisation ?? 0) * 100}%`;
      cells.used.dataset.level = row.utilisation >= 1 ? "over" : row.utilisation >= NEAR ? "near" : "fine";
      chart.root.setAttribute("aria-label", `Rate in the last two minutes: now ${cells.rate.textContent}`);
    },
    draw: (past) => chart.draw(past.of(first.key)),
  };
}
