// One topic: its partitions with their offsets, its consumers and configs.

import { get, mayChange } from "./api.js";
import { command, el, fill, setText, table, trail } from "./dom.js";
import { count, name, perSecond, size } from "./format.js";
import { addressOf } from "./router.js";
import { rowsTable } from "./rows.js";
import { inSyncText } from "./topics.js";

const PERIOD_MS = 3000;
const GROUPS = 100;

const list = (numbers) => numbers.join(", ");
const recordsOf = (each) => (each.start === null || each.end === null ? null : each.end - each.start);

const COLUMNS = [
  { name: "number", label: "Partition", text: (each) => String(each.number), value: (each) => each.number },
  { name: "leader", label: "Leader", text: (each) => (each.leader === null ? "none: offline" : `broker ${each.leader}`), value: (each) => each.leader ?? -1,
    isWrong: (each) => each.leader === null },
  { name: "replicas", label: "Replicas", text: (each) => list(each.replicas) },
  { name: "isr", label: "In sync", text: (each) => list(each.isr) || "none", value: (each) => each.isr.length - each.replicas.length, isWrong: (each) => each.isr.length < each.replicas.length },
  { name: "start", label: "Start offset", text: (each) => count(each.start), value: (each) => each.start, isNumber: true },
  { name: "end", label: "End offset", text: (each) => count(each.end), value: (each) => each.end, isNumber: true },
  { name: "records", label: "Records", text: (each) => count(recordsOf(each)), value: recordsOf, isNumber: true },
  { name: "bytes", label: "Size", text: (each) => size(each.bytes), value: (each) => each.bytes, isNumber: true },
];

