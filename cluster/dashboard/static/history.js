// The figures and events of a range, as the dashboard remembers them.

import { get } from "./api.js";
import { choices, el } from "./dom.js";

export const RANGES = [
  { name: "2m", text: "2 min", periodMs: 2000 },
  { name: "15m", text: "15 min", periodMs: 2000 },
  { name: "1h", text: "1 h", periodMs: 20_000 },
  { name: "6h", text: "6 h", periodMs: 20_000 },
  { name: "1d", text: "1 d", periodMs: 60_000, isRollup: true },
  { name: "7d", text: "7 d", periodMs: 60_000, isRollup: true },
  { name: "30d", text: "30 d", periodMs: 60_000, isRollup: true },
];

/** The control that chooses one of some ranges. */
export const rangeSwitch = (ranges, chosen, onChoose) => choices(
  { name: "range", options: ranges.map((each) => [each.name, each.text, () => onChoose(each)]), chosen: chosen.name }, el("legend", { class: "hidden" }, "Range"));

const EMPTY = { ts: [], values: {}, events: [], run: null };

/** The known figures with those that were measured since; what is older than the range is dropped.
 * A range of the rollup, which has no run, comes as a whole each time. */
export function merged(known, news) {
  if (news.run === null || known.run !== news.run) return news;
  const first = known.ts.findIndex((time) => time >= news.from_ms);
  const kept = first < 0 ? [] : known.ts.slice(first);
  const values = {};
  for (const name of new Set([...Object.keys(known.values), ...Object.keys(news.values)])) {
    const old = known.values[name]?.slice(-kept.length || known.ts.length) ?? kept.map(() => null);
    values[name] = [...(kept.length > 0 ? old : []), ...(news.values[name] ?? news.ts.map(() => null))];
  }
  const events = [...known.events, ...news.events].filter((each) => each.ts >= news.from_ms).sort((one, other) => one.ts - other.ts);
  return { ...news, ts: [...kept, ...news.ts], values, events };
}

/** Calls back with the figures of a range now and whenever there are new ones, until it is closed;
 * those of the cluster unless another path is given, with its parameters. */
export function followRange({ name, periodMs, isRollup }, onFigures, onProblem, { path = "api/series", ...of } = {}) {
  let known = EMPTY;
  let isOpen = true;
  let isFrozen = false;

  async function ask() {
    if (!isOpen) return;
    try {
      if (known === EMPTY || (!isFrozen && !document.hidden)) {
        const isFirst = isRollup || known.run === null;
        const after = isFirst ? {} : { since_ms: known.ts.at(-1) ?? 0, since_event: Math.max(0, ...known.events.map((each) => each.number)) };
        let news = await get(path, { range: name, ...of, ...after });
        // Another dashboard counts its events from one on.
        if (!isFirst && news.run !== known.run) news = await get(path, { range: name, ...of });
        if (!isOpen) return;
        known = merged(known, news);
        onFigures(known);
      }
      onProblem("");
    } catch (wrong) {
      if (isOpen) onProblem(wrong.message);
    }
    if (isOpen) setTimeout(ask, periodMs);
  }

  ask();
  return {
    freeze: (frozen) => { isFrozen = frozen; },
    close: () => { isOpen = false; },
  };
}
