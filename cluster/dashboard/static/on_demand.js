// Views, pages and dialogs whose module is loaded when one of them is first visited.

import { el, setText } from "./dom.js";

const FAILED = "This view cannot be loaded. Check that the dashboard is running, then visit the view again or reload the page.";

/** The `make` of an entry of views.js: `load` imports the module, `pick` takes the function out of it. */
export function onDemand(load, pick) {
  let make = null;
  const loaded = async () => (make ??= pick(await load()));
  return (context) => (make === null ? waiting(loaded, context) : make(context));
}

/** What is shown until the module is there; it is told what a view is told, and passes it on. */
function waiting(loaded, context) {
  const root = el("p", { class: "empty", role: "status", "aria-busy": "true" }, "Reading …");
  let shown = null;
  let isOpen = true;
  let isFrozen = false;
  let isLoading = false;
  let latest = null;

  async function begin() {
    isLoading = true;
    let make = null;
    try {
      make = await loaded();
    } catch {
      root.className = "problem";
      root.ariaBusy = "false";
      setText(root, FAILED);
    }
    isLoading = false;
    if (make === null || !isOpen) return;
    shown = make(context);
    if (shown.title !== undefined) context.setTitle(shown.title);
    root.replaceWith(shown.root);
    shown.freeze?.(isFrozen);
    if (latest !== null) shown.update(...latest);
  }

  begin();
  return {
    get title() { return shown?.title; },
    root,
    update(...reading) {
      latest = reading;
      if (shown !== null) shown.update(...reading);
      else if (!isLoading) begin();  // with a reading, the dashboard answers again
    },
    freeze(frozen) {
      isFrozen = frozen;
      shown?.freeze?.(frozen);
    },
    focusFilter: () => shown?.focusFilter?.(),
    close() {
      isOpen = false;
      shown?.close();
    },
  };
}
