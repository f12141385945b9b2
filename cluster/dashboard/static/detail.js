// One client: its chart, why it is throttled, and its history.

import { get } from "./api.js";
import { lineChart } from "./chart.js";
import { command, el, fill, table } from "./dom.js";
import { count, duration, isBytes, name, percent, rate } from "./format.js";

let shown = null;

/** The dialog of a client, of its quota in the option `quota`. */
export function clientDialog({ parts: [user, client_id], options, past: kept }) {
  const quota = options.get("quota") ?? "produce";
  const chart = el("div", { class: "chart" });
  const explanation = el("div", {}, el("p", {}, "Reading …"));
  const past = el("div", {}, el("p", {}, "Reading …"));
  const root = el("div", {},
    el("div", { class: "columns" },
      el("section", {}, el("h3", {}, "Now"), chart),
      el("section", {}, el("h3", {}, "History"), past)),
    el("h3", {}, "Why"), explanation);
  shown = { row: { key: JSON.stringify([user, client_id, quota]), user, client_id, quota }, chart, explanation, past, live: null, old: null, asked: 0 };
  explain(shown);
  history(shown);
  return {
    title: `${name(client_id)} as ${name(user)}: ${quota}`,
    root,
    update: () => update(kept),
    close: () => {
      shown.live?.remove();
      shown.old?.remove();
      shown = null;
    },
  };
}

/** Takes a reading: the chart continues, the explanation is renewed now and then. */
function update(past) {
  const series = past.of(shown.row.key);
  const values = [series.rates, series.limits];
  if (shown.live === null) {
    if (series.times.length >= 2) {
      const text = (value) => rate(shown.row.quota, value);
      shown.live = lineChart(shown.chart, "Highest rate of a broker, and the limit", series.times, [
        { label: "rate", values: series.rates, color: "--rate", isFilled: true },
        { label: "limit", values: series.limits, color: "--limit", dash: [8, 5] },
      ], text, isBytes(shown.row.quota));
    }
  } else {
    shown.live.update(series.times, values);
  }
  if (Date.now() - shown.asked > 3000) explain(shown);
}

async function explain(view) {
  view.asked = Date.now();
  try {
    const { user, client_id } = view.row;
    const found = await get("api/client", { user, client_id });
    if (shown !== view) return;
    const quota = found.quotas.find((each) => each.quota === view.row.quota) ?? found.quotas[0];
    fill(view.explanation,
      quota.brokers.map((each) => el("p", { class: "arithmetic" }, `Broker ${each.broker}: ${each.arithmetic}`)),
      el("div", { class: "columns" }, table("The eight rules, the most specific first", ["Rule", ["Limit", true], "Applies"],
        quota.rules.map((each) => [each.rule, each.limit === null ? "not set" : rate(quota.quota, each.limit), each.rule === quota.rule ? "✓ this one" : ""])),
      table("By broker", ["Broker", ["Rate", true], ["Used", true], ["Throttle", true], ["Mute left", true], ["Requests", true], ["Throttled", true]],
        quota.brokers.map((each) => [
          `${each.broker}${each.state === "alive" ? "" : ` (${each.state})`}`, rate(quota.quota, each.rate), percent(each.utilisation),
          duration(each.delay_ms), duration(each.muted_left_ms), count(each.requests), count(each.throttled)]))));
  } catch (problem) {
    if (shown === view) fill(view.explanation, el("p", { class: "problem" }, problem.message));
  }
}

async function history(view) {
  try {
    const { user, client_id, quota } = view.row;
    const found = await get("api/history", { user, client_id, since_ms: Date.now() - 86_400_000 });
    if (shown !== view) return;
    const windows = (found.windows ?? []).filter((each) => each.quota === quota);
    if (windows.length === 0) {
      fill(view.past, el("p", { class: "empty" }, found.empty ?? "The rollup has no window of this client and quota in the last day."),
        found.command && el("p", {}, command(found.command)));
      return;
    }
    fill(view.past);
    const times = windows.map((each) => each.start_s);
    view.old = lineChart(view.past, `Windows of ${found.width_s} s from the rollup`, times, [
      { label: "average", values: windows.map((each) => each.rate_avg), color: "--rate", isFilled: true },
      { label: "highest", values: windows.map((each) => each.rate_max), color: "--high", dash: [2, 3] },
      { label: "limit", values: windows.map((each) => each.limit), color: "--limit", dash: [8, 5] },
    ], (value) => rate(quota, value), isBytes(quota));
  } catch (problem) {
    if (shown === view) fill(view.past, el("p", { class: "problem" }, problem.message));
  }
}
