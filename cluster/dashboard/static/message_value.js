// Shows the key, value or header of a message: a tree of JSON, text, or bytes.

import { el } from "./dom.js";
import { count } from "./format.js";

const CHILDREN = 100;
const OPEN_DEPTH = 2;
const OPEN_CHILDREN = 30;

/** The element for what the dashboard says of some bytes, see `shown.py`. */
export function content({ kind, text, lines }) {
  if (kind === "null" || kind === "empty") return el("p", { class: "soft" }, kind === "null" ? "null" : "(empty)");
  if (kind === "json") return el("ul", { class: "json" }, branch(lines, endsOf(lines), 0));
  return el("pre", { class: kind, tabindex: "0" }, text);
}

/** For each line the one after everything inside it. */
function endsOf(lines) {
  const ends = new Array(lines.length).fill(lines.length);
  const open = [];
  lines.forEach(([depth], at) => {
    while (open.length > 0 && lines[open.at(-1)][0] >= depth) ends[open.pop()] = at;
    open.push(at);
  });
  return ends;
}

/** One line, and what is inside it once it is opened: a text may have thousands of levels. */
function branch(lines, ends, at) {
  const [depth, label, kind, written] = lines[at];
  const key = label === null ? null : [el("span", { class: "json-key" }, label), ": "];
  if (kind !== "object" && kind !== "array") return el("li", {}, key, el("span", { class: `json-${kind}` }, written));
  const [left, right] = kind === "object" ? "{}" : "[]";
  if (written === 0) return el("li", {}, key, left + right);
  const nouns = kind === "object" ? ["member", "members"] : ["item", "items"];
  const inside = el("ul", {});
  let next = at + 1;
  const showMore = () => {
    const first = inside.childElementCount;
    for (let shown = 0; next < ends[at] && shown < CHILDREN; shown += 1) {
      inside.append(branch(lines, ends, next));
      next = ends[next];
    }
    if (next < ends[at]) inside.append(el("li", {}, el("button", { type: "button", class: "small", onclick: goOn }, "Show more")));
    return inside.children[first];
  };
  /** What was pressed is gone: the first of the new lines has the focus. */
  const goOn = () => {
    inside.lastElementChild.remove();
    const line = showMore();
    line.tabIndex = -1;
    line.focus({ preventScroll: true });
  };
  const details = el("details", { ontoggle: () => { if (details.open && next === at + 1) showMore(); } },
    el("summary", {}, key, `${left} ${count(written)} ${nouns[written === 1 ? 0 : 1]} ${right}`), inside);
  if (depth < OPEN_DEPTH && written <= OPEN_CHILDREN) {
    showMore();
    details.open = true;
  }
  return el("li", {}, details);
}
