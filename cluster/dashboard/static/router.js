// Addresses of views and dialogs: `#name/part/part?option=value`, with percent-encoded parts.
// Each can be sent to a colleague, and back and forward work.

/** The address of a view, or of a dialog with parts; options without a value are left out. */
export function addressOf(name, parts = [], options = {}) {
  const given = Object.entries(options).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return `#${[name, ...parts].map(encodeURIComponent).join("/")}${query && `?${query}`}`;
}

/** What an address names; a part with a broken encoding is taken as it is. */
export function parsed(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const [name, ...parts] = path.split("/").map(decoded);
  return { name, parts, options: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Calls back with each address that is visited, the first at `start`. */
export class Router {
  #onVisit;
  #depth = 0;

  constructor(onVisit) {
    this.#onVisit = onVisit;
    window.addEventListener("hashchange", () => this.#visit(this.#depth + 1));
  }

  start() {
    this.#visit(0);
  }

  #visit(depth) {
    // An entry of the history keeps how many of this page's entries precede it.
    if (history.state?.depth === undefined) history.replaceState({ depth }, "");
    this.#depth = history.state.depth;
    this.#onVisit(parsed(location.hash));
  }

  /** Leaves a dialog: goes back to where it was opened, or to `above` if the page was opened with it. */
  leave(above) {
    if (this.#depth > 0) history.back();
    else location.replace(above);
  }

  /** Changes the address without a new entry of the history. */
  replace(address) {
    history.replaceState(history.state, "", address);
  }
}
