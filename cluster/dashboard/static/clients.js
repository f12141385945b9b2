// The view of clients: a row per user, client id and quota.

import { get } from "./api.js";
import { el, fill, program, setText } from "./dom.js";
import { count, duration, name, percent, rate } from "./format.js";
import { sparkline } from "./chart.js";
import { addressOf } from "./router.js";
import { Clients } from "./series.js";

const PAGE = 50;
const LOOK_MS = 3000;

const COLUMNS = [
  { key: "user", text: "User", value: (row) => row.user },
  { key: "client_id", text: "Client id", value: (row) => row.client_id },
  { key: "quota", text: "Quota", value: (row) => row.quota },
  { key: "rate", text: "Rate", value: (row) => row.rate, isNumber: true },
  { key: "chart", text: "Last 2 min" },
  { key: "limit", text: "Limit", value: (row) => row.limit ?? Infinity, isNumber: true },
  { key: "utilisation", text: "Used", value: (row) => row.utilisation ?? -1, isNumber: true },
  { key: "delay_ms", text: "Throttle now", value: (row) => row.delay_ms, isNumber: true },
  { key: "throttle", text: "Average / max", value: (row) => row.throttle_avg_ms ?? -1, isNumber: true },
  { key: "muted", text: "Muted", value: (row) => row.muted_left_ms, isNumber: true },
  { key: "rule", text: "Rule", value: (row) => row.rule ?? "" },
  { key: "software", text: "Library", value: (row) => row.software ?? "" },
  { key: "honours", text: "Pauses", value: (row) => (row.honours === null ? 1 : row.honours ? 2 : 0) },
];

