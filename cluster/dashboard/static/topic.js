// One topic: which broker leads each partition, and which replicas are in sync.

import { get } from "./api.js";
import { count, name } from "./format.js";
import { el, fill, table } from "./dom.js";

const PERIOD_MS = 3000;
const dialog = el("dialog", { "aria-labelledby": "topic-title" });
document.body.append(dialog);

let shown = null;

/** Opens a topic; closing returns the focus to `opener`. */
export function openTopic(topic, opener) {
  const partitions = el("div", {}, el("p", {}, "Reading …"));
  fill(dialog,
    el("div", { class: "bar" },
      el("h2", { id: "topic-title" }, name(topic)),
      el("button", { type: "button", onclick: () => dialog.close() }, "Close")),
    partitions);
  dialog.onclose = () => {
    shown = null;
    // The table has been drawn anew since.
    const again = [...document.querySelectorAll("[data-topic]")].find((each) => each.dataset.topic === topic);
    (again ?? opener).focus();
  };
  dialog.showModal();
  shown = { topic, partitions };
  ask(shown);
}

async function ask(view) {
  if (shown !== view) return;
  try {
    const found = await get("api/topic", { name: view.topic });
    if (shown !== view) return;
    fill(view.partitions,
      table("Partitions", [["Partition", true], "Leader", "Replicas", "In sync", "Out of sync"], found.partitions.map((each) => {
        const late = each.replicas.filter((broker) => !each.in_sync.includes(broker));
        return [each.partition, each.leader === null ? wrong("none: offline") : `broker ${each.leader}`,
          each.replicas.join(", "), each.in_sync.join(", "), late.length > 0 ? wrong(late.join(", ")) : "-"];
      })),
      found.left_out > 0 && el("p", {}, `… and ${count(found.left_out)} more partitions, all in sync or farther down: bin/cluster topics --describe`));
  } catch (problem) {
    if (shown === view) fill(view.partitions, el("p", { class: "problem" }, problem.message));
  }
  setTimeout(() => ask(view), PERIOD_MS);
}

const wrong = (text) => el("strong", { class: "wrong" }, `▲ ${text}`);
