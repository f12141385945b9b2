// A table of many rows of equal height in a region that scrolls: only those in sight are in the document.

import { el, fill, setText } from "./dom.js";

const AROUND = 8;  // rows beyond what is seen, so that the Tab key finds the next

const compare = (one, other) => {
  if (one === null || other === null) return (one === null) - (other === null);
  return typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other;
};

/**
 * Columns are { name, label, text(item), value?(item), isNumber?, isWrong?(item), href?(item), title?(item) }: `value` is what they are
 * sorted by, numbers from the largest. `onSort(name, isReversed)` is called when a user sorts.
 */
export function rowsTable({ caption, columns, keyOf, sort, isReversed = false, onSort = () => {} }) {
  let items = [];
  let drawn = new Map();
  const heads = new Map(columns.map((column) => [column.name, el("div", { role: "columnheader", "data-cell": column.name, class: column.isNumber ? "number" : null },
    column.value === undefined ? column.label : el("button", { type: "button", class: "sort", onclick: () => sortBy(column.name, column.name === sort && !isReversed) }, column.label))]));
  const choice = el("select", { "aria-label": `Sort ${caption.toLowerCase()} by`, onchange: () => sortBy(choice.value, false) },
    columns.filter((each) => each.value !== undefined).map((each) => el("option", { value: each.name }, each.label)));
  const head = el("div", { role: "rowgroup", class: "rows-head" }, el("div", { role: "row", "aria-rowindex": 1, class: "row" }, [...heads.values()]));
  const body = el("div", { role: "rowgroup", class: "rows-body" });
  const grid = el("div", { role: "table", "aria-label": caption }, head, body);
  const scroll = el("div", { class: "rows-scroll", tabindex: "0", role: "region", "aria-label": `List of ${caption.toLowerCase()}`, onscroll: () => draw() }, grid);
  const empty = el("p", { class: "empty", hidden: true });
  const root = el("div", { class: "rows" }, el("label", { class: "narrow rows-sort" }, "Sort by ", choice), scroll, empty);
  const resized = new ResizeObserver(() => draw());
  resized.observe(scroll);

  function sortBy(name, reversed) {
    sort = name;
    isReversed = reversed;
    arrange();
    onSort(sort, isReversed);
  }

  function arrange() {
    const column = columns.find((each) => each.name === sort && each.value !== undefined) ?? columns[0];
    const sign = (isReversed ? -1 : 1) * (column.isNumber ? -1 : 1);
    // What is not known comes last in both directions.
    items.sort((one, other) => {
      const [a, b] = [column.value(one), column.value(other)];
      return (a === null || b === null ? 1 : sign) * compare(a, b) || compare(keyOf(one), keyOf(other));
    });
    choice.value = column.name;
    for (const [name, cell] of heads) {
      if (name === column.name) cell.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
    draw();
  }

  function draw() {
    const height = parseFloat(getComputedStyle(root).getPropertyValue("--row"));
    if (Number.isNaN(height)) return;  // it is not in the document yet
    body.style.height = `${items.length * height}px`;
    const first = Math.max(0, Math.floor((scroll.scrollTop - head.offsetHeight) / height) - AROUND);
    const last = Math.min(items.length, Math.ceil((scroll.scrollTop + scroll.clientHeight) / height) + AROUND);
    const kept = new Map();
    for (let at = first; at < last; at += 1) {
      const key = keyOf(items[at]);
      const row = drawn.get(key) ?? newRow(items[at]);
      show(row, items[at], at, height);
      kept.set(key, row);
    }
    const focused = document.activeElement;
    for (const [key, row] of drawn) {
      if (kept.has(key)) continue;
      if (row.element.contains(focused)) kept.set(key, row);
      else row.element.remove();
    }
    drawn = kept;
  }

  function newRow(item) {
    const cells = columns.map((column) => {
      const content = column.href ? el("a", { class: "link", href: column.href(item), title: column.title?.(item), "data-key": keyOf(item) }) : el("span");
      return { content, cell: el("div", { role: "cell", "data-cell": column.name, "data-label": column.label, class: column.isNumber ? "number" : null }, content) };
    });
    const element = el("div", { role: "row", class: "row" }, cells.map(({ cell }) => cell));
    body.append(element);
    return { element, cells, item: null };
  }

  function show(row, item, at, height) {
    row.element.style.transform = `translateY(${at * height}px)`;
    if (row.at !== at) row.element.setAttribute("aria-rowindex", at + 2);
    row.at = at;
    if (row.item === item) return;
    row.item = item;
    columns.forEach((column, number) => {
      const isWrong = Boolean(column.isWrong?.(item));
      const { content } = row.cells[number];
      setText(content, isWrong ? `▲ ${column.text(item)}` : column.text(item));
      content.classList.toggle("wrong", isWrong);
    });
  }

  return {
    root,
    update(newItems, nothing) {
      items = [...newItems];
      grid.setAttribute("aria-rowcount", items.length + 1);
      scroll.hidden = items.length === 0;
      empty.hidden = items.length > 0;
      setText(empty, nothing);
      arrange();
    },
    close: () => resized.disconnect(),
  };
}
