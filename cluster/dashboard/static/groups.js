// The view of groups: how far each is behind, whether that grows, and how much it rebalances.

import { get } from "./api.js";
import { el, program, refill, setText, table } from "./dom.js";
import { count, duration, name, perSecond, totalLag } from "./format.js";
import { addressOf } from "./router.js";

const PERIOD_MS = 3000;
const ROWS = 200;
const STEADY = 0.05;

const SORTS = {
  lag: ["lag", (one, other) => other.lag - one.lag],
  growth: ["growth of lag", (one, other) => (other.lag_per_s ?? -Infinity) - (one.lag_per_s ?? -Infinity)],
  rebalancing: ["time rebalancing", (one, other) => shareOf(other) - shareOf(one)],
  name: ["name", (one, other) => one.group.localeCompare(other.group, "en", { numeric: true })],
};
const shareOf = (group) => (group.watched_ms > 0 ? group.rebalanced_ms / group.watched_ms : 0);

const groupLink = (group) => el("a", { class: "link", "data-group": group, href: addressOf("groups", [group]) }, name(group));
export const statePill = (state) => el("span", { class: "pill", "data-state": state }, state);
/** A word that only a small window needs, where there are no columns. */
export const narrow = (text) => el("span", { class: "narrow" }, text);
export const memberCount = (number) => (number === 1 ? "1 member" : `${count(number)} members`);

/** Whether a lag grows or falls, and how fast. */
function trend(perS) {
  if (perS === null || perS === undefined) return "-";
  if (Math.abs(perS) < STEADY) return "steady";
  const isGrowing = perS > 0;
  return el("span", { class: isGrowing ? "nowrap wrong" : "nowrap" }, `${isGrowing ? "▲ grows" : "▼ falls"} ${perSecond(Math.abs(perS))}/s`);
}

/** The time that a group spent rebalancing, of the time in which it was watched. */
function rebalanced(group) {
  if (group.watched_ms === 0) return "-";
  const watched = `in ${Math.max(1, Math.round(group.watched_ms / 60_000))} min`;
  return group.rebalanced_ms < 1 ? el("span", { class: "soft nowrap" }, `none ${watched}`) : el("span", { class: "nowrap" }, `${duration(group.rebalanced_ms)} ${watched}`);
}

/** The view; filter, order and the choice to see Milena's own groups are options of the address. */
export function groupsView({ options, setOptions }) {
  let found = null;
  let drawn = "";
  let isOpen = true;
  let isFrozen = false;
  let hasOwn = options.has("own");

  const filter = el("input", {
    type: "search", id: "filter", value: options.get("filter"), placeholder: "Filter by group or state", "aria-label": "Filter groups",
    oninput: () => { setOptions({ filter: filter.value }); draw(); },
  });
  const order = el("select", { "aria-label": "Sort by", onchange: () => { setOptions({ sort: order.value }); draw(); } },
    Object.entries(SORTS).map(([key, [text]]) => el("option", { value: key, selected: key === options.get("sort") }, `by ${text}`)));
  const own = el("button", {
    type: "button", hidden: true, onclick: () => {
      hasOwn = !hasOwn;
      setOptions({ own: hasOwn ? "1" : null });
      draw();
    },
  });
  const summary = el("p", { class: "summary" });
  const problem = el("p", { class: "problem", hidden: true });
  const place = el("div", { class: "compact" }, el("p", {}, "Reading …"));
  const root = el("section", { class: "groups", "aria-labelledby": "groups-title" },
    el("h2", { id: "groups-title" }, "Groups"), el("div", { class: "bar" }, filter, order, own), problem, summary, place);

  async function ask() {
    if (!isOpen) return;
    try {
      if (!isFrozen && !document.hidden) {
        found = await get("api/groups");
        if (isOpen) draw();
      }
      problem.hidden = true;
    } catch (wrong) {
      setText(problem, wrong.message);
      problem.hidden = false;
    }
    if (isOpen) setTimeout(ask, PERIOD_MS);
  }

  function draw() {
    if (found === null) return;
    const wanted = filter.value.trim().toLowerCase();
    const ownCount = found.groups.filter((each) => each.is_own).length;
    own.hidden = ownCount === 0;
    own.setAttribute("aria-pressed", String(hasOwn));
    setText(own, hasOwn ? "Hide Milena's own" : `Show ${ownCount} of Milena's own`);
    const shown = found.groups.filter((each) => (hasOwn || !each.is_own) && (each.group.toLowerCase().includes(wanted) || each.state.toLowerCase().includes(wanted)))
      .sort((SORTS[order.value] ?? SORTS.lag)[1]);
    setText(summary, `${count(shown.length)} ${shown.length === 1 ? "group" : "groups"}, ${totalLag(shown)} records behind in all.`);
    const state = JSON.stringify([shown.slice(0, ROWS), found.left_out]);
    if (state === drawn) return;
    drawn = state;
    const more = Math.max(0, shown.length - ROWS);
    refill(place,
      table("All groups", ["Group", "State", "Protocol", ["Members", true], ["Lag", true], ["Worst partition", true], "Change of lag", "Rebalancing"],
        shown.slice(0, ROWS).map(row), wanted === "" ? "No group has committed anything yet." : "No group matches the filter.", { isCaptionHidden: true }),
      more > 0 && el("p", {}, `… and ${count(more)} more: the filter finds them.`),
      found.left_out > 0 && el("p", {}, `${count(found.left_out)} more groups are not read here: ${program} groups list`));
  }

  const row = (each) => [groupLink(each.group), statePill(each.state), each.type, count(each.members),
    each.partitions === 0 ? el("span", { title: "It has not committed an offset." }, narrow("lag "), "-")
      : el("span", {}, narrow("lag "), each.partitions_unknown > 0 ? `${count(each.lag)} + ${count(each.partitions_unknown)} unknown` : count(each.lag)),
    each.partitions === 0 ? "-" : count(each.lag_max), trend(each.lag_per_s), rebalanced(each)];

  ask();
  return {
    root,
    update: () => {},
    freeze: (frozen) => { isFrozen = frozen; },
    focusFilter: () => filter.focus(),
    close: () => { isOpen = false; },
  };
}
