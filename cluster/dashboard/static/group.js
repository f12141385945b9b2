// One group: its members and partitions, its lag over time, and why it rebalances.

import { get } from "./api.js";
import { command, el, fill, refill, setText, table, trail } from "./dom.js";
import { count, name, perSecond } from "./format.js";
import { memberCount, narrow, statePill } from "./groups.js";
import { historyChart } from "./history_chart.js";
import { followRange, rangeSwitch, RANGES } from "./history.js";
import { addressOf } from "./router.js";

const PERIOD_MS = 2500;
const REBALANCING_MS = 1000;
const CHART_RANGES = RANGES.filter((each) => ["15m", "1h", "6h"].includes(each.name));
const CHART_PX = 200;
const HOLDS_MS = 5000;
const PLACES = 5;  // partitions that a sentence names
const records = (value) => (Math.abs(value) < 10 ? String(Math.round(value * 10) / 10) : count(value));

/** The page `#groups/<group>`. */
export function groupPage({ parts: [group], options, setOptions }) {
  let isOpen = true;
  let isFrozen = false;
  let range = CHART_RANGES.find((each) => each.name === options.get("range")) ?? CHART_RANGES[0];
  let following = null;
  let isDescribed = false;
  let waitsFor = new Set();

  const sentence = el("p", { class: "sentence", hidden: true });
  const problem = el("p", { class: "problem", role: "status", hidden: true });
  const chartProblem = el("p", { class: "problem", hidden: true });
  const facts = el("dl", { class: "health" });
  const members = el("div", { class: "compact" }, el("p", {}, "Reading …"));
  const holds = el("p", { hidden: true });
  const partitions = el("div", { class: "compact" });
  const text = el("pre", { class: "explained", tabindex: "0", role: "region", "aria-label": "groups explain" });
  const line = el("p", { class: "soft" });
  const explained = el("section", { hidden: true, "aria-labelledby": "explained-title" }, el("h3", { id: "explained-title" }, "Why it rebalances, or does not"), text, line);
  const chart = historyChart({ title: "Lag", note: "Records that the group has not consumed yet", text: records, height: () => CHART_PX });
  const rangeBar = el("div", { class: "bar" }, rangeSwitch(CHART_RANGES, range, choose));
  const reset = el("a", { class: "button", id: "reset-offsets", href: addressOf("groups", [group, "reset"]) }, "Reset offsets …");
  const root = el("section", { class: "one-group", "aria-labelledby": "group-title" },
    el("div", { class: "bar" }, trail("group-title", [["Groups", addressOf("groups")]], name(group, 249)),
      reset),
    sentence, problem, facts, rangeBar, chartProblem, chart.root, members, holds, partitions, explained);

  /** Calls `read` now and again after the time that it returns, while the page shows the group. */
  async function again(read, onProblem) {
    if (!isOpen) return;
    let waitMs = PERIOD_MS;
    if (!isFrozen && !document.hidden) {
      try {
        waitMs = (await read()) ?? PERIOD_MS;
      } catch (wrong) {
        if (isOpen) onProblem(wrong.message);
      }
    }
    if (isOpen) setTimeout(() => again(read, onProblem), waitMs);
  }

  function complain(message) {
    const isWrong = message !== "";
    setText(problem, isWrong ? `${message.charAt(0).toUpperCase()}${message.slice(1)}${isDescribed ? "; below is what was known last" : ""}.` : "");
    problem.hidden = !isWrong;
    const isUnknown = isWrong && !isDescribed;
    if (isUnknown) fill(members);
    if (chart.root.hidden === isUnknown) return;
    for (const each of [reset, rangeBar, chart.root]) each.hidden = isUnknown;
    chart.resize();
  }

  async function describe() {
    const found = await get("api/groups/one", { group });
    if (!isOpen) return;
    isDescribed = true;
    complain(found.problem ?? "");
    drawFacts(found);
    drawMembers(found);
    drawPartitions(found);
    waitsFor = new Set(found.partitions.filter((each) => each.lag !== 0).map(placeOf));
  }

  /** Open transactions in what the group has yet to read: why a lag grows that no member causes. */
  async function readHolds() {
    if (waitsFor.size === 0) {
      holds.hidden = true;
      return isDescribed ? PERIOD_MS : REBALANCING_MS;
    }
    const { held, fact, consequence } = await get("api/held-back");
    if (!isOpen) return undefined;
    const places = held.map(placeOf).filter((place) => waitsFor.has(place));
    holds.hidden = places.length === 0;
    const told = `${places.slice(0, PLACES).map((place) => name(place)).join(", ")}${places.length > PLACES ? ` and ${count(places.length - PLACES)} more` : ""}`;
    if (holds.dataset.told !== told) {
      refill(holds, el("strong", { class: "wrong" }, `▲ ${fact}: `), `${told}. ${consequence} `,
        el("a", { class: "link", href: addressOf("transactions") }, "Transactions"));
    }
    holds.dataset.told = told;
    return HOLDS_MS;
  }

  async function explain() {
    const found = await get("api/groups/explained", { group });
    if (!isOpen) return undefined;
    explained.hidden = sentence.hidden = false;
    setText(sentence, found.sentence);
    sentence.dataset.standing = found.is_rebalancing ? "near" : "fine";
    setText(text, found.text);
    if (line.dataset.command !== found.command) fill(line, "The same from a terminal: ", command(found.command));
    line.dataset.command = found.command;
    return found.is_rebalancing ? REBALANCING_MS : PERIOD_MS;
  }

  function drawFacts(found) {
    refill(facts, Object.entries({
      "State": statePill(found.state),
      "Protocol": found.assignor ? `${found.type}, ${found.assignor}` : found.type,
      "Members": count(found.member_count),
      "Lag": count(found.lag),
      "Consumes": found.per_s === null ? "-" : `${perSecond(found.per_s)} records/s`,
      "Coordinator": found.coordinator === null ? "-" : `broker ${found.coordinator}`,
    }).map(([term, value]) => el("div", { "data-term": term }, el("dt", {}, term), el("dd", {}, value))));
  }

  function drawMembers(found) {
    if (found.problem && found.member_count > 0) {
      refill(members, el("h3", {}, "Members"), el("p", {}, `${memberCount(found.member_count)}, whom only the coordinator can name.`));
      return;
    }
    const isTold = isAssigned(found);
    const hasInstances = found.members.some((each) => each.instance_id !== null);
    const hasEpochs = found.members.some((each) => each.epoch !== null);
    refill(members, table("Members",
      ["Client id", "Host", "Software", ...(hasInstances ? ["Instance"] : []), ...(hasEpochs ? [["Epoch", true]] : []), ["Partitions", true], "Assigned", "Member id"],
      found.members.map((each) => [name(each.client_id), each.host, each.software || "-", ...(hasInstances ? [name(each.instance_id ?? "-")] : []),
        ...(hasEpochs ? [count(each.epoch)] : []), isTold ? count(each.partitions) : "-", isTold ? assigned(each.assignment) : "-", el("code", {}, name(each.member_id))]),
      "It has no members."),
      !isTold && el("p", { class: "soft" }, "Who has which partitions is not known until the group has rebalanced; below is what each had before."),
      found.members_left_out > 0 && el("p", {}, `… and ${count(found.members_left_out)} more members.`));
  }

  function drawPartitions(found) {
    refill(partitions, table("Partitions",
      ["Topic", ["Partition", true], ["Committed", true], ["End", true], ["Lag", true], ["Records/s", true], "Consumed by"],
      found.partitions.map((each) => [name(each.topic), each.partition, count(each.committed), each.exists ? count(each.end) : el("strong", { class: "wrong" }, "▲ deleted"),
        el("span", {}, narrow("lag "), count(each.lag)), speed(each), each.member === null ? (isAssigned(found) ? "nobody" : "-") : el("span", { title: each.member_id }, name(each.member))]),
      "It has committed nothing, and no partition is assigned."),
      found.partitions_left_out > 0 && el("p", {}, `… and ${count(found.partitions_left_out)} more partitions with less lag.`));
  }

  function choose(chosen) {
    range = chosen;
    setOptions({ range: chosen.name });
    begin();
  }

  function begin() {
    following?.close();
    following = followRange(range, (figures) => chart.update(figures, [{ name: "lag", label: "records" }]), (wrong) => {
      setText(chartProblem, wrong);
      chartProblem.hidden = wrong === "";
    }, { path: "api/groups/series", group });
    following.freeze(isFrozen);
  }

  const resize = () => chart.resize();
  window.addEventListener("resize", resize);
  begin();
  again(describe, complain);
  again(readHolds, () => {});
  again(explain, () => {});  // `describe` says what is wrong, and what was explained stays shown
  return {
    title: `Group ${name(group)}`,
    root,
    update: () => {},
    freeze: (frozen) => {
      isFrozen = frozen;
      following.freeze(frozen);
    },
    close: () => {
      isOpen = false;
      following.close();
      window.removeEventListener("resize", resize);
      chart.close();
    },
  };
}

const placeOf = ({ topic, partition }) => `${topic}-${partition}`;

/** A coordinator does not tell the assignments of a classic group that rebalances. */
const isAssigned = ({ state }) => !state.endsWith("Rebalance");

/** How fast a partition is consumed; one that stands still although records wait is marked. */
function speed({ per_s: perS, lag, member }) {
  if (perS === null) return "-";
  if (perS === 0 && lag > 0 && member !== null) return el("strong", { class: "wrong", title: "Nothing was committed in the last seconds, and records wait." }, "▲ 0", narrow("/s"));
  return el("span", {}, perSecond(perS), narrow("/s"));
}

/** `orders 0, 1, 2; audit 4`; many partitions as their number. */
function assigned(topics) {
  const told = Object.entries(topics).map(([topic, numbers]) => `${name(topic)} ${numbers.length > 12 ? `${numbers.length} partitions` : numbers.join(", ")}`);
  return told.length > 6 ? `${told.slice(0, 6).join("; ")} and ${told.length - 6} more topics` : told.join("; ") || "nothing";
}
