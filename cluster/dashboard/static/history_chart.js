// A chart of a range: lines with gaps, the marks of events, a legend with the values under the cursor.

/* global uPlot */

import { POWERS, styleOf, timeOf } from "./chart.js";
import { clustersOf, levelOf, sentenceOf, signOf, worstOf } from "./events.js";
import { el, fill, setText } from "./dom.js";
import { moment } from "./format.js";

const NEAR_PX = 7;
const SHARES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];
const LINES = [
  { color: "--rate", dash: [], name: "solid" },
  { color: "--high", dash: [7, 4], name: "dashed" },
  { color: "--limit", dash: [2, 3], name: "dotted" },
  { color: "--near", dash: [10, 3, 2, 3], name: "dash-dot" },
];
const WIDTHS = [2, 3.5];

/** The look of a line: four colors, each with a dash of its own, then the same in bold. */
const lookOf = (at) => ({ ...LINES[at % LINES.length], width: WIDTHS[Math.floor(at / LINES.length) % WIDTHS.length] });

/** Indices of values without a neighbor: no line shows them. */
export function alone(values) {
  const isGap = (at) => values[at] === null || values[at] === undefined;
  return values.flatMap((_value, at) => (!isGap(at) && isGap(at - 1) && isGap(at + 1) ? [at] : []));
}

