// Elements are made by functions: names chosen by clients are text, never markup.

/** The command line's name, for commands that the page names. */
export const program = document.body.dataset.program;

/** Whether clients log in or are held by access rules. */
export const isGuarded = document.body.hasAttribute("data-guarded");

/** An element with attributes and children; other children become text, null is ignored. */
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

/** Replaces the content of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Replaces the content as `fill` does; what is drawn again keeps the focus, a region its place. */
export function refill(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  const places = [...element.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  fill(element, ...children);
  [...element.querySelectorAll(".scroll")].forEach((each, at) => { each.scrollLeft = places[at] ?? 0; });
  if (active === null || active.isConnected) return element;
  const key = (each) => each.getAttribute("href") ?? each.getAttribute("aria-label") ?? each.textContent;
  [...element.querySelectorAll(active.tagName)].find((each) => key(each) === key(active))?.focus({ preventScroll: true });
  return element;
}

/** The heading of a page beneath a view: [text, address] of each page above it, then its own name. */
export function trail(id, above, own) {
  const step = ([text, href]) => [el("a", { href }, text), " ", el("span", { class: "soft", "aria-hidden": "true" }, "›"), " "];
  return el("h2", { id, class: "trail" }, above.map(step), el("span", {}, own));
}

/** Sets a text if it has changed: an unchanged one keeps a reader's selection and costs nothing. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A command line with a button that copies it, if the browser allows that. */
export function command(line) {
  const copy = navigator.clipboard && el("button", {
    type: "button", class: "copy", title: "Copy the command line", "aria-label": `Copy ${line}`,
    onclick: async () => {
      await navigator.clipboard.writeText(line);
      setText(copy, "Copied");
      setTimeout(() => setText(copy, "Copy"), 1500);
    },
  }, "Copy");
  // A line breaks between words: a browser would also break it after the dashes of an option.
  const words = line.split(" ").map((word, at) => [at > 0 && " ", el("span", { class: "word" }, word)]);
  return el("span", { class: "command" }, el("code", {}, words), copy);
}

/** Radio buttons that look like one control: options are [value, text, onChoose]. `content` is a legend, unless `labelledBy` has one. */
export function choices({ name, options, chosen, labelledBy }, content) {
  return el("fieldset", { class: "ranges", "aria-labelledby": labelledBy }, content, options.map(([value, text, onchange]) => el("label", {},
    el("input", { type: "radio", name, value, checked: value === chosen, onchange }), el("span", {}, text))));
}

/** A table of figures that can be folded, with its notes and how the figures were computed. */
export function explained({ title, columns, rows, notes, how: way }) {
  const heads = columns.map(([text, kind]) => [text === "" ? "what" : text, kind === ""]);
  const part = foldable(title,
    table(title, heads.map(([text, isNumber]) => [text.charAt(0).toUpperCase() + text.slice(1), isNumber]), rows, notes[0] ?? "None.", { isCaptionHidden: true }),
    rows.length > 0 && notes.slice(1).map((note) => el("p", { class: "soft" }, note)),
    how(way));
  part.tell(notes[0] ?? (rows.length === 1 ? "1 row" : `${rows.length} rows`));
  return part.root;
}

export const how = (text) => el("details", { class: "how" }, el("summary", {}, "How"), el("p", {}, `${text}.`));

const narrow = matchMedia("(max-width: 46rem)");

/** A table that shows its first rows until all are asked for: `draw(rows, empty, note)`.
 *
 * On a phone a row shows its first cell and those of the columns [heading, isNumber, true] until it is opened.
 */
export function growingTable(caption, columns, { wide = 25, phone = 6, isCaptionHidden = false } = {}) {
  const root = el("div", { class: "growing" });
  const opened = new Set();
  const isKey = columns.map((column, at) => at === 0 || (Array.isArray(column) && column[2] === true));
  let isWhole = false;
  const draw = (rows, empty, note) => {
    const first = isWhole ? rows.length : narrow.matches ? phone : wide;
    const more = rows.length - first;
    const shown = table(caption, columns, rows.slice(0, first), empty, { isCaptionHidden });
    for (const row of shown.querySelectorAll("tbody tr")) openable(row, isKey, opened);
    refill(root, shown,
      more > 0 && el("button", { type: "button", class: "more", onclick: () => {
        isWhole = true;
        draw(rows, empty, note);
        root.querySelector(".scroll").focus({ preventScroll: true });
      } }, `Show ${more} more`),
      note && el("p", { class: "soft" }, note));
  };
  return { root, draw };
}

/** Lets a row open and close on a phone; what is open stays so when the row is drawn anew. */
function openable(row, isKey, opened) {
  const name = row.cells[0].textContent;
  const key = [...row.cells].filter((_, at) => isKey[at] && !row.cells[at].classList.contains("number")).map((cell) => cell.textContent).join("\n");
  const button = el("button", { type: "button", class: "opener", "aria-label": `Details of ${name}`, onclick: () => {
    if (!opened.delete(key)) opened.add(key);
    tell();
  } });
  const tell = () => {
    const isOpen = opened.has(key);
    row.classList.toggle("is-closed", !isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
    setText(button, isOpen ? "▾" : "▸");
  };
  [...row.cells].forEach((cell, at) => cell.classList.toggle("key", isKey[at]));
  row.cells[0].append(button);
  tell();
}

/** A part of a view that can be folded; on a phone it begins so. `tell` says in a few words what is in it. */
export function foldable(title, ...content) {
  const told = el("span", { class: "soft" });
  const root = el("details", { class: "part", open: !narrow.matches }, el("summary", {}, el("h3", {}, title), told), content);
  return { root, tell: (text) => setText(told, text) };
}

/** A table of texts: columns are [heading, isNumber] or headings, rows arrays of texts and elements.
 *
 * Where there is little room a row becomes a list of its cells with their headings: the roles keep it
 * a table for who does not see it.
 */
export function table(caption, columns, rows, empty = "None.", { isCaptionHidden = false } = {}) {
  const heads = columns.map((column) => (Array.isArray(column) ? column : [column, false]));
  if (rows.length === 0) {
    return el("section", { class: "empty-table" }, !isCaptionHidden && el("h3", {}, caption), el("p", { class: "empty" }, empty));
  }
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { role: "table", class: "list" },
      el("caption", { class: isCaptionHidden ? "hidden" : null }, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads.map(([text, isNumber]) =>
        el("th", { scope: "col", role: "columnheader", class: isNumber ? "number" : null }, text)))),
      el("tbody", { role: "rowgroup" }, rows.map((row) => el("tr", { role: "row" }, row.map((cell, at) =>
        el("td", { role: "cell", class: heads[at][1] ? "number" : null, "data-label": heads[at][0] }, cell)))))));
}
