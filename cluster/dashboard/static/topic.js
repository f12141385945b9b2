// One topic: which broker leads each partition, and which replicas are in sync.

import { get } from "./api.js";
import { count, name } from "./format.js";
import { el, fill, program, table } from "./dom.js";

const PERIOD_MS = 3000;

let shown = null;

/** The dialog of a topic. */
export function topicDialog({ parts: [topic] }) {
  const partitions = el("div", {}, el("p", {}, "Reading …"));
  shown = { topic, partitions };
  ask(shown);
  return {
    title: name(topic),
    root: partitions,
    update: () => {},
    close: () => { shown = null; },
  };
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
      found.left_out > 0 && el("p", {}, `… and ${count(found.left_out)} more partitions, all in sync or farther down: ${program} topics --describe`));
  } catch (problem) {
    if (shown === view) fill(view.partitions, el("p", { class: "problem" }, problem.message));
  }
  setTimeout(() => ask(view), PERIOD_MS);
}

const wrong = (text) => el("strong", { class: "wrong" }, `▲ ${text}`);