/** The chart in `place`: lines of {name, label}; `text` formats a value; `onPoint` tells the others. */
export function historyChart({ title, note, text, isBytes, isShare, height }) {
  const legend = el("ul", { class: "legend" });
  const place = el("div", { class: "plot", tabindex: "0", role: "group" });
  const root = el("section", { class: "card history" },
    el("div", { class: "history-head" }, el("h3", { title: note ?? null }, title), legend), place);
  const tip = el("div", { class: "tip", hidden: true });
  let chart = null;
  let shape = "";
  let lines = [];
  let figures = null;
  let clusters = [];
  let pointed = null;
  let held = null;

  const widthOf = () => Math.max(220, place.clientWidth);

  function make() {
    chart?.destroy();
    const axis = { stroke: styleOf("--soft"), grid: { stroke: styleOf("--line"), width: 1 }, ticks: { show: false } };
    chart = new uPlot({
      width: widthOf(), height: height(), legend: { show: false },
      padding: [14, null, 0, 0],
      cursor: { sync: { key: "history" }, drag: { x: false, y: false }, points: { size: 7 }, y: false },
      hooks: { draw: [placeMarks], setCursor: [onCursor] },
      scales: {
        x: { range: () => [figures.from_ms / 1000, figures.to_ms / 1000] },
        y: { range: (_chart, _low, high) => [0, isShare ? Math.max(high * 1.15, 0.1) : (high || 1) * 1.15] },
      },
      axes: [
        { ...axis, size: 26, gap: 3, space: (_chart, _axis, low, high) => (high - low > 86_400 ? 110 : 66),
          values: (_chart, moments) => moments.map((moment) => shortTime(moment, (figures.to_ms - figures.from_ms) / 1000)) },
        { ...axis, size: 70, gap: 4, space: 34, values: (_chart, values) => values.map(text), ...(isBytes ? { incrs: POWERS } : isShare ? { incrs: SHARES } : {}) },
      ],
      series: [{}, ...lines.map((line, at) => {
        const look = lookOf(at);
        return {
          label: line.label, stroke: styleOf(look.color), width: look.width, dash: look.dash, spanGaps: false,
          ...(at === 0 && !isShare ? { fill: `color-mix(in srgb, ${styleOf(look.color)} 12%, transparent)` } : {}),
          points: { show: true, size: 4, fill: styleOf(look.color), filter: (made, index) => alone(made.data[index]) },
        };
      })],
    }, dataOf(), place);
    chart.over.append(tip);
    shape = shapeOf();
  }

  const shapeOf = () => `${lines.map((line) => line.name).join()} ${document.documentElement.dataset.theme ?? ""}`;
  const dataOf = () => [figures.ts.map((time) => time / 1000), ...lines.map((line) => figures.values[line.name] ?? figures.ts.map(() => null))];

  /** A line at each moment with events, and on it the sign of the worst one. */
  function placeMarks(made) {
    for (const old of made.over.querySelectorAll(".event-mark")) old.remove();
    const perPixel = (figures.to_ms - figures.from_ms) / Math.max(1, made.over.clientWidth);
    clusters = clustersOf(figures.events, perPixel * NEAR_PX);
    for (const cluster of clusters) {
      const left = made.valToPos(cluster.ts / 1000, "x");
      if (left < 0 || left > made.over.clientWidth) continue;
      const worst = worstOf(cluster);
      const mark = el("span", { class: "event-mark", "data-level": levelOf(worst.kind), "data-kind": worst.kind, "aria-hidden": "true" }, el("span", {}, signOf(worst.kind)));
      mark.classList.toggle("is-pointed", pointed !== null && cluster.events.includes(pointed));
      mark.style.left = `${left}px`;
      made.over.append(mark);
    }
  }

  function onCursor(made) {
    const at = made.cursor.idx;
    drawLegend(made.cursor.left >= 0 ? at : null);
    const isOwn = place.matches(":hover") || document.activeElement === place;
    showTip(isOwn && made.cursor.left >= 0 ? made.cursor.left : null);
  }

  /** The events beside the cursor. */
  function showTip(left) {
    const near = left === null ? undefined
      : clusters.find((cluster) => cluster.events.some((each) => Math.abs(chart.valToPos(each.ts / 1000, "x") - left) <= NEAR_PX));
    tip.hidden = near === undefined;
    if (near === undefined) return;
    const shown = near.events.slice(0, 6);
    fill(tip, shown.map((each) => el("p", {}, el("strong", {}, signOf(each.kind)), ` ${moment(each.ts)} ${sentenceOf(each)}`)),
      near.events.length > shown.length && el("p", {}, `and ${near.events.length - shown.length} more`));
    const isRight = left > chart.over.clientWidth / 2;
    tip.style.left = isRight ? "auto" : `${left + 10}px`;
    tip.style.right = isRight ? `${chart.over.clientWidth - left + 10}px` : "auto";
  }

  /** The values at an index, or the newest ones. */
  function drawLegend(at) {
    const ms = at === null || at === undefined ? null : figures.ts[at];
    const shown = lines.map((line) => {
      const values = figures.values[line.name] ?? [];
      return values[ms === null ? values.length - 1 : at] ?? null;
    });
    lines.forEach((line, index) => {
      setText(line.value, shown[index] === null ? "-" : text(shown[index]));
    });
    place.setAttribute("aria-label", `${title}${ms === null ? " now" : ` at ${moment(ms)}`}: ${
      lines.map((line, index) => `${line.label} ${shown[index] === null ? "unknown" : text(shown[index])}`).join(", ")}`);
  }

  /** The arrow keys move the cursor from sample to sample, with those of the other charts. */
  place.addEventListener("keydown", (event) => {
    const last = figures === null ? -1 : figures.ts.length - 1;
    const now = chart?.cursor.left >= 0 ? chart.cursor.idx : last;
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    held = figures.ts[Math.min(last, Math.max(0, next))];
    moveCursor();
  });
  place.addEventListener("blur", () => {
    held = null;
    chart?.setCursor({ left: -10, top: -10 }, true, true);
  });
  place.addEventListener("pointermove", () => { held = null; });

  /** Keeps the cursor of the keyboard on its sample, which moves to the left as time passes. */
  function moveCursor() {
    chart.setCursor({ left: chart.valToPos(held / 1000, "x"), top: 10 }, true, true);
  }

  return {
    root,
    update(newFigures, newLines) {
      figures = newFigures;
      if (newLines.map((line) => line.name).join() !== lines.map((line) => line.name).join()) {
        lines = newLines.map((line) => ({ ...line, value: el("b", {}, "-") }));
        fill(legend, lines.map((line, at) => {
          const look = lookOf(at);
          const swatch = el("span", { class: "swatch", "data-look": look.name, "data-bold": look.width > 2, "aria-hidden": "true" });
          swatch.style.setProperty("--of", `var(${look.color})`);
          return el("li", {}, swatch, line.label, " ", line.value);
        }));
      }
      if (chart === null || shape !== shapeOf()) make();
      else chart.setData(dataOf());
      if (held !== null) moveCursor();
      drawLegend(chart.cursor.left >= 0 ? chart.cursor.idx : null);
    },
    point(event) {
      pointed = event;
      if (chart !== null) placeMarks(chart);
    },
    resize: () => chart?.setSize({ width: widthOf(), height: height() }),
    close: () => chart?.destroy(),
  };
}

function shortTime(moment, span) {
  const then = new Date(moment * 1000);
  if (span <= 86_400) return timeOf(moment, span);
  return then.getHours() === 0 ? then.toLocaleDateString(undefined, { day: "numeric", month: "short" })
    : `${then.toLocaleDateString(undefined, { day: "numeric", month: "short" })} ${timeOf(moment, 86_400)}`;
}