/** The view; `update` takes each reading's rows. */
export function clientsView({ past }) {
  let rows = [];
  let leftOut = 0;
  let further = { filter: "", rows: [], askedAt: 0 };
  let filter = "";
  let order = { key: "utilisation", isDown: true };
  let page = 0;
  let lines = new Map();

  const summary = el("p", { class: "summary" });
  const search = el("input", {
    type: "search", id: "filter", placeholder: "Filter by user, client id, quota, rule, library", "aria-label": "Filter clients",
    oninput: () => { filter = search.value.toLowerCase(); page = 0; lookFurther(); draw(); },
  });
  const sorting = el("select", { id: "sort", onchange: () => sortBy(COLUMNS.find((each) => each.key === sorting.value)) },
    COLUMNS.filter((column) => column.value).map((column) => el("option", { value: column.key, selected: column.key === order.key }, column.text)));
  const heads = new Map();
  const head = el("tr", { role: "row" }, COLUMNS.map((column) => {
    const cell = el("th", { scope: "col", role: "columnheader", class: column.isNumber ? "number" : null });
    if (column.value) {
      cell.append(el("button", { type: "button", class: "sort", onclick: () => sortBy(column) }, column.text));
      heads.set(column.key, cell);
    } else {
      cell.append(column.text);
    }
    return cell;
  }));
  const body = el("tbody", { role: "rowgroup" });
  const tiles = clientTiles();
  const pages = el("p", { class: "pages" });
  const empty = el("p", { class: "empty" });
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of clients" },
    el("table", { class: "clients", role: "table" }, el("caption", { class: "hidden" }, "Clients and their quotas"), el("thead", { role: "rowgroup" }, head), body));
  const root = el("section", { "aria-labelledby": "clients-title" },
    el("h2", { id: "clients-title" }, "Clients"), tiles.root,
    el("div", { class: "bar" }, search, el("label", { class: "narrow" }, "Sort by ", sorting), summary), scroll, empty, pages);

  function sortBy(column) {
    order = { key: column.key, isDown: order.key === column.key ? !order.isDown : Boolean(column.isNumber) };
    sorting.value = column.key;
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

  function chosen() {
    const column = COLUMNS.find((each) => each.key === order.key);
    const sign = order.isDown ? -1 : 1;
    const found = known().filter((row) => filter === ""
      || [row.user, row.client_id, row.quota, row.rule, row.software].some((text) => (text ?? "").toLowerCase().includes(filter)));
    return found.sort((one, other) => {
      const [a, b] = [column.value(one), column.value(other)];
      return (a < b ? -1 : a > b ? 1 : one.key < other.key ? -1 : 1) * (a === b ? 1 : sign);
    });
  }

  function draw() {
    const found = chosen();
    const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    page = Math.min(page, last);
    for (const [key, cell] of heads) {
      cell.setAttribute("aria-sort", key !== order.key ? "none" : order.isDown ? "descending" : "ascending");
    }
    const shown = found.slice(page * PAGE, (page + 1) * PAGE);
    const kept = new Map();
    const focused = document.activeElement;
    shown.forEach((row, at) => {
      const line = lines.get(row.key) ?? newLine(row);
      kept.set(row.key, line);
      line.update(row);
      if (body.children[at] !== line.element) body.insertBefore(line.element, body.children[at] ?? null);
      line.draw(past.of(row.key));
    });
    while (body.children.length > shown.length) body.lastChild.remove();
    lines = kept;
    // A row that is moved loses the focus, which whoever uses the keyboard would have to look for again.
    if (focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
    scroll.hidden = shown.length === 0;
    empty.hidden = shown.length > 0;
    setText(empty, rows.length === 0
      ? `No client has used a quota yet. Start one: ${program} load-test --duration 30`
      : "No client matches the filter.");
    const throttled = rows.filter((row) => row.muted_left_ms > 0 || row.delay_ms > 0).length;
    setText(summary, `${count(rows.length)} rows, ${throttled} throttled now`);
    tiles.update(rows, throttled);
    fill(pages, last > 0 && [
      el("button", { type: "button", disabled: page === 0, onclick: () => { page -= 1; draw(); } }, "Previous"),
      ` Page ${page + 1} of ${last + 1} `,
      el("button", { type: "button", disabled: page === last, onclick: () => { page += 1; draw(); } }, "Next"),
    ]);
  }

  return {
    root,
    focusFilter: () => search.focus(),
    update: (newRows, reading) => { rows = newRows; leftOut = reading.clients_left_out; lookFurther(); draw(); },
    close: () => {},
  };
}

/** The summary above the table. */
function clientTiles() {
  const terms = ["Clients", "Throttled now", "Connections muted", "Nearest to its limit"];
  const values = terms.map(() => el("dd", {}, "-"));
  const root = el("dl", { class: "health" }, terms.map((term, at) => el("div", {}, el("dt", {}, term), values[at])));
  return {
    root,
    update(rows, throttled) {
      const live = rows.filter((row) => row.is_live);
      const nearest = live.reduce((most, row) => ((row.utilisation ?? -1) > (most?.utilisation ?? -1) ? row : most), null);
      const texts = [
        count(new Set(live.map((row) => JSON.stringify([row.user, row.client_id]))).size),
        count(throttled),
        count(live.reduce((sum, row) => sum + row.muted, 0)),
        nearest === null ? "no limit is set" : `${percent(nearest.utilisation)} · ${name(nearest.client_id, 24)}`,
      ];
      texts.forEach((text, at) => setText(values[at], text));
      values[1].classList.toggle("wrong", throttled > 0);
    },
  };
}

function newLine(first) {
  const open = el("a", { class: "link", "data-client": first.client_id, href: addressOf("clients", [first.user, first.client_id], { quota: first.quota }) });
  const canvas = el("canvas", { class: "spark", role: "img" });
  const bar = el("span", { class: "bar-fill" });
  const used = el("span");
  const cells = {
    user: el("td", { class: "words" }),
    client_id: el("td", {}, open),
    quota: el("td"),
    rate: el("td", { class: "number" }),
    chart: el("td", {}, canvas),
    limit: el("td", { class: "number" }),
    utilisation: el("td", { class: "number" }, el("span", { class: "bar-frame", "aria-hidden": "true" }, bar), used),
    delay_ms: el("td", { class: "number" }),
    throttle: el("td", { class: "number" }),
    muted: el("td", { class: "number" }),
    rule: el("td", { class: "words" }),
    software: el("td", { class: "words" }),
    honours: el("td"),
  };
  for (const column of COLUMNS) {
    cells[column.key].setAttribute("role", "cell");
    cells[column.key].dataset.label = column.text;
    cells[column.key].dataset.key = column.key;
  }
  const element = el("tr", { role: "row" }, COLUMNS.map((column) => cells[column.key]));
  return {
    element,
    update(row) {
      setText(cells.user, name(row.user, 40));
      setText(open, name(row.client_id, 40));
      setText(cells.quota, row.quota);
      setText(cells.rate, rate(row.quota, row.rate));
      setText(cells.limit, row.limit === null ? "no limit" : rate(row.quota, row.limit));
      setText(used, percent(row.utilisation));
      const share = row.utilisation === null ? 0 : Math.min(1, row.utilisation);
      bar.style.width = `${share * 100}%`;
      const level = row.utilisation === null ? "none" : row.utilisation >= 1 ? "over" : row.utilisation >= 0.8 ? "near" : "fine";
      element.dataset.level = row.is_live ? level : "dead";
      setText(cells.delay_ms, row.delay_ms > 0 ? duration(row.delay_ms) : "-");
      setText(cells.throttle, row.throttle_avg_ms !== null
        ? `${duration(row.throttle_avg_ms)} / ${duration(row.throttle_max_ms)}` : "-");
      setText(cells.muted, row.muted > 0 ? `${row.muted}, ${duration(row.muted_left_ms)} left` : "-");
      setText(cells.rule, row.rule ?? "-");
      setText(cells.software, row.software === null ? "-" : name(row.software, 40));
      for (const cell of [cells.user, cells.rule, cells.software]) cell.title = cell.textContent;
      setText(cells.honours, row.honours === null ? "-" : row.honours ? "✓ yes" : "✗ no");
      for (const cell of Object.values(cells)) cell.classList.toggle("none", cell.textContent === "-");
      canvas.setAttribute("aria-label", `Rate of ${name(row.client_id, 40)} in the last two minutes: now ${cells.rate.textContent}`);
    },
    draw: (series) => sparkline(canvas, series),
  };
}
