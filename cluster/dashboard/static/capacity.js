// The view of capacity: growth, disks, headroom, latency and lag from the rollup's history.

import { get } from "./api.js";
import { lineChart } from "./chart.js";
import { command, el, explained, fill, foldable, how, setText } from "./dom.js";
import { size } from "./format.js";
import { whatIf } from "./what_if.js";

const PERIOD_MS = 60_000;

/** The view; it reads the history once a minute while it is open. */
export function capacityView() {
  const period = el("p", { class: "soft who" });
  const problem = el("p", { class: "problem", hidden: true });
  const body = el("div", {}, el("p", {}, "Reading …"));
  const supposing = whatIf();
  const root = el("section", { "aria-labelledby": "capacity-title" }, el("h2", { id: "capacity-title" }, "Capacity"), problem, period, supposing.root, body);
  let chart = null;
  let isOpen = true;
  let isFrozen = false;

  async function ask() {
    if (!isOpen) return;
    try {
      if (!isFrozen && !document.hidden) draw(await get("api/capacity"));
      problem.hidden = true;
    } catch (wrong) {
      setText(problem, wrong.message);
      problem.hidden = false;
    }
    if (isOpen) setTimeout(ask, PERIOD_MS);
  }

  function draw(found) {
    if (!isOpen) return;
    chart?.remove();
    chart = null;
    supposing.root.hidden = !found.report;
    if (!found.report) {
      setText(period, "");
      fill(body, el("p", { class: "empty" }, found.empty), el("p", {}, command(found.command)));
      return;
    }
    setText(period, `${found.period}. The chart is in the time of this browser, all else in UTC.`);
    const place = el("div", { class: "chart" });
    fill(body, el("div", { class: "card plot" }, place), how(found.report.series.how),
      busyHours(found),
      found.tables.map(explained));
    chart = throughput(place, found.report);
  }

  const resize = () => chart?.resize();
  window.addEventListener("resize", resize);
  ask();
  return {
    root,
    update: () => {},
    freeze: (frozen) => { isFrozen = frozen; },
    close: () => {
      isOpen = false;
      window.removeEventListener("resize", resize);
      chart?.remove();
    },
  };
}

/** Bytes in and out over time, with a mark for every event. */
function throughput(place, { series, events }) {
  const marks = events.rows.map((each) => ({ time: each.start_s, text: `${each.event}: ${each.subject}${each.detail ? `: ${each.detail}` : ""}` }));
  return lineChart(place, "Throughput of clients", series.start_s, [
    { label: "in", values: series.bytes_in_per_s, color: "--rate", isFilled: true },
    { label: "out", values: series.bytes_out_per_s, color: "--high", dash: [2, 3] },
  ], (value) => `${size(value)}/s`, true, marks);
}

function busyHours({ report, busiest }) {
  const { root, tell } = foldable("Busiest hours of the week, UTC", heatMap(report.busy_hours), how(report.busy_hours.how));
  tell(busiest);
  return root;
}

/** The hours of the week; each cell also has its value as text, for readers who cannot see the color. */
function heatMap({ days, bytes_per_s: rates }) {
  const highest = Math.max(...rates.flat().filter((rate) => rate !== null), 0) || 1;
  const cell = (rate, day, hour) => {
    const told = `${day} ${String(hour).padStart(2, "0")}:00: ${rate === null ? "no history" : `${size(rate)}/s`}`;
    const made = el("td", { title: told, class: rate === null ? "none" : null }, el("span", { class: "hidden" }, told));
    if (rate !== null) made.style.setProperty("--share", (rate / highest).toFixed(3));
    return made;
  };
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Busiest hours of the week" },
    el("table", { class: "heat" },
      el("caption", { class: "hidden" }, "Busiest hours of the week, UTC"),
      el("thead", {}, el("tr", {}, el("td"), Array.from({ length: 24 }, (_, hour) => el("th", { scope: "col" }, hour)))),
      el("tbody", {}, rates.map((row, day) => el("tr", {}, el("th", { scope: "row" }, days[day]), row.map((rate, hour) => cell(rate, days[day], hour)))))));
}