/** The page of a topic. */
export function topicPage({ parts: [topic], options, setOptions }) {
  let isOpen = true;
  let isFrozen = false;
  let wasShown = false;
  let drawnConfigs = "";
  let drawnGroups = "";

  const problem = el("p", { class: "problem", role: "status", hidden: true });
  const glance = el("dl", { class: "health" });
  const note = el("p", { class: "wrong", hidden: true });
  const partitions = rowsTable({ caption: "Partitions", columns: COLUMNS, keyOf: (each) => String(each.number), sort: options.get("sort") ?? "number", isReversed: options.get("reversed") === "1",
    onSort: (sort, isReversed) => setOptions({ sort, reversed: isReversed ? "1" : null }) });
  const groups = el("div");
  const configs = el("div");
  const actions = el("div", { class: "bar actions" },
    el("a", { class: "button", href: addressOf("topics", [topic, "messages"]) }, "Messages"),
    mayChange && el("a", { class: "button", href: addressOf("topics", [topic, "produce"]) }, "Produce a message …"));
  const content = el("div", { hidden: true }, actions, glance, note, el("h3", {}, "Partitions"), partitions.root,
    el("p", { class: "soft" }, "Size is that of the leader's replica. Records are end minus start: markers of transactions and records that compaction has removed count, too."),
    groups, configs);
  const waiting = el("p", { class: "empty" }, "Reading …");
  const root = el("section", { class: "topic", "aria-labelledby": "topic-title" },
    trail("topic-title", [["Topics", addressOf("topics")]], name(topic, 249)), problem, waiting, content);

  async function ask() {
    if (!isOpen) return;
    if (!isFrozen && !document.hidden) {
      try {
        const found = await get("api/topic", { name: topic });
        if (!isOpen) return;
        if (found.is_missing) tell(wasShown ? `Topic ${name(topic)} was deleted.` : `There is no topic ${name(topic)}.`, true);
        else draw(found);
      } catch (wrong) {
        if (isOpen) tell(wasShown ? `${wrong.message} What is shown was read before.` : wrong.message, false);
      }
    }
    setTimeout(ask, PERIOD_MS);
  }

  function tell(text, isGone) {
    setText(problem, text);
    problem.hidden = false;
    waiting.hidden = true;
    if (isGone) content.hidden = true;
  }

  function draw(found) {
    wasShown = true;
    problem.hidden = true;
    waiting.hidden = true;
    content.hidden = false;
    const isLate = found.in_sync < found.replicas || found.offline > 0;
    const policy = found.configs?.find((each) => each.name === "cleanup.policy")?.value;
    fill(glance, Object.entries({
      "Partitions": count(found.partitions),
      "Replication": count(found.replication_factor),
      "Replicas in sync": isLate ? el("strong", { class: "wrong" }, `▲ ${inSyncText(found)}`) : inSyncText(found),
      "Records": found.without_offsets > 0 && found.records !== null ? `at least ${count(found.records)}` : count(found.records),
      "Size, all replicas": size(found.bytes),
      "In": found.rates.in === null ? "-" : `${size(found.rates.in)}/s`,
      "Out": found.rates.out === null ? "-" : `${size(found.rates.out)}/s`,
      "Records/s": found.rates.records === null ? "-" : perSecond(found.rates.records),
      "Cleanup": policy ?? "-",
    }).map(([term, value]) => el("div", { "data-term": term }, el("dt", {}, term), el("dd", {}, value))));
    setText(note, found.silent.length > 0
      ? `▲ Broker ${list(found.silent)} does not respond: what it knows of its partitions is missing.`
      : `▲ Offsets of ${count(found.without_offsets)} partitions are not known: their leaders do not respond.`);
    note.hidden = found.silent.length === 0 && found.without_offsets === 0;
    partitions.update(found.partition_rows.map(([number, leader, replicas, isr, start, end, bytes]) => ({ number, leader, replicas, isr, start, end, bytes })), "No partitions.");
    drawGroups(found.groups);
    if (found.configs !== null) drawConfigs(found);
  }

  function drawGroups(found) {
    if (drawnGroups === JSON.stringify(found)) return;  // keeps the focus on a link
    drawnGroups = JSON.stringify(found);
    fill(groups, table("Consumer groups", ["Group", "State", ["Members", true], ["Partitions", true], ["Lag", true]],
      found.slice(0, GROUPS).map((each) => [
        el("a", { class: "link", "data-group": each.group, title: each.group, href: addressOf("groups", [each.group]) }, name(each.group)),
        each.state, count(each.members), count(each.partitions), each.unknown > 0 ? `${count(each.lag)} and ${count(each.unknown)} unknown` : count(each.lag)]),
      "No group has committed offsets here."),
      found.length > GROUPS && el("p", {}, `… and ${count(found.length - GROUPS)} more groups with less lag.`));
  }

  function drawConfigs(found) {
    const state = JSON.stringify(found.configs);
    if (state === drawnConfigs) return;
    drawnConfigs = state;
    const changed = found.configs.filter((each) => !each.is_default);
    const isUnfolded = configs.querySelector("details")?.open ?? false;
    fill(configs, configTable("Configs that are not Kafka's defaults", changed, "All configs have Kafka's defaults."),
      el("details", { class: "all-configs", open: isUnfolded }, el("summary", {}, `All ${found.configs.length} configs`), configTable("All configs", found.configs, "None.")),
      el("p", {}, "Change one from a terminal: ", command(found.commands.configs)),
      el("p", {}, "The same as text: ", command(found.commands.describe)));
  }

  ask();
  return {
    title: name(topic),
    root,
    update: () => {},
    freeze: (frozen) => { isFrozen = frozen; },
    close: () => { isOpen = false; partitions.close(); },
  };
}

function configTable(caption, entries, empty) {
  return table(caption, ["Config", "Value", "Source", "Kafka's default", "Note"], entries.map((each) => [
    el("code", {}, each.name), each.is_sensitive ? "(secret)" : el("code", {}, each.value === "" ? "(empty)" : each.value ?? "null"),
    each.source_name === each.name || each.is_default ? each.source : `${each.source}: ${each.source_name}`,
    each.is_default ? "" : each.default === null ? "-" : el("code", {}, each.default === "" ? "(empty)" : each.default), each.remark ?? ""]), empty);
}
