// A table of many rows of equal height in a region that scrolls: only those in sight are in the document.

import { el, setText } from "./dom.js";

const AROUND = 16;  // rows beyond what is seen: the Tab key finds them, and scrolling draws only at their end

const { compare: compareTexts } = new Intl.Collator("en", { numeric: true });
const compare = (one, other) => {
  if (one === null || other === null) return (one === null) - (other === null);
  return typeof one === "string" ? compareTexts(one, other) : one - other;
};

/**
 * Columns are { name, label, text(item), value?(item), isNumber?, isWrong?(item), href?(item) }: `value` is what they are
 * sorted by, numbers from the largest. `onSort(name, isReversed)` is called when a user sorts.
 */
export function rowsTable({ caption, columns, keyOf, sort, isReversed = false, onSort = () => {} }) {
  let items = [];
  const drawn = new Map();
  const range = { first: 0, last: 0, height: 0, seen: 0 };
  const heads = new Map(columns.map((column) => [column.name, el("div", { role: "columnheader", "data-cell": column.name, class: column.isNumber ? "number" : null },
    column.value === undefined ? column.label : el("button", { type: "button", class: "sort", onclick: () => sortBy(column.name, column.name === sort && !isReversed) }, column.label))]));
  const choice = el("select", { "aria-label": `Sort ${caption.toLowerCase()} by`, onchange: () => sortBy(choice.value, false) },
    columns.filter((each) => each.value !== undefined).map((each) => el("option", { value: each.name }, each.label)));
  const head = el("div", { role: "rowgroup", class: "rows-head" }, el("div", { role: "row", "aria-rowindex": 1, class: "row" }, [...heads.values()]));
  const body = el("div", { role: "rowgroup", class: "rows-body" });
  const grid = el("div", { role: "table", "aria-label": caption }, head, body);
  const scroll = el("div", { class: "rows-scroll", tabindex: "0", role: "region", "aria-label": `List of ${caption.toLowerCase()}`, onscroll: () => draw(true) }, grid);
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

  /** Draws the rows in sight and some around; while a user scrolls, only where those drawn end. */
  function draw(isScrolled = false) {
    const height = isScrolled ? range.height : parseFloat(getComputedStyle(root).getPropertyValue("--row"));
    if (!height) return;  // it is not in the document yet
    if (!isScrolled) {
      range.height = height;
      range.seen = scroll.clientHeight;
      body.style.height = `${items.length * height}px`;
    }
    const from = Math.max(0, Math.floor(scroll.scrollTop / height) - 1);  // the headings may cover some
    const to = Math.min(items.length, Math.ceil((scroll.scrollTop + range.seen) / height));
    if (!isScrolled || from < range.first || to > range.last) drawRange(from, to);
  }

  function drawRange(from, to) {
    range.first = Math.max(0, from - AROUND);
    range.last = Math.min(items.length, to + AROUND);
    const wanted = items.slice(range.first, range.last);
    const keys = new Set(wanted.map(keyOf));
    const focused = document.activeElement;
    const free = [];
    let passed = null;  // the row with the focus, if it is above those in sight
    for (const [key, row] of drawn) {
      if (keys.has(key)) continue;
      if (row.element.contains(focused)) {
        if (row.at < range.first) passed = row.element;
        continue;
      }
      drawn.delete(key);
      row.element.remove();
      free.push(row);
    }
    // Rows are in the document in their order: the Tab key and screen readers follow it.
    let next = passed === null ? body.firstElementChild : passed.nextElementSibling;
    wanted.forEach((item, at) => {
      const key = keyOf(item);
      const row = drawn.get(key) ?? free.pop() ?? newRow();
      drawn.set(key, row);
      show(row, item, range.first + at);
      if (row.element === next) next = next.nextElementSibling;
      else body.insertBefore(row.element, next);
    });
    if (document.activeElement !== focused) focused.focus({ preventScroll: true });  // its row has moved
  }

  function newRow() {
    const cells = columns.map((column) => {
      const content = el(column.href ? "a" : "span", column.href && { class: "link" });
      return { content, cell: el("div", { role: "cell", "data-cell": column.name, "data-label": column.label, class: column.isNumber ? "number" : null }, content) };
    });
    return { element: el("div", { role: "row", class: "row" }, cells.map(({ cell }) => cell)), cells, item: null, at: null };
  }

  function show(row, item, at) {
    row.element.style.top = `${at * range.height}px`;
    if (row.at !== at) row.element.setAttribute("aria-rowindex", at + 2);
    row.at = at;
    if (row.item === item) return;
    row.item = item;
    columns.forEach((column, number) => {
      const isWrong = Boolean(column.isWrong?.(item));
      const { content } = row.cells[number];
      setText(content, isWrong ? `▲ ${column.text(item)}` : column.text(item));
      content.classList.toggle("wrong", isWrong);
      if (column.href && content.dataset.key !== keyOf(item)) {
        content.dataset.key = content.title = keyOf(item);
        content.href = column.href(item);
      }
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
