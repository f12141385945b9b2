// Elements are made by functions: whatever a client calls itself is text, never markup.

/** An element with attributes and children; a child that is no element is text, null is nothing. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces all that is in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Sets a text if it has changed: an unchanged one keeps a reader's selection and costs nothing. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A table of texts: columns are [heading, isNumber] or headings, rows arrays of texts and elements. */
export function table(caption, columns, rows, empty = "None.") {
  if (rows.length === 0) return el("p", { class: "empty" }, empty);
  const heads = columns.map((column) => (Array.isArray(column) ? column : [column, false]));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, heads.map(([text, isNumber]) =>
        el("th", { scope: "col", class: isNumber ? "number" : null }, text)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) =>
        el("td", { class: heads[at][1] ? "number" : null }, cell)))))));
}
