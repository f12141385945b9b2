// The dialog of the page: one at a time, over a view.

import { el, fill, setText } from "./dom.js";

const title = el("h2", { id: "dialog-title" });
const content = el("div");
const dialog = el("dialog", { "aria-labelledby": "dialog-title" },
  el("div", { class: "bar" }, title, el("button", { type: "button", onclick: () => dialog.close() }, "Close")), content);
document.body.append(dialog);

/** Opens a dialog; `onClose` is called when the user closes it. */
export function openDialog(make, context, onClose) {
  const opener = document.activeElement;
  const address = location.hash;
  const setTitle = (text) => {
    setText(title, text);
    context.setTitle(text);
  };
  setText(title, "Reading …");
  const shown = make({ ...context, setTitle });
  if (shown.title !== undefined) setTitle(shown.title);
  fill(content, shown.root);
  let isOpen = true;
  const end = () => {
    isOpen = false;
    shown.close();
    returnFocus(opener, address);
  };
  dialog.onclose = () => {
    // The event comes later: another address may have opened the dialog again.
    if (!isOpen || dialog.open) return;
    end();
    onClose();
  };
  dialog.showModal();
  return {
    update: (rows, reading) => isOpen && shown.update(rows, reading),
    freeze: (isFrozen) => isOpen && shown.freeze?.(isFrozen),
    /** Closes it because another address is visited. */
    close() {
      if (!isOpen) return;
      end();
      dialog.close();
    },
  };
}

/** A table may have been drawn anew since: then the link to the same address has the focus. */
function returnFocus(opener, address) {
  const again = [...document.querySelectorAll("main a")].find((link) => link.getAttribute("href") === address);
  const target = again ?? (opener.isConnected && opener !== document.body ? opener : document.getElementById("main"));
  target.focus({ preventScroll: target !== again });
}
